//! Templates in JSONPath, rendered as kubectl shows them.

pub(crate) use ::jsonpath::{Template, format_value};
use object::Value;

use super::json;

/// The text where each part is a JSON list of what it finds.
pub(crate) fn render_json(template: &Template, value: &Value) -> Result<String, String> {
    let found = template.find_results(value)?;
    Ok(found.into_iter().map(|found| json::indented(&Value::List(found.into())) + "\n").collect())
}
