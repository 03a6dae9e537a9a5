//! JSONPath templates, rendered as kubectl prints them.

pub(crate) use ::jsonpath::{Template, format_value};
use object::Value;

use super::json;

/// Renders each part of the template as a JSON list of its results.
pub(crate) fn render_json(template: &Template, value: &Value) -> Result<String, String> {
    let found = template.find_results(value)?;
    Ok(found.into_iter().map(|found| json::indented(&Value::List(found.into())) + "\n").collect())
}
