//! The patch types of the API: JSON patch, JSON merge patch and strategic merge patch, and the
//! three-way patch of `kubectl apply`.
//!
//! A patch that fails changes nothing. The result has not been validated: it passes through
//! `coerce` like every object that a client sends.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod diff;
mod go_errors;
mod json;
mod lazy;
mod lists;
mod merge;
mod patch_schema;
mod strategic;
mod three_way;

use object::{NULL, Status, StatusDetails, Value, from_json, to_json};

pub(crate) use self::patch_schema::{go_float, go_type, is_replaced};
pub use self::{
    go_errors::{from_unstructured, strict_patch_errors, to_go_json},
    json::{apply_json_patch, apply_json_patch_text},
    merge::apply_merge_patch_text,
    patch_schema::format_go_v as printed,
    strategic::apply_strategic_merge_patch,
    three_way::create_three_way_patch,
};

/// Why a patch was rejected; each variant has its HTTP status code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is malformed: 400.
    #[error("{0}")]
    Malformed(String),
    /// The patch exceeds a limit: 413.
    #[error("{0}")]
    TooLarge(String),
    /// The patch does not apply to the object: 422.
    #[error("{0}")]
    Unprocessable(String),
    /// A `test` operation of a JSON patch found another value: 422.
    #[error("{0}")]
    TestFailed(String),
    /// The patch cannot be merged; upstream answers with an internal error: 500.
    #[error("{0}")]
    Failed(String),
}

impl PatchError {
    /// The HTTP status code.
    pub fn code(&self) -> i32 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooLarge(_) => 413,
            Self::Unprocessable(_) | Self::TestFailed(_) => 422,
            Self::Failed(_) => 500,
        }
    }

    /// The Status of the response, with upstream's message.
    pub fn status(&self) -> Status {
        match self {
            Self::Malformed(why) => Status::bad_request(why.as_str()),
            Self::TooLarge(why) => Status::too_large(format!("Request entity too large: {why}")),
            Self::Unprocessable(_) | Self::TestFailed(_) => Status::failure(
                422,
                "Invalid",
                "the server rejected our request due to an error in our request",
            )
            .with_details(StatusDetails::new()),
            Self::Failed(why) => {
                Status::new().with_status("Failure").with_message(why.as_str()).with_code(500)
            }
        }
    }
}

/// The entry `name`, which may be an explicit `null`; `None` when absent.
fn entry<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    Some(object.get(name)).filter(|value| !std::ptr::eq(*value, &raw const NULL))
}

fn written(value: &Value) -> String {
    String::from_utf8_lossy(&to_json(value)).into_owned()
}

fn read(text: &str) -> Result<Value, PatchError> {
    from_json(text.as_bytes()).map_err(|error| PatchError::Unprocessable(error.to_string()))
}

/// Removes the entry `name`, even an explicit `null`.
fn delete(object: &mut Value, name: &str) {
    if entry(object, name).is_some() {
        object.retain(|other, _| other != name);
    }
}

/// The name of this JSON type in the errors of Go's JSON decoder.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Text(_) => "string",
        Value::List(_) => "array",
        Value::Object(_) | Value::Map(_) => "object",
        Value::Raw(text) if text.starts_with('{') => "object",
        Value::Raw(text) if text.starts_with('[') => "array",
        Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::Raw(_) => "number",
    }
}

/// The error for a patch that must be an object and is not.
pub fn not_an_object(patch: &Value) -> PatchError {
    let found = json_type(patch);
    PatchError::Malformed(format!(
        "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    ))
}
