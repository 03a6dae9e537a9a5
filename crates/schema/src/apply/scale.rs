//! The books of an object as those of its scale, and back: there `spec.replicas` is what
//! the object has somewhere else.

use object::{Text, Value};

use super::{
    fields::of_names,
    manager::{Entry, Manager, Managers, Operation},
};

const SCALE: &str = "autoscaling/v1";
const REPLICAS: &[&[&str]] = &[&["spec", "replicas"]];

/// The managers of the number of replicas. `path`: where the object has it.
pub fn to_scale(books: &Value, path: &[&str]) -> Value {
    let held = of_names(&[path]);
    let managers = Managers::decode(books).unwrap_or_default().0;
    let managers = managers.into_iter().filter(|entry| entry.fields.meets(&held));
    Managers(managers.map(|entry| seen(entry, SCALE, REPLICAS)).collect()).encode()
}

/// The books of the object after its scale was written. `api_version`: the object's.
pub fn from_scale(books: &Value, scale: &Value, path: &[&str], api_version: &str) -> Value {
    let (held, replicas) = (of_names(&[path]), of_names(REPLICAS));
    let mut scalers = Managers::decode(scale).unwrap_or_default();
    let mut managers = Managers::default();
    for entry in Managers::decode(books).unwrap_or_default().0 {
        if !entry.fields.meets(&held) || scalers.take(&entry.manager).is_some() {
            managers.0.push(entry);
        } else {
            let fields = entry.fields.difference(&held);
            managers.put(Entry { fields, text: None, ..entry });
        }
    }
    let new = scalers.0.into_iter().filter(|entry| entry.fields.meets(&replicas));
    let new = new.map(|entry| Entry { time: Text::default(), ..seen(entry, api_version, &[path]) });
    managers.0.extend(new);
    managers.encode()
}

/// The entry with these fields of that version.
fn seen(entry: Entry, version: &str, paths: &[&[&str]]) -> Entry {
    let named = match entry.manager.operation {
        Operation::Apply => Text::default(),
        Operation::Update => version.into(),
    };
    let manager = Manager { version: named, ..entry.manager };
    Entry { manager, version: version.into(), fields: of_names(paths), text: None, ..entry }
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
        let seen = to_scale(&old, path);
        let number = r#"{"f:spec":{"f:replicas":{}}}"#;
        assert_eq!(seen, books(&[entry("a", SCALE, number)]));
        let new = from_scale(&old, &books(&[entry("b", SCALE, number)]), path, "x/v1");
        let left = entry("a", "x/v1", r#"{"f:spec":{"f:other":{}}}"#);
        assert_eq!(new, books(&[left, entry("b", "x/v1", r#"{"f:spec":{"f:size":{}}}"#)]));
    }
}
