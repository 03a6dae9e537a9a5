//! `explain --output=plaintext-openapiv2`: the documentation in the older format.

use object::{Value, quote::quote};

use super::{Schemas, wrap};
use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
    resources::Resource,
};

/// Prints the documentation of the field at `path` of a kind.
pub(super) fn print(
    call: &Invocation<'_>,
    resource: &Resource,
    schemas: &Schemas<'_>,
    schema: &Value,
    path: &str,
) -> Result {
    let mut at = schema.clone();
    let (mut last, mut description) = ("", String::new());
    for field in path.split('.').filter(|field| !field.is_empty()) {
        let inside = schemas.inside(&at);
        let found = inside["properties"][field].clone();
        if found.is_null() {
            return Err(CommandError::error(format!("field {} does not exist", quote(field))));
        }
        found["description"].as_str().unwrap_or_default().clone_into(&mut description);
        (last, at) = (field, found);
    }
    let inside = schemas.inside(&at);
    let plain = inside["properties"].entries().len() == 0;
    let mut text = format!("KIND:     {}\nVERSION:  {}\n\n", resource.kind, resource.api_version());
    if !last.is_empty() {
        let title = if plain { "FIELD:   " } else { "RESOURCE:" };
        text += &format!("{title} {last} <{}>\n\n", name(schemas, &at));
    }
    text += "DESCRIPTION:\n";
    let own = inside["description"].as_str().unwrap_or_default().to_owned();
    let parts: Vec<String> =
        [description, own].into_iter().filter(|part| !part.is_empty()).collect();
    let shown = if parts.len() == 2 && parts[0] == parts[1] {
        parts[0].clone()
    } else if parts.is_empty() {
        "<empty>".to_owned()
    } else {
        parts.join("\n\n")
    };
    text += &(wrap(&shown, 5, 80) + "\n");
    if !plain {
        text += "FIELDS:\n";
        fields(schemas, &inside, 1, call.flags.is_true("recursive"), &mut Vec::new(), &mut text);
    }
    call.print(&text);
    Ok(())
}

/// The name of a type: `string`, `[]Object`, `map[string]string`.
fn name(schemas: &Schemas<'_>, schema: &Value) -> String {
    let schema = schemas.follow(schema);
    let inner = &schema["additionalProperties"];
    match schema["type"].as_str() {
        Some("array") => format!("[]{}", name(schemas, &schema["items"])),
        Some("object") if inner.is_object() && schema["properties"].is_null() => {
            format!("map[string]{}", name(schemas, inner))
        }
        Some("object") if schema["properties"].is_null() => "map[string]".to_owned(),
        Some("object") => "Object".to_owned(),
        Some(plain) => plain.to_owned(),
        None if !schema["oneOf"].is_null()
            || schema["x-kubernetes-int-or-string"].as_bool() == Some(true) =>
        {
            "string".to_owned()
        }
        None => "Object".to_owned(),
    }
}

#[expect(clippy::too_many_arguments, reason = "where it is, and what is printed")]
fn fields(
    schemas: &Schemas<'_>,
    schema: &Value,
    level: usize,
    recursive: bool,
    above: &mut Vec<Value>,
    text: &mut String,
) {
    let indent = "   ".repeat(level);
    for (field, about) in schema["properties"].entries() {
        let inside = schemas.inside(about);
        let type_name = name(schemas, about);
        if recursive {
            *text += &format!("{indent}{field}\t<{type_name}>\n");
            if inside["properties"].entries().len() > 0 && !above.contains(&inside) {
                above.push(inside.clone());
                fields(schemas, &inside, level + 1, recursive, above, text);
                above.pop();
            }
            continue;
        }
        let required = schema["required"].items().iter().any(|one| one.as_str() == Some(field));
        let mark = if required { " -required-" } else { "" };
        *text += &format!("{indent}{field}\t<{type_name}>{mark}\n");
        let description = about["description"]
            .as_str()
            .or(inside["description"].as_str())
            .unwrap_or("<no description>");
        *text += &(wrap(description, 5, 80) + "\n");
    }
}
