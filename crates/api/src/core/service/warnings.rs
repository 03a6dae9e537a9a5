//! What is odd about a service, though it is taken.

use object::List;
use schema::{FieldPath, WarningList};

use super::{LoadBalancerIngress, Service};
use crate::advice::CommonWarnings;

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";
const NAMED: &str = "ExternalName";

pub(super) fn warn(service: &Service, warnings: &mut WarningList) {
    let (spec, at) = (service.spec(), FieldPath::SPEC);
    if service.metadata().annotations().get(HINTS).is_some() {
        warnings.push(format!("annotation {HINTS} is deprecated, please use {MODE} instead"));
    }
    let headless = spec.type_() == "ClusterIP" && spec.cluster_ip() == "None";
    if !matches!(spec.cluster_ip(), "" | "None") {
        at.field("clusterIPs")
            .for_each_item(spec.cluster_ips().iter(), |it, at| warnings.ip(at, it));
    }
    if headless {
        let ignored = [
            ("loadBalancerIP", !spec.load_balancer_ip().is_empty()),
            ("externalIPs", !spec.external_ips().is_empty()),
            ("SessionAffinity", spec.session_affinity() != "None"),
        ];
        for (name, _) in ignored.iter().filter(|(_, is_set)| *is_set) {
            warnings.push(format!("spec.{name} is ignored for headless services"));
        }
    }
    at.field("externalIPs").for_each_item(spec.external_ips().iter(), |it, at| warnings.ip(at, it));
    let external = !spec.external_ips().is_empty();
    if external && !headless && spec.type_() != NAMED {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        );
    }
    warnings.ip(&at.field("loadBalancerIP"), spec.load_balancer_ip());
    for (i, range) in spec.load_balancer_source_ranges().iter().enumerate() {
        warnings.cidr(&at.field("loadBalancerSourceRanges").index(i), range);
    }
    if spec.type_() == NAMED && external {
        warnings.push(format!("spec.externalIPs is ignored when spec.type is {NAMED:?}"));
    }
    if spec.type_() != NAMED && !spec.external_name().is_empty() {
        warnings.push(format!("spec.externalName is ignored when spec.type is not {NAMED:?}"));
    }
    if spec.traffic_distribution() == Some("PreferClose") {
        let why = "\"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push_at(&at.field("trafficDistribution"), why);
    }
}

/// Of the addresses of a load balancer, in a status.
pub(super) fn warn_ingress(
    all: &List<LoadBalancerIngress>,
    status: &FieldPath,
    warnings: &mut WarningList,
) {
    let at = status.field("loadBalancer");
    at.field("ingress").for_each_item(all.iter(), |ingress, at| warnings.ip(at, ingress.ip()));
}
