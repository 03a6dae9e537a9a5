//! The source of an environment variable, as a description and as its value.

use std::collections::BTreeMap;

use base64::Engine as _;
use object::{Quantity, Value, names, quote::quote};

use crate::invocation::Invocation;

/// Cache of the ConfigMaps and Secrets that were fetched.
#[derive(Debug, Default)]
pub(super) struct FetchedSources(BTreeMap<String, Value>);

/// Describes a source: `configmap settings, key color`.
pub(super) fn words(from: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for (field, noun) in [("configMapKeyRef", "configmap"), ("secretKeyRef", "secret")] {
        let reference = &from[field];
        if !reference.is_null() {
            return format!("{noun} {}, key {}", text(&reference["name"]), text(&reference["key"]));
        }
    }
    if !from["fieldRef"].is_null() {
        return format!("field path {}", text(&from["fieldRef"]["fieldPath"]));
    }
    let field = &from["resourceFieldRef"];
    if field.is_null() {
        return "invalid valueFrom".to_owned();
    }
    match text(&field["containerName"]).as_str() {
        "" => format!("resource field {}", text(&field["resource"])),
        container => format!("resource field {container}/{}", text(&field["resource"])),
    }
}

impl FetchedSources {
    /// The value, or the reason why there is none.
    pub(super) fn value(
        &mut self,
        call: &Invocation<'_>,
        from: &Value,
        object: &Value,
        container: &Value,
    ) -> Result<String, String> {
        if !from["secretKeyRef"].is_null() {
            let text = self.key(call, &from["secretKeyRef"], "secrets", "secret")?;
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(text)
                .map_err(|error| error.to_string())?;
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        if !from["configMapKeyRef"].is_null() {
            return self.key(call, &from["configMapKeyRef"], "configmaps", "config map");
        }
        if let Some(path) = from["fieldRef"]["fieldPath"].as_str() {
            return field(object, path);
        }
        if from["resourceFieldRef"].is_null() {
            return Err("invalid valueFrom".to_owned());
        }
        amount(&from["resourceFieldRef"], container)
    }

    fn key(
        &mut self,
        call: &Invocation<'_>,
        reference: &Value,
        plural: &str,
        noun: &str,
    ) -> Result<String, String> {
        let (name, key) = (
            reference["name"].as_str().unwrap_or_default(),
            reference["key"].as_str().unwrap_or_default(),
        );
        let fetch = || {
            let path = format!("/api/v1/namespaces/{}/{plural}/{name}", call.namespace()?);
            call.server()?.get(&path)
        };
        let place = format!("{plural}/{name}");
        if !self.0.contains_key(&place) {
            self.0.insert(place.clone(), fetch().map_err(|fail| fail.message())?);
        }
        let data = &self.0[&place]["data"];
        data[key]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| format!("key {key} not found in {noun} {name}"))
    }
}

/// The value of a fieldRef to the object's metadata.
fn field(object: &Value, path: &str) -> Result<String, String> {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['"))
        && !map.is_empty()
    {
        let (field, checked) = match map {
            "metadata.annotations" => ("annotations", key.to_lowercase()),
            "metadata.labels" => ("labels", key.to_owned()),
            _ => return Err(format!("fieldPath {} does not support subscript", quote(path))),
        };
        let wrong = names::qualified_name(&checked);
        if !wrong.is_empty() {
            return Err(format!("invalid key subscript in {path}: {}", wrong.join(";")));
        }
        return Ok(text(&metadata[field][key]));
    }
    match path {
        "metadata.annotations" | "metadata.labels" => {
            let map = &metadata[path.trim_start_matches("metadata.")];
            let lines: Vec<String> = map
                .entries()
                .map(|(name, value)| format!("{name}={}", quote(&text(value))))
                .collect();
            Ok(lines.join("\n"))
        }
        "metadata.name" | "metadata.namespace" | "metadata.uid" => {
            Ok(text(&metadata[path.trim_start_matches("metadata.")]))
        }
        _ => Err(format!("unsupported fieldPath: {path}")),
    }
}

/// The value of a resourceFieldRef: a request or limit of a container in units of the divisor, rounded up.
fn amount(reference: &Value, container: &Value) -> Result<String, String> {
    let wanted = reference["resource"].as_str().unwrap_or_default();
    let (field, name) = wanted.split_once('.').unwrap_or((wanted, ""));
    let known = matches!(field, "limits" | "requests")
        && (matches!(name, "cpu" | "memory" | "ephemeral-storage")
            || name.starts_with("hugepages-"));
    if !known {
        return Err(format!("Unsupported container resource : {wanted}"));
    }
    let read = |value: &Value| -> Option<Quantity> {
        value.as_str().map(str::to_owned).or(value.as_i64().map(|n| n.to_string()))?.parse().ok()
    };
    let one = Quantity::new(1, object::quantity::Format::DecimalSi);
    let divisor = read(&reference["divisor"]).filter(|divisor| !divisor.is_zero()).unwrap_or(one);
    let there = read(&container["resources"][field][name]);
    let parts = |quantity: &Quantity| {
        if name == "cpu" { quantity.milli_value() } else { quantity.value() }
    };
    let (whole, unit) = (there.as_ref().map_or(0, parts), parts(&divisor).max(1));
    Ok((whole / unit + i64::from(whole % unit > 0)).to_string())
}
