//! The audit policy: the first rule that matches a request sets its level.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use object::{Value, yaml::from_yaml};
use server::{AuditLevel, AuditStage, RequestInfo, UserInfo};

/// A decoded audit policy.
#[derive(Debug)]
pub(crate) struct Policy {
    rules: Vec<Rule>,
    omit_stages: Vec<AuditStage>,
    omit_managers: bool,
}

/// One rule; `tree` has its match fields.
#[derive(Debug)]
struct Rule {
    level: AuditLevel,
    tree: Value,
    omit_stages: Vec<AuditStage>,
    omit_managers: Option<bool>,
}

impl Policy {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        Self::parse(&from_yaml(&text)?).with_context(|| shown.to_string())
    }

    pub(crate) fn parse(file: &Value) -> Result<Self> {
        let text = |name: &str| file.get(name).as_str().unwrap_or_default();
        ensure!(
            text("kind") == "Policy" && text("apiVersion") == "audit.k8s.io/v1",
            "no Policy of audit.k8s.io/v1"
        );
        let mut rules = Vec::new();
        for (at, tree) in file.get("rules").items().iter().enumerate() {
            let level = match tree.get("level").as_str().unwrap_or_default() {
                "None" => AuditLevel::None,
                "Metadata" => AuditLevel::Metadata,
                "Request" => AuditLevel::Request,
                "RequestResponse" => AuditLevel::RequestResponse,
                other => bail!("rules[{at}].level: {other:?} is no level"),
            };
            let resources = !tree.get("resources").items().is_empty()
                || !tree.get("namespaces").items().is_empty();
            ensure!(
                !resources || tree.get("nonResourceURLs").items().is_empty(),
                "rules[{at}]: rules cannot apply to both regular resources and non-resource URLs"
            );
            rules.push(Rule {
                level,
                tree: tree.clone(),
                omit_stages: stages(tree.get("omitStages"))?,
                omit_managers: tree.get("omitManagedFields").as_bool(),
            });
        }
        ensure!(!rules.is_empty(), "an audit policy must have rules");
        Ok(Self {
            rules,
            omit_stages: stages(file.get("omitStages"))?,
            omit_managers: file.get("omitManagedFields").as_bool().unwrap_or_default(),
        })
    }

    fn rule(&self, user: &UserInfo, info: &RequestInfo) -> Option<&Rule> {
        self.rules.iter().find(|rule| matches(&rule.tree, user, info))
    }

    /// The level of a request, and whether managedFields are omitted from its events.
    pub(crate) fn level(&self, user: &UserInfo, info: &RequestInfo) -> (AuditLevel, bool) {
        self.rule(user, info).map_or((AuditLevel::None, false), |rule| {
            (rule.level, rule.omit_managers.unwrap_or(self.omit_managers))
        })
    }

    /// Whether the request has no event at this stage.
    pub(super) fn omits(&self, user: &UserInfo, info: &RequestInfo, stage: AuditStage) -> bool {
        self.omit_stages.contains(&stage)
            || self.rule(user, info).is_some_and(|rule| rule.omit_stages.contains(&stage))
    }
}

fn stages(list: &Value) -> Result<Vec<AuditStage>> {
    let mut stages = Vec::new();
    for name in list.items().iter().filter_map(Value::as_str) {
        match name {
            "RequestReceived" => stages.push(AuditStage::RequestReceived),
            "ResponseStarted" => stages.push(AuditStage::ResponseStarted),
            "ResponseComplete" => stages.push(AuditStage::ResponseComplete),
            "Panic" => {} // this server has no such stage
            other => bail!("omitStages: {other:?} is no stage"),
        }
    }
    Ok(stages)
}

/// Whether a rule matches this request. An empty list matches everything.
fn matches(rule: &Value, user: &UserInfo, info: &RequestInfo) -> bool {
    let any = |name: &str, is: &dyn Fn(&str) -> bool| {
        let list = rule.get(name).items();
        list.is_empty() || list.iter().filter_map(Value::as_str).any(is)
    };
    let subject = any("users", &|name| name == user.name)
        && any("userGroups", &|group| user.in_group(group))
        && any("verbs", &|verb| verb == info.verb);
    let (resources, urls) = (rule.get("resources").items(), rule.get("nonResourceURLs").items());
    if !subject {
        return false;
    } else if !info.is_resource {
        let about_resources = !resources.is_empty() || !rule.get("namespaces").items().is_empty();
        return !about_resources
            && any("nonResourceURLs", &|url| match url.strip_suffix('*') {
                Some(prefix) => info.path.starts_with(prefix),
                None => info.path == url,
            });
    } else if !urls.is_empty() {
        return false;
    }
    any("namespaces", &|namespace| namespace == info.namespace)
        && (resources.is_empty() || resources.iter().any(|own| concerns(own, info)))
}

fn concerns(own: &Value, info: &RequestInfo) -> bool {
    if own.get("group").as_str().unwrap_or_default() != info.group {
        return false;
    }
    let names = own.get("resourceNames").items();
    if !names.is_empty() && !names.iter().any(|name| name.as_str() == Some(&info.name)) {
        return false;
    }
    let list = own.get("resources").items();
    list.is_empty()
        || list.iter().filter_map(Value::as_str).any(|own| match own.split_once('/') {
            None => own == "*" || (own == info.resource && info.subresource.is_empty()),
            Some((resource, part)) => {
                (resource == "*" || resource == info.resource)
                    && (part == "*" || part == info.subresource)
                    && !info.subresource.is_empty()
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_matches_counts() {
        let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
                    - level: None\n  users: [\"system:kube-proxy\"]\n\
                    - level: RequestResponse\n  resources:\n  - group: \"\"\n    resources: [pods]\n\
                    - level: Metadata\n";
        let policy = Policy::parse(&from_yaml(text).unwrap()).unwrap();
        let info = |resource: &str, part: &str| RequestInfo {
            is_resource: true,
            resource: resource.into(),
            subresource: part.into(),
            ..RequestInfo::default()
        };
        let (bob, proxy) = (UserInfo::new("bob", &[]), UserInfo::new("system:kube-proxy", &[]));
        assert_eq!(policy.level(&bob, &info("pods", "")).0, AuditLevel::RequestResponse);
        assert_eq!(policy.level(&bob, &info("pods", "status")).0, AuditLevel::Metadata);
        assert_eq!(policy.level(&proxy, &info("pods", "")).0, AuditLevel::None);
        assert!(policy.omits(&bob, &info("pods", ""), AuditStage::RequestReceived));
        assert!(Policy::parse(&from_yaml("kind: Policy").unwrap()).is_err());
    }
}
