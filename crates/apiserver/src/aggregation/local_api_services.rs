//! The local APIServices: every group version that this server serves itself has one, so that
//! clients find all versions in one list.

use std::collections::BTreeSet;

use object::{Object, Status, Time, Value, View, from_json};
use server::{DeleteRequest, ListOptions, Registry, RequestContext, Selection, UserInfo};

use super::GROUP;

const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// `groupPriorityMinimum` of the built-in groups, as upstream sets it.
const PRIORITIES: &[(&str, i32)] = &[
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("apiextensions.k8s.io", 16_700),
    ("admissionregistration.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("resource.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    ("internal.apiserver.k8s.io", 16_000),
];

/// Creates the missing local APIServices, and deletes those whose version is no longer served.
pub(super) async fn reconcile(registry: &Registry) -> Result<(), Status> {
    let kind = registry.kind(GROUP, "apiservices")?;
    let own = UserInfo::new("system:apiserver", &["system:masters"]);
    let (mut call, delete) = (RequestContext::new(own, "kube-apiserver"), DeleteRequest::default());
    let (mut wanted, mut failed) = (BTreeSet::new(), Ok(()));
    for served in registry.kinds().all() {
        let names = &served.definition.names;
        if names.group != GROUP {
            wanted.insert((names.group.to_owned(), names.version.to_owned()));
        }
    }
    for (group, version) in &wanted {
        let name = format!("{version}.{group}");
        if registry.get(&kind, "", &name).is_err() {
            let service = service(group, version);
            match registry.create(&mut call, &kind, "", service).await {
                Err(status) if status.code() != 409 => failed = Err(status),
                _ => available(registry, &mut call, &name).await?,
            }
        }
    }
    let all = registry.list(&kind, &Selection::default(), &ListOptions::default())?;
    for version in &all.items {
        let meta = Object::view(&version.object).metadata();
        let spec = version.object.get("spec");
        let text = |name: &str| spec.get(name).as_str().unwrap_or_default().to_owned();
        let ours = meta.labels().get(AUTOMANAGED).is_some();
        if ours && !wanted.contains(&(text("group"), text("version"))) {
            match registry.delete(&mut call, &kind, ("", meta.name()), &delete).await {
                Err(status) if status.code() != 404 => failed = Err(status),
                _ => {}
            }
        }
    }
    failed
}

fn service(group: &str, version: &str) -> Value {
    let built_in = PRIORITIES.iter().find(|(own, _)| *own == group);
    let (minimum, managed) = match built_in {
        Some((_, minimum)) => (*minimum, "onstart"),
        None => (1000, "true"),
    };
    let mut service = from_json(
        br#"{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{},"spec":{}}"#,
    )
    .expect("written here");
    service["metadata"]["name"] = format!("{version}.{group}").into();
    service["metadata"]["labels"][AUTOMANAGED] = managed.into();
    let spec = &mut service["spec"];
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    spec["version"] = version.into();
    spec["groupPriorityMinimum"] = i64::from(minimum).into();
    spec["versionPriority"] = i64::from(priority(group, version)).into();
    service
}

/// `versionPriority`: stable versions come before beta and alpha ones.
fn priority(group: &str, version: &str) -> i32 {
    match (group, version) {
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("flowcontrol.apiserver.k8s.io" | "resource.k8s.io", "v1") => 21,
        (_, version) if version.contains("beta2") => 15,
        (_, version) if version.contains("alpha") => 1,
        (_, version) if version.contains("beta") => 9,
        (group, _) if PRIORITIES.iter().any(|(own, _)| *own == group) => 15,
        _ => 100,
    }
}

async fn available(
    registry: &Registry,
    call: &mut RequestContext,
    name: &str,
) -> Result<(), Status> {
    let kind = registry.kind(GROUP, "apiservices")?;
    let now = Time::format(registry.clock().now());
    let change = |old: &store::Version<Value>| {
        let mut service = old.object.clone();
        let mut condition = Value::object();
        condition["type"] = "Available".into();
        condition["status"] = "True".into();
        condition["reason"] = "Local".into();
        condition["message"] = "Local APIServices are always available".into();
        condition["lastTransitionTime"] = now.clone().into();
        service["status"]["conditions"] = [condition].into_iter().collect();
        Ok(service)
    };
    registry.guaranteed_update(call, &kind, ("", name), "status", change).await.map(drop)
}
