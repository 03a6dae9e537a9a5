//! Strict decoding of the configuration files of the group `apiserver.config.k8s.io`.

use anyhow::{Result, bail, ensure};
use object::{Value, yaml::from_yaml};
use schema::{ErrorList, FieldPath};

use crate::config::duration;

/// The type of a field.
#[derive(Clone, Copy)]
pub(crate) enum FieldKind {
    Text,
    Bool,
    Duration,
    Texts,
    Object(&'static ConfigSchema),
    List(&'static ConfigSchema),
}

/// The Go name of a type, and its fields.
pub(crate) struct ConfigSchema(
    pub(crate) &'static str,
    pub(crate) &'static [(&'static str, FieldKind)],
);

/// The kinds of the group.
const KINDS: [&str; 6] = [
    "AdmissionConfiguration",
    "AuthenticationConfiguration",
    "AuthorizationConfiguration",
    "EgressSelectorConfiguration",
    "EncryptionConfiguration",
    "TracingConfiguration",
];

/// Decodes a file that must have this kind and one of these versions, and no unknown fields. Errors
/// are in the words of Go's decoder.
pub(crate) fn read(yaml: &str, of: &ConfigSchema, versions: &[&str]) -> Result<Value> {
    let file = from_yaml(yaml).map_err(|error| {
        let why = error.to_string();
        let twice = why.starts_with("yaml: unmarshal errors");
        anyhow::anyhow!(if twice { format!("strict decoding error: {why}") } else { why })
    })?;
    let (kind, version) = (text(&file, "kind"), text(&file, "apiVersion"));
    if let Some(given) = wrong_type(&file, "object").filter(|given| *given != "null") {
        bail!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {given} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        );
    }
    ensure!(!kind.is_empty(), "Object 'Kind' is missing in '{yaml}'");
    ensure!(!version.is_empty(), "Object 'apiVersion' is missing in '{yaml}'");
    let group = version.strip_prefix("apiserver.config.k8s.io/");
    let known = group.filter(|version| versions.contains(version) && KINDS.contains(&kind));
    let Some(version) = known else {
        bail!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        );
    };
    ensure!(kind == of.0, "expected {}, got *apiserver.{kind}", of.0);
    let mut reader = Reader { version, unknown: Vec::new() };
    reader.object(&file, of, ("", ""))?;
    let unknown = reader.unknown;
    ensure!(unknown.is_empty(), "strict decoding error: {}", unknown.join(", "));
    Ok(file)
}

/// Checks the types of all fields, and collects the unknown ones.
struct Reader<'a> {
    version: &'a str,
    unknown: Vec<String>,
}

impl Reader<'_> {
    /// `names` is the path of field names from the root; `place` is the same with indices.
    fn object(
        &mut self,
        tree: &Value,
        of: &ConfigSchema,
        (names, place): (&str, &str),
    ) -> Result<()> {
        for (name, value) in tree.entries() {
            let within = |outer: &str| {
                if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") }
            };
            let (names, place) = (within(names), within(place));
            let shape = of.1.iter().find(|(own, _)| *own == name).map(|(_, shape)| *shape);
            match shape {
                None if place == "kind" || place == "apiVersion" => {}
                None => self.unknown.push(format!("unknown field {place:?}")),
                Some(_) if value.is_null() => {}
                Some(shape) => self.field(value, shape, of.0, (&names, &place))?,
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        value: &Value,
        shape: FieldKind,
        owner: &str,
        (names, place): (&str, &str),
    ) -> Result<()> {
        let fits = |value: &Value, wanted: &str, go: &str| match wrong_type(value, wanted) {
            Some(given) => bail!(
                "json: cannot unmarshal {given} into Go struct field {owner}.{names} of type {go}"
            ),
            None => Ok(()),
        };
        let version = self.version;
        match shape {
            FieldKind::Text => fits(value, "string", "string"),
            FieldKind::Bool => fits(value, "bool", "bool"),
            FieldKind::Duration => {
                fits(value, "string", "string")?;
                let given = value.as_str().unwrap_or_default();
                let right = duration(given.strip_prefix('-').unwrap_or(given)).is_ok();
                ensure!(right, "time: invalid duration {given:?}");
                Ok(())
            }
            FieldKind::Texts => {
                fits(value, "array", "[]string")?;
                value.items().iter().try_for_each(|item| fits(item, "string", "string"))
            }
            FieldKind::Object(of) => {
                fits(value, "object", &format!("{version}.{}", of.0))?;
                self.object(value, of, (names, place))
            }
            FieldKind::List(of) => {
                fits(value, "array", &format!("[]{version}.{}", of.0))?;
                for (at, item) in value.items().iter().enumerate() {
                    fits(item, "object", &format!("{version}.{}", of.0))?;
                    self.object(item, of, (names, &format!("{place}[{at}]")))?;
                }
                Ok(())
            }
        }
    }
}

/// The JSON type of a value, if it is not the wanted one.
fn wrong_type(value: &Value, wanted: &str) -> Option<&'static str> {
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Text(_) => "string",
        Value::List(_) => "array",
        value if value.is_object() => "object",
        _ => "number",
    };
    (given != wanted).then_some(given)
}

/// Checks that a file has this kind and one of these versions.
pub(crate) fn known(file: &Value, kind: &str, versions: &[&str]) -> Result<()> {
    let (said, version) = (text(file, "kind"), text(file, "apiVersion"));
    let right = version.strip_prefix("apiserver.config.k8s.io/");
    ensure!(
        said == kind && right.is_some_and(|version| versions.contains(&version)),
        "no kind {said:?} is registered for version {version:?}: a {kind} of apiserver.config.k8s.io is expected"
    );
    Ok(())
}

/// Reports the fields that are not among these.
pub(crate) fn strict(tree: &Value, path: &FieldPath<'_>, fields: &[&str], errors: &mut ErrorList) {
    for (name, _) in tree.entries() {
        if !fields.contains(&name) {
            errors.invalid(&path.field(name), name, "unknown field");
        }
    }
}

/// All errors in one message.
pub(crate) fn aggregate(errors: &ErrorList) -> String {
    all(errors.0.iter().map(ToString::to_string).collect())
}

/// Joins errors to one message, as upstream's aggregate does.
pub(crate) fn all(mut errors: Vec<String>) -> String {
    match errors.len() {
        1 => errors.remove(0),
        _ => format!("[{}]", errors.join(", ")),
    }
}

/// A string field; empty if it is missing.
pub(crate) fn text<'a>(tree: &'a Value, name: &str) -> &'a str {
    tree.get(name).as_str().unwrap_or_default()
}

/// The strings of a list.
pub(crate) fn texts(tree: &Value) -> Vec<String> {
    tree.items().iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: ConfigSchema = ConfigSchema(
        "AuthorizationConfiguration",
        &[
            ("names", FieldKind::Texts),
            ("parts", FieldKind::List(&PART)),
            ("enabled", FieldKind::Bool),
        ],
    );
    const PART: ConfigSchema =
        ConfigSchema("Part", &[("name", FieldKind::Text), ("within", FieldKind::Duration)]);

    fn said(fields: &str) -> String {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";
        let text =
            if fields.contains("kind") { fields.to_owned() } else { format!("{head}{fields}") };
        read(&text, &FILE, &["v1"]).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn files_are_read_as_go_reads_them() {
        for (fields, expected) in [
            ("names: [a]\nparts: [{name: b, within: 5s}]\nenabled: true\n", ""),
            (
                "parts: [{nope: 1, name: b}]\nother: 2\n",
                r#"strict decoding error: unknown field "other", unknown field "parts[0].nope""#,
            ),
            (
                "parts: x\n",
                "json: cannot unmarshal string into Go struct field AuthorizationConfiguration.parts of type []v1.Part",
            ),
            (
                "parts: [1]\n",
                "json: cannot unmarshal number into Go struct field AuthorizationConfiguration.parts of type v1.Part",
            ),
            (
                "parts: [{name: []}]\n",
                "json: cannot unmarshal array into Go struct field Part.parts.name of type string",
            ),
            ("parts: [{within: x}]\n", r#"time: invalid duration "x""#),
            ("kind: Nope\n", "Object 'apiVersion' is missing in 'kind: Nope\n'"),
            (
                "kind: Nope\napiVersion: apiserver.config.k8s.io/v1\n",
                r#"no kind "Nope" is registered for version "apiserver.config.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111""#,
            ),
            (
                "kind: TracingConfiguration\napiVersion: apiserver.config.k8s.io/v1\n",
                "expected AuthorizationConfiguration, got *apiserver.TracingConfiguration",
            ),
        ] {
            assert_eq!(said(fields), expected, "{fields}");
        }
    }
}
