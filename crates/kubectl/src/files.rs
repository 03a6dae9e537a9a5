//! Manifests: reads the documents that `-f` and `-k` name.

use std::{fs, io::Read as _, path::Path};

use object::{Value, from_json_next, quote::quote, yaml};

use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
};

/// A document with the name of the file it was read from.
pub(crate) type Document = (String, Value);

const LARGEST_INPUT: u64 = 1 << 28;

impl Invocation<'_> {
    /// The documents that `-f` and `-k` name, with lists expanded. A file that does not exist or cannot be read is an
    /// error of the whole; a document that cannot be parsed is an error next to the documents of other files.
    pub(crate) fn documents(&self) -> Result<Vec<Result<Document>>> {
        if self.flags.is_set("kustomize") {
            if !self.flags.all("filename").is_empty() {
                return Err(CommandError::error("only one of -f or -k can be specified"));
            }
            let folder = self.flags.text("kustomize");
            let built = crate::kustomize::build(folder, &mut |text| self.print_err(text));
            let objects = built.map_err(|fail| match fail {
                CommandError::Error(says) if says.starts_with("unable to find one of") => {
                    CommandError::Raw(says)
                }
                other => other,
            })?;
            return Ok(objects.into_iter().map(|object| Ok((folder.to_owned(), object))).collect());
        }
        let mut all = Vec::new();
        let mut found_files = Vec::new();
        for name in self.flags.all("filename") {
            if name == "-" || is_url(name) {
                found_files.push(name.clone());
            } else {
                found_files.extend(found(name, self.flags.is_true("recursive"))?);
            }
        }
        for name in found_files {
            let (source, text) = Self::text_of(&name)?;
            all.extend(parse_documents(&source, &text, self.validates()));
        }
        Ok(all)
    }

    /// Whether documents are validated before they are decoded.
    fn validates(&self) -> bool {
        !matches!(self.flags.text("validate"), "" | "ignore" | "false")
    }

    fn text_of(name: &str) -> Result<(String, String)> {
        if name == "-" {
            let mut text = String::new();
            let mut input = std::io::stdin().lock().take(LARGEST_INPUT);
            input
                .read_to_string(&mut text)
                .map_err(|error| CommandError::error(error.to_string()))?;
            return Ok(("STDIN".to_owned(), text));
        }
        if is_url(name) {
            return Ok((name.to_owned(), crate::fetch::text(name)?));
        }
        let text = fs::read_to_string(name).map_err(|error| {
            CommandError::error(format!("open {name}: {}", go_io_error(&error)))
        })?;
        Ok((name.to_owned(), text))
    }
}

pub(crate) fn is_url(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

/// The message of an I/O error, short and in lower case as in Go.
pub(crate) fn go_io_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.to_lowercase()
}

/// The files that a path or a pattern matches.
pub(crate) fn found(name: &str, recursive: bool) -> Result<Vec<String>> {
    let missing = || CommandError::error(format!("the path {} does not exist", quote(name)));
    let about = match fs::metadata(name) {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let names = matching(name);
            if names.is_empty() {
                return Err(missing());
            }
            let each = names.iter().map(|name| found(name, recursive));
            return Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect());
        }
        Err(error) => {
            return Err(CommandError::error(format!(
                "the path {} cannot be accessed: {}",
                quote(name),
                go_io_error(&error)
            )));
        }
    };
    if !about.is_dir() {
        return Ok(vec![name.to_owned()]);
    }
    let mut all = Vec::new();
    walk(Path::new(name), recursive, &mut all)
        .map_err(|error| CommandError::error(format!("error reading {}: {error}", quote(name))))?;
    if all.is_empty() {
        return Err(CommandError::error(format!(
            "error reading [{name}]: recognized file extensions are [.json .yaml .yml]"
        )));
    }
    Ok(all)
}

/// The files that match a pattern with `*`, `?` and `[…]` in its last segment.
fn matching(pattern: &str) -> Vec<String> {
    if !pattern.contains(['*', '?', '[']) {
        return Vec::new();
    }
    let (folder, last) =
        pattern.rsplit_once('/').map_or((None, pattern), |(dir, last)| (Some(dir), last));
    let Ok(entries) = fs::read_dir(folder.unwrap_or(".")) else { return Vec::new() };
    let mut regex = String::from("^");
    for c in last.chars() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '[' | ']' | '-' | '^' => regex.push(c),
            c => regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    let Ok(regex) = regex::Regex::new(&(regex + "$")) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut fitting: Vec<String> = names
        .filter(|name| regex.is_match(name))
        .map(|name| folder.map_or(name.clone(), |folder| format!("{folder}/{name}")))
        .collect();
    fitting.sort();
    fitting
}

fn walk(folder: &Path, recursive: bool, found: &mut Vec<String>) -> std::io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            if recursive {
                walk(&path, recursive, found)?;
            }
        } else if path.extension().is_some_and(|e| e == "json" || e == "yaml" || e == "yml") {
            found.push(path.display().to_string());
        }
    }
    Ok(())
}

/// The documents of a YAML text.
fn yaml_documents(text: &str) -> std::result::Result<Vec<Value>, String> {
    let documents = yaml::split_documents(text).map_err(|error| error.to_string())?;
    let objects = documents.into_iter().map(|document| {
        yaml::from_yaml_lenient(document)
            .map_err(|error| format!("error converting YAML to JSON: {error}"))
    });
    objects.collect()
}

/// The objects in a text, YAML or JSON. Reading stops at the first document that fails validation.
pub(crate) fn parse_documents(source: &str, text: &str, validates: bool) -> Vec<Result<Document>> {
    let objects = match parse(text) {
        Ok(objects) => objects,
        Err(why) => {
            return vec![Err(CommandError::error(format!("error parsing {source}: {why}")))];
        }
    };
    let mut all = Vec::new();
    for object in objects.into_iter().filter(|object| !object.is_null()) {
        if validates && let Some(why) = invalid(&object) {
            all.push(Err(CommandError::error(format!(
                "error validating {}: error validating data: {why}; if you choose to ignore these errors, turn validation off with --validate=false",
                quote(source)
            ))));
            return all;
        }
        let kind = object["kind"].as_str().unwrap_or_default();
        if kind.ends_with("List") && matches!(object["items"], Value::List(_)) {
            all.extend(
                object["items"].items().iter().map(|item| Ok((source.to_owned(), item.clone()))),
            );
            continue;
        }
        all.push(named(source, object));
    }
    all
}

fn parse(text: &str) -> std::result::Result<Vec<Value>, String> {
    if !text.trim_start().starts_with('{') {
        return yaml_documents(text);
    }
    let (mut objects, mut rest) = (Vec::new(), text);
    while let Some(object) = from_json_next(&mut rest) {
        match object {
            Ok(object) => objects.push(object),
            Err(error) => {
                // YAML in flow style starts like JSON.
                return yaml_documents(text)
                    .ok()
                    .filter(|all| all.iter().all(|object| object.is_object() || object.is_null()))
                    .ok_or_else(|| match error.to_string().as_str() {
                        "unexpected end of JSON input" => "unexpected EOF".to_owned(),
                        error => format!("json: {error}"),
                    });
            }
        }
    }
    Ok(objects)
}

/// Why a document is not an object that can be sent to the server.
fn invalid(object: &Value) -> Option<&'static str> {
    if !object.is_object() {
        return Some("invalid object to validate");
    }
    match (&object["apiVersion"], &object["kind"]) {
        (Value::Text(_), Value::Text(_)) => None,
        (Value::Null, Value::Null) => Some("[apiVersion not set, kind not set]"),
        (Value::Null, _) => Some("apiVersion not set"),
        (_, Value::Null) => Some("kind not set"),
        (Value::Text(_), _) => Some("kind isn't string type"),
        _ => Some("apiVersion isn't string type"),
    }
}

/// Fails if the object has no kind or apiVersion.
fn named(source: &str, object: Value) -> Result<Document> {
    let other = match &object {
        Value::List(_) => "array",
        Value::Text(_) => "string",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => "number",
        _ => "",
    };
    if !other.is_empty() {
        return Err(CommandError::error(format!(
            "unable to decode {}: json: cannot unmarshal {other} into Go value of type unstructured.detector",
            quote(source)
        )));
    }
    for (field, missing) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
        if object[field].as_str().unwrap_or_default().is_empty() {
            return Err(CommandError::error(format!(
                "unable to decode {}: Object '{missing}' is missing in '{}'",
                quote(source),
                crate::print::json::compact(&object)
            )));
        }
    }
    Ok((source.to_owned(), object))
}

/// Fails if the metadata has fields of the wrong type.
pub(crate) fn check_metadata(source: &str, object: &Value) -> Result {
    let mut partial = Value::object();
    partial["metadata"] = object["metadata"].clone();
    let kind = schema::ResourceDefinition::from_kind::<api::core::ConfigMap>();
    kind.coerce(&mut partial, &mut Vec::new())
        .map_err(|why| CommandError::error(format!("unable to decode {}: {why}", quote(source))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str, validates: bool) -> std::result::Result<usize, String> {
        let documents: Result<Vec<Document>> =
            parse_documents("f", text, validates).into_iter().collect();
        documents.map(|all| all.len()).map_err(|fail| fail.message())
    }

    #[test]
    fn yaml_may_begin_like_json() {
        let two = "{apiVersion: v1, kind: Pod}\n---\napiVersion: v1\nkind: Pod\n";
        let json = r#"{"apiVersion":"v1","kind":"Pod"} {"apiVersion":"v1","kind":"Pod"}"#;
        assert_eq!(words("{apiVersion: v1, kind: Pod}", false), Ok(1));
        assert_eq!(words(two, false), Ok(2));
        assert_eq!(words(json, false), Ok(2));
        let broken = words("{apiVersion", false);
        assert!(broken.is_err_and(|says| says.starts_with("error parsing f: json: ")));
    }

    #[test]
    fn documents_that_are_no_objects_are_refused() {
        for (text, validates, why) in [
            ("hello", true, "invalid object to validate"),
            ("kind: Pod", true, "apiVersion not set"),
            ("apiVersion: v1", true, "kind not set"),
            ("a: b", true, "[apiVersion not set, kind not set]"),
            ("kind: Pod", false, "Object 'apiVersion' is missing in '{\"kind\":\"Pod\"}'"),
            ("a: b", false, "Object 'Kind' is missing in '{\"a\":\"b\"}'"),
            ("hello", false, "cannot unmarshal string into Go value of type unstructured.detector"),
            ("[a, b]", false, "cannot unmarshal array into Go value of type unstructured.detector"),
            ("5", false, "cannot unmarshal number into Go value of type unstructured.detector"),
            ("{\"apiVersion\":\"v1\",", false, "error parsing f: unexpected EOF"),
        ] {
            let says = words(text, validates).expect_err("malformed");
            assert!(says.contains(why), "{text}: {says}");
        }
    }

    #[test]
    fn metadata_has_its_types() {
        let object = yaml::from_yaml("{metadata: {labels: {x: true}}}").expect("YAML");
        let says = check_metadata("f", &object).expect_err("a bool").message();
        assert_eq!(
            says,
            "unable to decode \"f\": json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string"
        );
    }
}
