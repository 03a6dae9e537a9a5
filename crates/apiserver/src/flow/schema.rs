//! Matching of FlowSchemas: which requests belong to a schema, and to which of its flows.

use std::{collections::HashMap, sync::Arc};

use api::flowcontrol::FlowSchema;
use object::{Lens, Object, Text, Value, View};
use server::{RequestInfo, UserInfo};

use super::metrics::FlowMetrics;

/// A FlowSchema, prepared for matching, with its metrics.
#[derive(Debug)]
pub(super) struct FlowSchemaMatcher {
    pub(super) name: Text,
    pub(super) uid: Text,
    pub(super) precedence: i32,
    pub(super) level: Text,
    by: Text,
    rules: Value,
    /// Metrics of its requests.
    pub(super) tally: Arc<FlowMetrics>,
}

impl FlowSchemaMatcher {
    /// Takes over the metrics of an earlier version of the same schema.
    pub(super) fn of(schema: &FlowSchema, tallies: &HashMap<&Text, &Arc<FlowMetrics>>) -> Self {
        let (meta, tree) = (schema.metadata(), schema.tree());
        let spec = tree.get("spec");
        let text =
            |tree: &Value, name: &str| Text::from(tree.get(name).as_str().unwrap_or_default());
        let precedence = spec.get("matchingPrecedence").as_i64().unwrap_or(1000);
        let name = Text::from(meta.name());
        Self {
            tally: tallies.get(&name).map(|tally| Arc::clone(tally)).unwrap_or_default(),
            name,
            uid: Object::view(tree).metadata().uid().into(),
            precedence: i32::try_from(precedence).unwrap_or(i32::MAX),
            level: text(spec.get("priorityLevelConfiguration"), "name"),
            by: text(spec.get("distinguisherMethod"), "type"),
            rules: spec.get("rules").clone(),
        }
    }

    /// Whether the schema matches a request of this user.
    pub(super) fn matches(&self, user: &UserInfo, info: &RequestInfo) -> bool {
        self.rules.items().iter().any(|rule| {
            rule.get("subjects").items().iter().any(|subject| is_subject(subject, user))
                && if info.is_resource {
                    rule.get("resourceRules").items().iter().any(|own| resource(own, info))
                } else {
                    rule.get("nonResourceRules").items().iter().any(|own| path(own, info))
                }
        })
    }

    /// The flow distinguisher of a request: the user, the namespace, or nothing.
    pub(super) fn distinguisher(&self, user: &UserInfo, info: &RequestInfo) -> String {
        match &*self.by {
            "ByUser" => user.name.to_string(),
            "ByNamespace" => info.namespace.to_string(),
            _ => String::new(),
        }
    }
}

fn is_subject(subject: &Value, user: &UserInfo) -> bool {
    let text = |tree: &Value, name: &str| tree.get(name).as_str().unwrap_or_default().to_owned();
    match subject.get("kind").as_str().unwrap_or_default() {
        "User" => {
            let name = text(subject.get("user"), "name");
            name == "*" || name == user.name
        }
        "Group" => {
            let name = text(subject.get("group"), "name");
            name == "*" || user.in_group(&name)
        }
        "ServiceAccount" => {
            let account = subject.get("serviceAccount");
            let (namespace, name) = (text(account, "namespace"), text(account, "name"));
            let prefix = format!("system:serviceaccount:{namespace}:");
            user.name.strip_prefix(&prefix).is_some_and(|own| name == "*" || name == own)
        }
        _ => false,
    }
}

fn has(rule: &Value, list: &str, value: &str) -> bool {
    let all = rule.get(list).items().iter().filter_map(Value::as_str);
    all.into_iter().any(|own| own == "*" || own == value)
}

fn resource(rule: &Value, info: &RequestInfo) -> bool {
    let full = match &*info.subresource {
        "" => info.resource.to_string(),
        part => format!("{}/{part}", info.resource),
    };
    let place = if info.namespace.is_empty() {
        rule.get("clusterScope").as_bool() == Some(true)
    } else {
        has(rule, "namespaces", &info.namespace)
    };
    has(rule, "verbs", &info.verb)
        && has(rule, "apiGroups", &info.group)
        && has(rule, "resources", &full)
        && place
}

fn path(rule: &Value, info: &RequestInfo) -> bool {
    let urls = rule.get("nonResourceURLs").items().iter().filter_map(Value::as_str);
    let is = |url: &str| match url.strip_suffix('*') {
        Some(prefix) => info.path.starts_with(prefix),
        None => info.path == url,
    };
    has(rule, "verbs", &info.verb) && urls.into_iter().any(is)
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn a_schema_knows_its_requests() {
        let tree = from_json(
            br#"{"metadata":{"name":"s"},"spec":{"matchingPrecedence":5,
            "priorityLevelConfiguration":{"name":"l"},"distinguisherMethod":{"type":"ByUser"},
            "rules":[{"subjects":[{"kind":"Group","group":{"name":"devs"}}],
            "resourceRules":[{"verbs":["list"],"apiGroups":[""],"resources":["pods"],"namespaces":["*"]}]}]}}"#,
        )
        .unwrap();
        let schema = FlowSchemaMatcher::of(FlowSchema::view(&tree), &HashMap::new());
        let info = |verb: &str| RequestInfo {
            is_resource: true,
            verb: verb.into(),
            resource: "pods".into(),
            namespace: "d".into(),
            ..RequestInfo::default()
        };
        let dev = UserInfo::new("ann", &["devs"]);
        assert!(schema.matches(&dev, &info("list")));
        assert!(!schema.matches(&dev, &info("create")));
        assert!(!schema.matches(&UserInfo::new("ann", &[]), &info("list")));
        assert_eq!(schema.distinguisher(&dev, &info("list")), "ann");
    }
}
