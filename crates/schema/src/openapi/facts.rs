//! What the published schemas say besides what the kinds declare: which values upstream
//! names, which fields it calls required, which defaults it keeps to itself.

use std::collections::BTreeMap;

use object::{Value, from_json};

/// One fact a line: type, field, what, value.
const FACTS: &str = include_str!("published.tsv");

/// Brings the schemas in line with the facts.
pub(super) fn apply(schemas: &mut BTreeMap<String, Value>) {
    for line in FACTS.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_default();
        let (name, field, what, value) = (next(), next(), next(), next());
        let Some(schema) = schemas.get_mut(&format!("io.k8s.{name}")) else { continue };
        if field.is_empty() {
            of_type(schema, what, value);
        } else if schema.get("properties").get(field).is_object() {
            of_field(&mut schema["properties"][field], what, value);
        }
    }
}

fn of_type(schema: &mut Value, what: &str, value: &str) {
    match what {
        "required" if value.is_empty() => schema.remove("required"),
        "required" => schema["required"] = value.split(' ').collect(),
        _ => {
            let unions = value.split(';').map(|union| {
                let (discriminator, fields) = union.split_once(':').unwrap_or(("", union));
                let mut union = Value::object();
                if !discriminator.is_empty() {
                    union["discriminator"] = discriminator.into();
                }
                for pair in fields.split(' ') {
                    let (field, name) = pair.split_once('=').unwrap_or((pair, pair));
                    union["fields-to-discriminateBy"][field] = name.into();
                }
                union
            });
            schema["x-kubernetes-unions"] = unions.collect();
        }
    }
}

fn of_field(property: &mut Value, what: &str, value: &str) {
    let names = || -> Value { value.split('|').collect() };
    match what {
        "enum" => property["enum"] = names(),
        "item enum" => property["items"]["enum"] = names(),
        "entry enum" => property["additionalProperties"]["enum"] = names(),
        "default" if value == "-" => property.remove("default"),
        "default" => {
            property["default"] = from_json(value.as_bytes()).expect("the table holds JSON");
        }
        kind => property[format!("x-kubernetes-{kind}").as_str()] = value.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_fact() {
        for line in FACTS.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<_> = line.split('\t').collect();
            assert_eq!(columns.len(), 4, "{line}");
            if columns[2] == "default" && columns[3] != "-" {
                assert!(from_json(columns[3].as_bytes()).is_ok(), "{line}");
            }
        }
    }

    #[test]
    fn facts_stand_over_declarations() {
        let mut strategy = Value::object();
        strategy["properties"]["type"]["default"] = "RollingUpdate".into();
        let name = "io.k8s.api.apps.v1.DeploymentStrategy".to_owned();
        let mut schemas = BTreeMap::from([(name.clone(), strategy)]);
        apply(&mut schemas);
        let ty = schemas[&name].get("properties").get("type");
        assert!(ty.get("default").is_null());
        assert_eq!(ty.get("enum").items().len(), 2);
    }
}
