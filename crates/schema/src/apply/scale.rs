//! Converts managedFields between an object and its Scale, where `spec.replicas` stands for the
//! object's own replicas field.

use object::{Text, Value};

use super::{
    fields::from_field_paths,
    manager::{ManagedEntry, ManagedFields, ManagerId, Operation},
};

const SCALE: &str = "autoscaling/v1";
const REPLICAS: &[&[&str]] = &[&["spec", "replicas"]];

/// The managedFields of the Scale: the managers of the replicas field at `path`.
pub fn to_scale_managed_fields(books: &Value, path: &[&str]) -> Value {
    let held = from_field_paths(&[path]);
    let managers = ManagedFields::decode(books).unwrap_or_default().0;
    let managers = managers.into_iter().filter(|entry| entry.fields.intersects(&held));
    ManagedFields(managers.map(|entry| translate_entry(entry, SCALE, REPLICAS)).collect()).encode()
}

/// The managedFields of the object after its Scale was written. `api_version` is the object's.
pub fn from_scale_managed_fields(
    books: &Value,
    scale: &Value,
    path: &[&str],
    api_version: &str,
) -> Value {
    let (held, replicas) = (from_field_paths(&[path]), from_field_paths(REPLICAS));
    let mut scalers = ManagedFields::decode(scale).unwrap_or_default();
    let mut managers = ManagedFields::default();
    for entry in ManagedFields::decode(books).unwrap_or_default().0 {
        if !entry.fields.intersects(&held) || scalers.take(&entry.manager).is_some() {
            managers.0.push(entry);
        } else {
            let fields = entry.fields.difference(&held);
            managers.insert(ManagedEntry { fields, encoded: None, ..entry });
        }
    }
    let new = scalers.0.into_iter().filter(|entry| entry.fields.intersects(&replicas));
    let new = new.map(|entry| ManagedEntry {
        time: Text::default(),
        ..translate_entry(entry, api_version, &[path])
    });
    managers.0.extend(new);
    managers.encode()
}

/// The entry with these fields in that version.
fn translate_entry(entry: ManagedEntry, version: &str, paths: &[&[&str]]) -> ManagedEntry {
    let named = match entry.manager.operation {
        Operation::Apply => Text::default(),
        Operation::Update => version.into(),
    };
    let manager = ManagerId { version: named, ..entry.manager };
    ManagedEntry {
        manager,
        version: version.into(),
        fields: from_field_paths(paths),
        encoded: None,
        ..entry
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn entry(manager: &str, version: &str, fields: &str) -> String {
        format!(
            r#"{{"manager":"{manager}","operation":"Update","apiVersion":"{version}",
                "fieldsType":"FieldsV1","fieldsV1":{fields}}}"#
        )
    }

    fn books(entries: &[String]) -> Value {
        from_json(format!("[{}]", entries.join(",")).as_bytes()).expect("written above")
    }

    #[test]
    fn who_scales_takes_the_number_over() {
        let path = &["spec", "size"][..];
        let old = books(&[entry("a", "x/v1", r#"{"f:spec":{"f:size":{},"f:other":{}}}"#)]);
        let seen = to_scale_managed_fields(&old, path);
        let number = r#"{"f:spec":{"f:replicas":{}}}"#;
        assert_eq!(seen, books(&[entry("a", SCALE, number)]));
        let new =
            from_scale_managed_fields(&old, &books(&[entry("b", SCALE, number)]), path, "x/v1");
        let left = entry("a", "x/v1", r#"{"f:spec":{"f:other":{}}}"#);
        assert_eq!(new, books(&[left, entry("b", "x/v1", r#"{"f:spec":{"f:size":{}}}"#)]));
    }
}
