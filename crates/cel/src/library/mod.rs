//! The function libraries, one per file.

mod authorizer;
mod convert;
mod format;
mod ip;
mod json_patch;
mod lists;
mod named_format;
mod opaque;
mod operators;
mod optional;
mod quantity;
mod regex;
mod semver;
mod sets;
mod strings;
mod time;
mod url;

pub use self::{
    authorizer::{AccessRequest, Authorizer, Decision, ResourceAttributes},
    url::Url,
};
pub(crate) use self::{
    format::check as check_format, json_patch::JSON_PATCH, lists::INCLUDES,
    named_format::parse_openapi_duration, opaque::Opaque,
};

use crate::{
    error::Error,
    function::Library,
    value::{List, Text, Value},
};

/// The libraries of every environment.
pub(crate) const BASE: &[Library] = &[
    operators::FUNCTIONS,
    convert::FUNCTIONS,
    time::FUNCTIONS,
    strings::FUNCTIONS,
    lists::FUNCTIONS,
    sets::FUNCTIONS,
    optional::FUNCTIONS,
    regex::FUNCTIONS,
    url::FUNCTIONS,
    quantity::FUNCTIONS,
    ip::FUNCTIONS,
    named_format::FUNCTIONS,
    semver::FUNCTIONS,
    authorizer::FUNCTIONS,
];

type Outcome<'a> = Result<Value<'a>, Error>;

fn text_of<'a, 'v>(value: &'v Value<'a>) -> Result<&'v Text<'a>, Error> {
    if let Value::Text(text) = value { Ok(text) } else { Err(Error::no_overload()) }
}

fn int_of(value: &Value<'_>) -> Result<i64, Error> {
    value.as_int().ok_or_else(Error::no_overload)
}

fn list_of<'a, 'v>(value: &'v Value<'a>) -> Result<&'v List<'a>, Error> {
    if let Value::List(list) = value { Ok(list) } else { Err(Error::no_overload()) }
}

fn int(n: usize) -> Value<'static> {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}
