//! The regex library: `find` and `findAll`.

use super::{Outcome, int_of, text_of};
use crate::{error::Error, eval::EvalContext, function::Function, value::Value};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "find",
        overloads: &[("string_find_string", "string.(string) -> string")],
        body: find,
    },
    Function {
        name: "findAll",
        overloads: &[
            ("string_find_all_string", "string.(string) -> list(string)"),
            ("string_find_all_string_int", "string.(string, int) -> list(string)"),
        ],
        body: find_all,
    },
];

fn illegal(error: &str) -> Error {
    Error::new(format!("Illegal regex: {error}"))
}

fn find<'a>(context: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [text, pattern] = args else { return Err(Error::no_overload()) };
    let (text, pattern) = (text_of(text)?, text_of(pattern)?);
    let regex = context.pattern(pattern)?.map_err(|error| illegal(&error))?;
    let found = regex.find(text).map_err(|why| Error::new(why.to_string()))?;
    Ok(Value::text(found.unwrap_or_default()))
}

fn find_all<'a>(context: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let (text, pattern, most) = match &*args {
        [text, pattern] => (text_of(text)?, text_of(pattern)?, -1),
        [text, pattern, most] => (text_of(text)?, text_of(pattern)?, int_of(most)?),
        _ => return Err(Error::no_overload()),
    };
    let regex = context.pattern(pattern)?.map_err(|error| illegal(&error))?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let found = regex.find_all(text, most).map_err(|why| Error::new(why.to_string()))?;
    Ok(Value::list(found.into_iter().map(Value::text).collect()))
}
