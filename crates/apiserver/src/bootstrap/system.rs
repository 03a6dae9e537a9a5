//! System namespaces, priority classes, and the objects that describe this server.

use std::{net::IpAddr, sync::Weak, time::Duration};

use object::{Object, Status, Time, Value, View, from_json};
use server::Registry;
use tracing::warn;

use super::{CaBundles, create_if_missing, internal_context, publish_ca_bundles};
use crate::Flags;

/// Interval between attempts to publish.
const AGAIN: Duration = Duration::from_secs(5);

/// What is published once the server has an address.
#[derive(Clone, Debug)]
pub(crate) struct PublishedInfo {
    pub(crate) port: u16,
    pub(crate) service_ip: IpAddr,
    pub(crate) service_ranges: Vec<String>,
    pub(crate) authorities: CaBundles,
    pub(crate) flags: Flags,
}

/// The system namespaces and priority classes.
pub(super) fn objects() -> Vec<Value> {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];
    let namespaces = namespaces.map(|name| {
        format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#)
    });
    let classes =
        [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
    let classes = classes.map(|(name, value)| {
        let what = if name.contains("node") { "node" } else { "cluster" };
        format!(
            r#"{{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","value":{value},
            "description":"For pods that the {what} cannot do without.","metadata":{{"name":"{name}"}}}}"#
        )
    });
    namespaces.iter().chain(&classes).map(|text| tree(text)).collect()
}

/// Creates the `kubernetes` Service and ServiceCIDR, the ConfigMap for extension API servers, and
/// the ConfigMap that says since when the use of legacy tokens is tracked.
pub(crate) async fn publish(registry: &Registry, facts: &PublishedInfo) -> Result<(), Status> {
    let PublishedInfo { port, service_ip, service_ranges, .. } = facts;
    let mut range = tree(
        r#"{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"kubernetes"}}"#,
    );
    range["spec"]["cidrs"] = service_ranges.iter().map(String::as_str).collect();
    create_if_missing(registry, range).await?;
    second_range(registry, service_ranges).await?;
    ready(registry, service_ranges).await?;
    let family = if service_ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let mut service = tree(&format!(
        r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"kubernetes","namespace":"default",
        "labels":{{"component":"apiserver","provider":"kubernetes"}}}},
        "spec":{{"clusterIP":"{service_ip}","clusterIPs":["{service_ip}"],"type":"ClusterIP",
        "ipFamilies":["{family}"],"ipFamilyPolicy":"SingleStack","sessionAffinity":"None",
        "ports":[{{"name":"https","port":443,"protocol":"TCP","targetPort":{port}}}]}}}}"#
    ));
    let on_nodes = facts.flags.general.kubernetes_service_node_port;
    if on_nodes != 0 {
        let mut port = service["spec"]["ports"].items()[0].clone();
        port["nodePort"] = i64::from(on_nodes).into();
        service["spec"]["ports"] = [port].into_iter().collect();
        service["spec"]["type"] = "NodePort".into();
    }
    create_if_missing(registry, service).await?;
    publish_ca_bundles(registry, &facts.flags, &facts.authorities).await?;
    let mut tracking = tree(
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"kube-system",
        "name":"kube-apiserver-legacy-service-account-token-tracking"}}"#,
    );
    tracking["data"]["since"] = Time::format(registry.clock().now())[..10].into();
    create_if_missing(registry, tracking).await
}

/// Retries `publish` until it succeeds, then calls `done`.
pub(crate) async fn publish_with_retry(
    registry: Weak<Registry>,
    facts: PublishedInfo,
    done: impl FnOnce(),
) {
    loop {
        tokio::time::sleep(AGAIN).await;
        let Some(registry) = registry.upgrade() else { return };
        match publish(&registry, &facts).await {
            Ok(()) => return done(),
            Err(status) => {
                warn!(error = status.message(), "cannot create the bootstrap objects; will retry");
            }
        }
    }
}

/// Adds a secondary CIDR to the default ServiceCIDR, when a cluster becomes dual-stack.
async fn second_range(registry: &Registry, ranges: &[String]) -> Result<(), Status> {
    let kind = registry.kind("networking.k8s.io", "servicecidrs")?;
    let wanted: Value = ranges.iter().map(String::as_str).collect();
    let change = |old: &store::Version<Value>| {
        let mut range = old.object.clone();
        let have = range.get("spec").get("cidrs").items();
        if ranges.len() == 2 && have.len() == 1 && have.first() == wanted.items().first() {
            range["spec"]["cidrs"] = wanted.clone();
        }
        Ok(range)
    };
    let key = ("", "kubernetes");
    registry.guaranteed_update(&mut internal_context(), &kind, key, "", change).await.map(drop)
}

/// Sets the Ready condition of the default ServiceCIDR, unless it has other CIDRs than this server.
async fn ready(registry: &Registry, ranges: &[String]) -> Result<(), Status> {
    let kind = registry.kind("networking.k8s.io", "servicecidrs")?;
    let now = Time::format(registry.clock().now());
    let change = |old: &store::Version<Value>| {
        let mut range = old.object.clone();
        let have = range.get("spec").get("cidrs").items().iter().filter_map(Value::as_str);
        let same = have.eq(ranges.iter().map(String::as_str));
        let ending = Object::view(&range).metadata().is_terminating();
        if same && !ending && range.get("status").get("conditions").items().is_empty() {
            let mut condition = tree(
                r#"{"type":"Ready","status":"True","reason":"",
                "message":"Kubernetes default Service CIDR is ready"}"#,
            );
            condition["lastTransitionTime"] = now.clone().into();
            range["status"]["conditions"] = [condition].into_iter().collect();
        }
        Ok(range)
    };
    let key = ("", "kubernetes");
    registry
        .guaranteed_update(&mut internal_context(), &kind, key, "status", change)
        .await
        .map(drop)
}

fn tree(text: &str) -> Value {
    from_json(text.as_bytes()).expect("written here, and read by every start")
}
