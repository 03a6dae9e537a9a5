//! The administrator's kubeconfig of a cluster on this host. It is written at each start, and again
//! when its certificate is renewed; what the administrator added to the file stays.

use object::{Value, yaml};

/// Name of the cluster entry in the kubeconfig.
pub(crate) const CLUSTER: &str = "tiphys";

/// Merges the entries of `new` into the existing kubeconfig file, replacing those with the same
/// names.
///
/// Clusters and users are replaced whole, because an old server address or certificate would not
/// work. Of a context only the cluster and the user are replaced, so that a namespace set by
/// `kubectl config set-context` stays. Other entries, the current context and all other fields
/// belong to the administrator and stay. A file that is not a kubeconfig is replaced.
pub(crate) fn merge(existing: &[u8], new: &Value) -> Value {
    let existing = std::str::from_utf8(existing).ok().and_then(|text| yaml::from_yaml(text).ok());
    let Some(mut file) = existing.filter(|file| file["kind"].as_str() == Some("Config")) else {
        return new.clone();
    };
    for (list, field) in [("clusters", "cluster"), ("users", "user"), ("contexts", "context")] {
        let mut entries = file[list].items().to_vec();
        for entry in new[list].items() {
            match entries.iter_mut().find(|old| old["name"] == entry["name"]) {
                Some(old) if list == "contexts" && old[field].is_object() => {
                    for part in ["cluster", "user"] {
                        old[field][part] = entry[field][part].clone();
                    }
                }
                Some(old) => *old = entry.clone(),
                None => entries.push(entry.clone()),
            }
        }
        file[list] = entries.into_iter().collect();
    }
    let current = &file["current-context"];
    if !file["contexts"].items().iter().any(|context| context["name"] == *current) {
        file["current-context"] = new["current-context"].clone();
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(port: u16) -> Value {
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: admin@tiphys,
              clusters: [{{name: tiphys, cluster: {{server: 'https://127.0.0.1:{port}'}}}}],
              users: [{{name: admin, user: {{client-key-data: k{port}}}}}],
              contexts: [{{name: admin@tiphys, context: {{cluster: tiphys, user: admin}}}}]}}"
        );
        yaml::from_yaml(&text).unwrap()
    }

    fn merged(old: &Value, new: &Value) -> Value {
        merge(yaml::to_yaml(old).as_bytes(), new)
    }

    #[test]
    fn the_administrators_own_entries_and_namespace_stay() {
        let mut old = file(1);
        let other = yaml::from_yaml(
            "{users: {name: me, user: {token: t}},
              clusters: {name: far, cluster: {server: 'https://far.example'}},
              contexts: {name: far, context: {cluster: far, user: me}}}",
        )
        .unwrap();
        for list in ["users", "clusters", "contexts"] {
            let first = old[list].items()[0].clone();
            old[list] = [other[list].clone(), first].into_iter().collect();
        }
        let mut own = old["contexts"].items()[1].clone();
        own["context"]["namespace"] = "shop".into();
        own["context"]["user"] = "me".into();
        old["contexts"] = [old["contexts"].items()[0].clone(), own].into_iter().collect();
        old["current-context"] = "far".into();
        old["preferences"]["colors"] = true.into();

        let new = merged(&old, &file(2));
        let mut expected = old;
        let both =
            |list: &str, ours: Value| [other[list].clone(), ours].into_iter().collect::<Value>();
        expected["clusters"] = both("clusters", file(2)["clusters"].items()[0].clone());
        expected["users"] = both("users", file(2)["users"].items()[0].clone());
        let mut own = file(2)["contexts"].items()[0].clone();
        own["context"]["namespace"] = "shop".into();
        expected["contexts"] = both("contexts", own);
        assert_eq!(yaml::to_yaml(&new), yaml::to_yaml(&expected));
    }

    #[test]
    fn what_is_missing_comes_back() {
        let mut old = file(1);
        old["contexts"] = Value::default();
        old["users"] = Value::default();
        assert_eq!(merged(&old, &file(2)), file(2));
        old["current-context"] = "gone".into();
        assert_eq!(merged(&old, &file(2)), file(2));
    }

    #[test]
    fn a_file_that_is_no_kubeconfig_is_replaced() {
        for text in ["", "a: [", "[1]", "kind: Pod", "\u{0}"] {
            assert_eq!(merge(text.as_bytes(), &file(2)), file(2), "{text:?}");
        }
        assert_eq!(merge(&[0xff], &file(2)), file(2));
        let odd =
            b"{kind: Config, clusters: 5, users: {a: b}, contexts: [1, {name: admin@tiphys}]}";
        let new = merge(odd, &file(2));
        assert_eq!(new["clusters"], file(2)["clusters"]);
        assert_eq!(new["contexts"].items()[1], file(2)["contexts"].items()[0]);
    }
}
