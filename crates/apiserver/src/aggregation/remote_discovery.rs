//! Sanitizes the discovery document of an aggregated server. It is merged with our own, which must stay usable
//! whatever the other server sends.

use std::collections::HashSet;

use object::Value;

/// Maximum number of resources in one version; further ones are left out.
const MOST: usize = 2_000;
/// Maximum length of a name; longer ones are left out.
const LONGEST: usize = 253;

/// The `APIResourceList` of a version with known and valid fields only.
pub(super) fn resources(said: &Value, group: &str, version: &str) -> Value {
    let mut list = Value::object();
    list["kind"] = "APIResourceList".into();
    list["apiVersion"] = "v1".into();
    list["groupVersion"] = format!("{group}/{version}").into();
    let mut seen = HashSet::new();
    let all = said.get("resources").items().iter().filter_map(resource);
    let new = all.filter(|entry| seen.insert(entry.get("name").as_str().map(str::to_owned)));
    list["resources"] = new.take(MOST).collect();
    list
}

fn resource(said: &Value) -> Option<Value> {
    let name = word(said.get("name")).filter(|name| is_resource(name))?;
    let mut entry = Value::object();
    entry["name"] = name.into();
    entry["namespaced"] = said.get("namespaced").as_bool().unwrap_or_default().into();
    entry["kind"] = word(said.get("kind"))?.into();
    entry["singularName"] = word(said.get("singularName")).unwrap_or_default().into();
    for field in ["group", "version", "storageVersionHash"] {
        if let Some(text) = word(said.get(field)) {
            entry[field] = text.into();
        }
    }
    for field in ["verbs", "shortNames", "categories"] {
        let words: Vec<&str> = said.get(field).items().iter().filter_map(word).take(100).collect();
        if field == "verbs" || !words.is_empty() {
            entry[field] = words.into_iter().collect();
        }
    }
    Some(entry)
}

/// The text, unless it is too long or has control characters, which a terminal would interpret.
fn word(value: &Value) -> Option<&str> {
    let text = value.as_str().filter(|text| text.len() <= LONGEST)?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// A resource such as `things`, or a subresource such as `things/status`.
fn is_resource(name: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    name.split('/').count() <= 3 && name.split('/').all(label)
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn names(text: &str) -> Vec<String> {
        let said = from_json(text.as_bytes()).expect("written in a test");
        let list = resources(&said, "g", "v1");
        let name = |entry: &Value| entry.get("name").as_str().expect("it has one").to_owned();
        list.get("resources").items().iter().map(name).collect()
    }

    #[test]
    fn what_makes_sense_stays_as_it_was() {
        let text = r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"g/v1","resources":[
            {"name":"things","singularName":"thing","namespaced":true,"kind":"Thing",
             "verbs":["get","list"],"shortNames":["t"],"categories":["all"]},
            {"name":"things/status","singularName":"","namespaced":true,"kind":"Thing","verbs":["get"]}]}"#;
        let said = from_json(text.as_bytes()).expect("written in a test");
        assert_eq!(resources(&said, "g", "v1"), said);
    }

    #[test]
    fn what_is_odd_is_left_out() {
        let odd = r#"{"resources":[7,null,{"name":"a"},{"name":{"a":1},"kind":"K"},
            {"name":"../x","kind":"K"},{"name":"a//b","kind":"K"},{"name":"\u0000","kind":"K"},
            {"name":"b","kind":"\u001b[2J"},{"name":"c","kind":"K","verbs":[[],"get"]},
            {"name":"c","kind":"Again"}]}"#;
        assert_eq!(names(odd), ["c"]);
        assert_eq!(names(r#"{"resources":"many"}"#), Vec::<String>::new());
        let many: Vec<_> = (0..5_000).map(|n| format!(r#"{{"name":"r{n}","kind":"K"}}"#)).collect();
        assert_eq!(names(&format!(r#"{{"resources":[{}]}}"#, many.join(","))).len(), MOST);
    }
}
