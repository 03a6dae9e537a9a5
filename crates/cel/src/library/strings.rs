//! The strings library.

use super::{Outcome, format, int, int_of, list_of, text_of};
use crate::{
    error::Error,
    eval::{EvalContext, LARGEST_VALUE},
    function::Function,
    value::{Text, Value},
};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "contains",
        overloads: &[("contains_string", "string.(string) -> bool")],
        body: |_, args| test(args, |text, part| text.contains(part)),
    },
    Function {
        name: "endsWith",
        overloads: &[("ends_with_string", "string.(string) -> bool")],
        body: |_, args| test(args, |text, part| text.ends_with(part)),
    },
    Function {
        name: "startsWith",
        overloads: &[("starts_with_string", "string.(string) -> bool")],
        body: |_, args| test(args, |text, part| text.starts_with(part)),
    },
    Function {
        name: "matches",
        overloads: &[
            ("matches", "(string, string) -> bool"),
            ("matches_string", "string.(string) -> bool"),
        ],
        body: matches,
    },
    Function {
        name: "charAt",
        overloads: &[("string_char_at_int", "string.(int) -> string")],
        body: char_at,
    },
    Function {
        name: "indexOf",
        overloads: &[
            ("string_index_of_string", "string.(string) -> int"),
            ("string_index_of_string_int", "string.(string, int) -> int"),
        ],
        body: index_of,
    },
    Function {
        name: "lastIndexOf",
        overloads: &[
            ("string_last_index_of_string", "string.(string) -> int"),
            ("string_last_index_of_string_int", "string.(string, int) -> int"),
        ],
        body: last_index_of,
    },
    Function {
        name: "lowerAscii",
        overloads: &[("string_lower_ascii", "string.() -> string")],
        body: |_, args| change(args, str::to_ascii_lowercase),
    },
    Function {
        name: "upperAscii",
        overloads: &[("string_upper_ascii", "string.() -> string")],
        body: |_, args| change(args, str::to_ascii_uppercase),
    },
    Function {
        name: "trim",
        overloads: &[("string_trim", "string.() -> string")],
        body: |_, args| change(args, |text| text.trim().to_owned()),
    },
    Function {
        name: "replace",
        overloads: &[
            ("string_replace_string_string", "string.(string, string) -> string"),
            ("string_replace_string_string_int", "string.(string, string, int) -> string"),
        ],
        body: replace,
    },
    Function {
        name: "split",
        overloads: &[
            ("string_split_string", "string.(string) -> list(string)"),
            ("string_split_string_int", "string.(string, int) -> list(string)"),
        ],
        body: split,
    },
    Function {
        name: "substring",
        overloads: &[
            ("string_substring_int", "string.(int) -> string"),
            ("string_substring_int_int", "string.(int, int) -> string"),
        ],
        body: substring,
    },
    Function {
        name: "join",
        overloads: &[
            ("list_join", "list(string).() -> string"),
            ("list_join_string", "list(string).(string) -> string"),
        ],
        body: join,
    },
    Function {
        name: "strings.quote",
        overloads: &[("strings_quote", "(string) -> string")],
        body: |_, args| change(args, quote),
    },
    Function {
        name: "format",
        overloads: &[("string_format", "string.(list(dyn)) -> string")],
        body: |_, args| {
            let [text, values] = args else { return Err(Error::no_overload()) };
            let values = list_of(values)?.values()?;
            format::format(text_of(text)?, &values).map(Value::text)
        },
    },
];

fn test<'a>(args: &[Value<'a>], holds: fn(&str, &str) -> bool) -> Outcome<'a> {
    let [text, part] = args else { return Err(Error::no_overload()) };
    Ok(Value::Bool(holds(text_of(text)?, text_of(part)?)))
}

fn change<'a>(args: &[Value<'a>], how: fn(&str) -> String) -> Outcome<'a> {
    let [text] = args else { return Err(Error::no_overload()) };
    Ok(Value::text(how(text_of(text)?)))
}

fn matches<'a>(context: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [text, pattern] = args else { return Err(Error::no_overload()) };
    let (text, pattern) = (text_of(text)?, text_of(pattern)?);
    let regex = context.pattern(pattern)?.map_err(Error::new)?;
    let found = regex.is_match(text).map_err(|why| Error::new(why.to_string()))?;
    Ok(Value::Bool(found))
}

fn out_of_range(index: i64) -> Error {
    Error::new(format!("index out of range: {index}"))
}

fn char_at<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [text, index] = args else { return Err(Error::no_overload()) };
    let (text, index) = (text_of(text)?, int_of(index)?);
    let length = text.chars().count();
    let at = usize::try_from(index).ok().filter(|at| *at <= length);
    let at = at.ok_or_else(|| out_of_range(index))?;
    Ok(Value::text(text.chars().nth(at).map(String::from).unwrap_or_default()))
}

fn index_of<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let (text, part, offset) = search(args)?;
    let offset = offset.unwrap_or_default();
    let from = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    let text: Vec<char> = text.chars().collect();
    let part: Vec<char> = part.chars().collect();
    if part.is_empty() {
        return Ok(int(from.min(text.len())));
    }
    let found = text.windows(part.len()).skip(from).position(|window| window == part);
    Ok(found.map_or(Value::Int(-1), |at| int(from + at)))
}

fn last_index_of<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let (text, part, offset) = search(args)?;
    let text: Vec<char> = text.chars().collect();
    let part: Vec<char> = part.chars().collect();
    let last = match offset {
        Some(offset) => usize::try_from(offset).map_err(|_| out_of_range(offset))?,
        None => text.len(),
    };
    if part.is_empty() {
        return Ok(int(last.min(text.len())));
    }
    if offset.is_some() && last >= text.len() {
        return Ok(Value::Int(-1));
    }
    let found = text.windows(part.len()).take(last + 1).rposition(|window| window == part);
    Ok(found.map_or(Value::Int(-1), int))
}

type Search<'a, 'v> = (&'v Text<'a>, &'v Text<'a>, Option<i64>);

fn search<'a, 'v>(args: &'v [Value<'a>]) -> Result<Search<'a, 'v>, Error> {
    match args {
        [text, part] => Ok((text_of(text)?, text_of(part)?, None)),
        [text, part, offset] => Ok((text_of(text)?, text_of(part)?, Some(int_of(offset)?))),
        _ => Err(Error::no_overload()),
    }
}

fn replace<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let (text, old, new) = match &*args {
        [text, old, new, ..] => (text_of(text)?, text_of(old)?, text_of(new)?),
        _ => return Err(Error::no_overload()),
    };
    let count = args.get(3).map(int_of).transpose()?;
    let most = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let times = text.matches(&**old).take(most).count();
    fits(times.saturating_mul(new.len()).saturating_add(text.len()))?;
    let replaced = match count.map(usize::try_from) {
        Some(Ok(count)) => text.replacen(&**old, new, count),
        _ => text.replace(&**old, new),
    };
    Ok(Value::text(replaced))
}

fn split<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let (text, separator) = match &*args {
        [text, separator, ..] => (text_of(text)?, text_of(separator)?),
        _ => return Err(Error::no_overload()),
    };
    let most = args.get(2).map(int_of).transpose()?.unwrap_or(-1);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let parts: Vec<String> = match most {
        0 => Vec::new(),
        most if separator.is_empty() => {
            let count = text.chars().count().min(most);
            let mut parts: Vec<String> =
                text.chars().take(count.saturating_sub(1)).map(String::from).collect();
            let rest: String = text.chars().skip(parts.len()).collect();
            if count > 0 {
                parts.push(rest);
            }
            parts
        }
        usize::MAX => text.split(&**separator).map(str::to_owned).collect(),
        most => text.splitn(most, &**separator).map(str::to_owned).collect(),
    };
    Ok(Value::list(parts.into_iter().map(Value::text).collect()))
}

fn substring<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let (text, start, end) = match &*args {
        [text, start] => (text_of(text)?, int_of(start)?, None),
        [text, start, end] => (text_of(text)?, int_of(start)?, Some(int_of(end)?)),
        _ => return Err(Error::no_overload()),
    };
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let last = end.unwrap_or(length);
    if start > last && end.is_some() {
        let message = format!("invalid substring range. start: {start}, end: {last}");
        return Err(Error::new(message));
    }
    for at in [start, last] {
        if !(0..=length).contains(&at) {
            return Err(out_of_range(at));
        }
    }
    let (start, last) = (usize::try_from(start).unwrap_or(0), usize::try_from(last).unwrap_or(0));
    Ok(Value::text(text.chars().skip(start).take(last - start).collect::<String>()))
}

fn join<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let (list, separator) = match &*args {
        [list] => (list_of(list)?, ""),
        [list, separator] => (list_of(list)?, &**text_of(separator)?),
        _ => return Err(Error::no_overload()),
    };
    let mut joined = String::new();
    for (at, value) in list.values()?.iter().enumerate() {
        fits(joined.len().saturating_add(separator.len()))?;
        if at > 0 {
            joined.push_str(separator);
        }
        let text = value.as_text();
        let invalid = || Error::new(format!("join: invalid input: {}", value.type_name()));
        joined.push_str(text.ok_or_else(invalid)?);
    }
    Ok(Value::text(joined))
}

/// Whether a string of this length may be created. The cost of a call does not depend on the length of its result, so
/// the length is checked beforehand.
fn fits(length: usize) -> Result<(), Error> {
    if length > LARGEST_VALUE { Err(Error::cost()) } else { Ok(()) }
}

/// Quotes a string with CEL's escapes.
fn quote(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
