//! The `jsonpatch` library.

use super::text_of;
use crate::{
    error::Error,
    function::{Function, Library},
    value::Value,
};

pub(crate) const JSON_PATCH: Library = &[Function {
    name: "jsonpatch.escapeKey",
    overloads: &[("string_jsonpatch_escapeKey_string", "(string) -> string")],
    body: |_, args| {
        let [key] = args else { return Err(Error::no_overload()) };
        let escaped = text_of(key)?.replace('~', "~0").replace('/', "~1");
        Ok(Value::text(escaped))
    },
}];
