//! `explain`: prints the documentation of a kind's fields, from the server's OpenAPI.

mod openapi_v2;

use object::{Value, quote::quote};

use super::Command;
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
};

pub(crate) const COMMAND: Command = Command::new(
    "explain",
    &[&[
        Flag::text("api-version"),
        Flag::bool("recursive").short('R'),
        Flag::new("max-depth", FlagType::Int64),
        Flag::text("output").short('o').default("plaintext"),
    ]],
    run,
);

#[expect(clippy::too_many_lines, reason = "one sheet, from top to bottom")]
fn run(call: &Invocation<'_>) -> Result {
    let [path] = call.args() else {
        return Err(CommandError::error(if call.args().is_empty() {
            "You must specify the type of resource to explain. Use \"kubectl api-resources\" for a complete list of supported resources."
        } else {
            "We accept only this format: explain RESOURCE"
        }));
    };
    match call.flags.text("output") {
        "plaintext" | "plaintext-openapiv2" => {}
        other => return Err(CommandError::error(format!("unrecognized format: {other}"))),
    }
    let depth = call.flags.int("max-depth");
    if depth > 0 && !call.flags.is_true("recursive") {
        return Err(CommandError::error("--max-depth requires --recursive"));
    }
    if depth < 0 {
        return Err(CommandError::error("--max-depth must be non-negative"));
    }
    if path.starts_with('.') || path.contains('[') {
        return Err(CommandError::error("invalid jsonpath syntax, first node must be field node"));
    }
    let known = call.resources()?;
    // `deployments.apps` is a resource with its group, `deployments.spec` a field.
    let names = known.all.iter().map(|r| format!("{}.{}", r.plural, r.group));
    let whole = names
        .filter(|name| !name.ends_with('.'))
        .find(|name| path == name || path.starts_with(&format!("{name}.")));
    let (word, fields) = match &whole {
        Some(name) => (name.as_str(), path[name.len()..].trim_start_matches('.')),
        None => path.split_once('.').map_or((path.as_str(), ""), |(word, rest)| (word, rest)),
    };
    let mut resource = known.find(word).map_err(|fail| CommandError::Raw(fail.message()))?.clone();
    call.warn_ambiguous(word)?;
    let version = call.flags.text("api-version");
    if !version.is_empty() {
        if version.matches('/').count() > 1 {
            return Err(CommandError::error(format!("unexpected GroupVersion string: {version}")));
        }
        let (group, number) = version.split_once('/').unwrap_or(("", version));
        let found = known
            .all
            .iter()
            .find(|r| r.plural == resource.plural && r.group == group && r.version == number);
        let missing = || {
            let gvr = format!("{group}/{number}, Resource={}", resource.plural);
            let served = known.all.iter().any(|r| r.group == group && r.version == number);
            CommandError::error(if served {
                format!("GVR ({gvr}) not found in OpenAPI schema")
            } else {
                format!("couldn't find resource for {}", quote(&gvr))
            })
        };
        resource = found.ok_or_else(missing)?.clone();
    }
    let root = if resource.group.is_empty() {
        "api".to_owned()
    } else {
        format!("apis/{}", resource.group)
    };
    let document = call.server()?.get(&format!("/openapi/v3/{root}/{}", resource.version))?;
    let schemas = Schemas { all: &document["components"]["schemas"] };
    let is_kind = |schema: &Value| {
        schema["x-kubernetes-group-version-kind"].items().iter().any(|gvk| {
            gvk["group"].as_str().unwrap_or_default() == resource.group
                && gvk["version"].as_str() == Some(&resource.version)
                && gvk["kind"].as_str() == Some(&resource.kind)
        })
    };
    let Some((_, schema)) = schemas.all.entries().find(|(_, schema)| is_kind(schema)) else {
        return Err(CommandError::error(format!(
            "GVR ({}) not found in OpenAPI schema",
            resource.gvr()
        )));
    };
    if call.flags.text("output") == "plaintext-openapiv2" {
        return openapi_v2::print(call, &resource, &schemas, schema, fields);
    }
    let mut text = String::new();
    if !resource.group.is_empty() {
        text += &format!("GROUP:      {}\n", resource.group);
    }
    text += &format!("KIND:       {}\nVERSION:    {}\n\n", resource.kind, resource.version);
    let mut at = schema.clone();
    let (mut last, mut description) = (String::new(), String::new());
    for field in fields.split('.').filter(|field| !field.is_empty()) {
        let inside = schemas.inside(&at);
        let Some((_, found)) = inside["properties"].entries().find(|(name, _)| *name == field)
        else {
            call.print(&text);
            // Upstream names the last field of the path.
            let last = fields.rsplit('.').find(|field| !field.is_empty()).unwrap_or(field);
            return Err(CommandError::error(format!("field {} does not exist", quote(last))));
        };
        found["description"].as_str().unwrap_or_default().clone_into(&mut description);
        field.clone_into(&mut last);
        at = found.clone();
    }
    if !last.is_empty() {
        text += &format!("FIELD: {last} <{}>\n", schemas.name(&at));
        text += &enumeration(&at);
        text.push('\n');
    }
    text += "DESCRIPTION:\n";
    let own = schemas.inside(&at)["description"].as_str().unwrap_or_default().to_owned();
    let parts: Vec<String> =
        [description, own].into_iter().filter(|part| !part.is_empty()).collect();
    let shown = if parts.is_empty() {
        "<empty>".to_owned()
    } else if parts.len() == 2 && parts[0] == parts[1] {
        parts[0].clone()
    } else {
        parts.join("\n")
    };
    text += &(wrap(&shown, 4, 80) + "\n");
    let inside = schemas.inside(&at);
    if inside["properties"].entries().len() > 0 {
        text += "FIELDS:\n";
        let depth = match (call.flags.is_true("recursive"), depth) {
            (false, _) => Depth::Flat,
            (true, 0) => Depth::Whole,
            (true, depth) => Depth::Levels(usize::try_from(depth).unwrap_or_default()),
        };
        schemas.fields(&inside, 1, depth, &mut Vec::new(), &mut text);
    }
    call.print(&(text + "\n"));
    Ok(())
}

/// Maximum number of enum values that are printed next to a field.
const ENUM_SHOWN: usize = 4;

/// `ENUM:` and the values, if the field is an enum.
fn enumeration(schema: &Value) -> String {
    let values = schema["enum"].items();
    if values.is_empty() {
        return String::new();
    }
    let lines: String = values
        .iter()
        .map(|value| format!("    {}\n", value.as_str().unwrap_or_default()))
        .collect();
    format!("ENUM:\n{lines}")
}

/// How deep fields are printed.
#[derive(Clone, Copy, PartialEq)]
enum Depth {
    /// One level, with descriptions.
    Flat,
    Whole,
    Levels(usize),
}

/// The schemas of an OpenAPI document.
struct Schemas<'a> {
    all: &'a Value,
}

impl Schemas<'_> {
    /// Resolves a reference.
    fn follow(&self, schema: &Value) -> Value {
        let reference = schema["$ref"]
            .as_str()
            .or_else(|| schema["allOf"].items().first().and_then(|first| first["$ref"].as_str()));
        match reference.and_then(|path| path.rsplit('/').next()) {
            Some(name) => self.all[name].clone(),
            None => schema.clone(),
        }
    }

    /// The schema that has the fields: of the items of a list, or of the values of a map.
    fn inside(&self, schema: &Value) -> Value {
        let schema = self.follow(schema);
        if !schema["items"].is_null() {
            return self.inside(&schema["items"]);
        }
        if matches!(schema["additionalProperties"], Value::Object(_) | Value::Map(_))
            && schema["properties"].is_null()
        {
            return self.inside(&schema["additionalProperties"]);
        }
        schema
    }

    /// The name of a type: `string`, `[]Container`, `map[string]string`, `ObjectMeta`.
    fn name(&self, schema: &Value) -> String {
        let reference = schema["$ref"]
            .as_str()
            .or_else(|| schema["allOf"].items().first().and_then(|first| first["$ref"].as_str()));
        if let Some(name) = reference.and_then(|path| path.rsplit('/').next()) {
            let target = &self.all[name];
            let short = name.rsplit('.').next().unwrap_or_default();
            let plain = target["properties"].is_null()
                && matches!(
                    target["type"].as_str(),
                    Some("string" | "integer" | "number" | "boolean")
                );
            return match (plain, short) {
                (true, "Time" | "MicroTime") => "string".to_owned(),
                (_, short) => short.to_owned(),
            };
        }
        match schema["type"].as_str() {
            Some("array") => format!("[]{}", self.name(&schema["items"])),
            Some("object")
                if matches!(schema["additionalProperties"], Value::Object(_) | Value::Map(_)) =>
            {
                format!("map[string]{}", self.name(&schema["additionalProperties"]))
            }
            Some("object") => "Object".to_owned(),
            Some(other) => other.to_owned(),
            None if schema["x-kubernetes-int-or-string"].as_bool() == Some(true) => {
                "IntOrString".to_owned()
            }
            None => "Object".to_owned(),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "where it is, and what is printed")]
    fn fields(
        &self,
        schema: &Value,
        level: usize,
        depth: Depth,
        path: &mut Vec<String>,
        text: &mut String,
    ) {
        let required: Vec<&str> =
            schema["required"].items().iter().filter_map(Value::as_str).collect();
        let indent = "  ".repeat(level);
        for (name, field) in schema["properties"].entries() {
            let type_name = self.name(field);
            let mark = if required.contains(&name) { " -required-" } else { "" };
            *text += &format!("{indent}{name}\t<{type_name}>{mark}\n");
            let values: Vec<&str> =
                field["enum"].items().iter().filter_map(Value::as_str).collect();
            if !values.is_empty() {
                let more = if values.len() > ENUM_SHOWN { ", ...." } else { "" };
                let shown = &values[..values.len().min(ENUM_SHOWN)];
                *text += &format!("{indent}enum: {}{more}\n", shown.join(", "));
            }
            let inside = self.inside(field);
            if depth == Depth::Flat {
                let description = field["description"]
                    .as_str()
                    .or(inside["description"].as_str())
                    .unwrap_or("<no description>");
                *text += &(wrap(description, 2 * level + 2, 80) + "\n");
            } else {
                let element = type_name.rsplit(']').next().unwrap_or_default().to_owned();
                let deeper = !matches!(depth, Depth::Levels(most) if level >= most);
                let again = element != "Object" && path.contains(&element);
                if inside["properties"].entries().len() > 0 && !again && deeper {
                    path.push(element);
                    self.fields(&inside, level + 1, depth, path, text);
                    path.pop();
                }
            }
        }
    }
}

/// Wraps text into lines of a width, each indented.
fn wrap(text: &str, indent: usize, width: usize) -> String {
    let mut out = String::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && indent + line.len() + 1 + word.len() > width {
                out += &format!("{}{line}\n", " ".repeat(indent));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        out += &if line.is_empty() {
            "\n".to_owned()
        } else {
            format!("{}{line}\n", " ".repeat(indent))
        };
    }
    out
}
