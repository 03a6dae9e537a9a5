//! The ABAC authorizer (`--authorization-policy-file`): one policy per line, each a JSON object.

use anyhow::{Context, Result, ensure};
use object::{Value, from_json};
use server::{Attributes, AuthorizeFuture, Authorizer, Decision, UserInfo};

/// The policies of the file.
#[derive(Debug)]
pub(crate) struct Abac {
    policies: Vec<Value>,
}

impl Abac {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut policies = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let policy = from_json(line.as_bytes()).with_context(|| format!("line {}", at + 1))?;
            let version = policy.get("apiVersion").as_str().unwrap_or_default();
            ensure!(
                version == "abac.authorization.kubernetes.io/v1beta1"
                    && policy.get("kind").as_str() == Some("Policy"),
                "line {}: no Policy of abac.authorization.kubernetes.io/v1beta1",
                at + 1
            );
            policies.push(policy.get("spec").clone());
        }
        Ok(Self { policies })
    }
}

impl Authorizer for Abac {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a Attributes,
    ) -> AuthorizeFuture<'a> {
        let allowed = self.policies.iter().any(|policy| matches(policy, user, attributes));
        Box::pin(async move {
            if allowed {
                Decision::Allow(String::new())
            } else {
                Decision::NoOpinion("No policy matched.".to_owned())
            }
        })
    }
}

fn matches(policy: &Value, user: &UserInfo, attributes: &Attributes) -> bool {
    let text = |name: &str| policy.get(name).as_str().unwrap_or_default();
    let is = |name: &str, value: &str| text(name) == "*" || text(name) == value;
    let (own_user, own_group) = (text("user"), text("group"));
    let subject = match (own_user, own_group) {
        ("", "") => false,
        (own_user, own_group) => {
            (own_user.is_empty() || own_user == "*" || own_user == user.name)
                && (own_group.is_empty() || own_group == "*" || user.in_group(own_group))
        }
    };
    let reads = matches!(&*attributes.verb, "get" | "list" | "watch");
    if !subject || (policy.get("readonly").as_bool() == Some(true) && !reads) {
        return false;
    }
    if attributes.is_resource {
        return is("namespace", &attributes.namespace)
            && is("resource", &attributes.resource)
            && is("apiGroup", &attributes.group);
    }
    let path = text("nonResourcePath");
    match path.strip_suffix('*') {
        Some(prefix) => attributes.path.starts_with(prefix),
        None => !path.is_empty() && path == attributes.path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_what_it_names() {
        let line = r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy",
            "spec":{"user":"bob","namespace":"dev","resource":"pods","apiGroup":"*","readonly":true}}"#
            .replace('\n', " ");
        let abac = Abac::parse(&line).unwrap();
        let asks = |verb: &str, namespace: &str| Attributes {
            verb: verb.into(),
            namespace: namespace.into(),
            resource: "pods".into(),
            is_resource: true,
            ..Attributes::default()
        };
        let bob = UserInfo::new("bob", &[]);
        assert!(matches(&abac.policies[0], &bob, &asks("get", "dev")));
        assert!(!matches(&abac.policies[0], &bob, &asks("create", "dev")));
        assert!(!matches(&abac.policies[0], &bob, &asks("get", "prod")));
        assert!(!matches(&abac.policies[0], &UserInfo::new("eve", &[]), &asks("get", "dev")));
        assert!(Abac::parse("{}").is_err());
    }
}
