//! The rules for services.

use std::collections::BTreeSet;

use object::{Value, names};
use schema::{ErrorList, FieldPath, validate_labels};

use super::{
    LoadBalancerIngress, LoadBalancerStatus, Service, ServicePort, ServiceSpec, addresses,
};
use crate::{core::endpoints::check_endpoint_ip, rules::ValidateField};

const ANNOTATIONS: FieldPath = FieldPath::METADATA.field("annotations");
/// Where the ranges that may reach a load balancer were named before they had a field.
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const MAX_AFFINITY: i32 = 86_400;
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(super) fn check(service: &Service, old: Option<&Service>, errs: &mut ErrorList) {
    check_topology(service, errs);
    let spec = service.spec();
    check_type(spec, errs);
    check_ports(spec, &FieldPath::SPEC.field("ports"), errs);
    validate_labels(spec.selector(), &FieldPath::SPEC.field("selector"), errs);
    check_affinity(spec, errs);
    addresses::check(spec, old.map(Service::spec), &FieldPath::SPEC, errs);
    let had: Vec<&str> =
        old.map_or_else(Vec::new, |old| old.spec().external_ips().iter().collect());
    for (i, ip) in spec.external_ips().iter().enumerate() {
        let (at, wrong) = (FieldPath::SPEC.field("externalIPs"), names::legacy_ip(ip, &had));
        if wrong.is_empty() {
            check_endpoint_ip(ip, &at.index(i), errs);
        }
        errs.invalid_each(&at.index(i), ip, wrong);
    }
    errs.one_of(&FieldPath::SPEC.field("type"), spec.type_(), &TYPES);
    check_sources(service, old, errs);
    validate_load_balancer(spec, errs);
    check_traffic(spec, errs);
}

pub(super) fn check_changed(service: &Service, old: &Service, errs: &mut ErrorList) {
    let (new, before) = (service.spec(), old.spec());
    addresses::check_changed(new, before, &FieldPath::SPEC, errs);
    let both = |name: &str| new.type_() == name && before.type_() == name;
    if both("LoadBalancer") && new.load_balancer_class() != before.load_balancer_class() {
        let class = new.load_balancer_class().map_or(Value::Null, Value::from);
        errs.invalid(&FieldPath::SPEC.field("loadBalancerClass"), class, "may not change once set");
    }
    let port = (new.health_check_node_port(), before.health_check_node_port());
    if new.needs_health_check() && before.needs_health_check() && port.0 != port.1 {
        errs.forbidden(&FieldPath::SPEC.field("healthCheckNodePort"), "field is immutable");
    }
    check(service, Some(old), errs);
}

fn check_topology(service: &Service, errs: &mut ErrorList) {
    let notes = service.metadata().annotations();
    if let (Some(hints), Some(mode)) = (notes.get(TOPOLOGY_HINTS), notes.get(TOPOLOGY_MODE))
        && hints != mode
    {
        let why = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errs.invalid(&ANNOTATIONS.key(TOPOLOGY_MODE), mode, why);
    }
}

fn check_type(spec: &ServiceSpec, errs: &mut ErrorList) {
    let named = spec.type_() == "ExternalName";
    if spec.ports().is_empty() && !spec.is_headless() && !named {
        errs.required(&FieldPath::SPEC.field("ports"), "");
    }
    if spec.is_headless() && matches!(spec.type_(), "LoadBalancer" | "NodePort") {
        let why = format!("may not be set to 'None' for {} services", spec.type_());
        errs.invalid(&FieldPath::SPEC.field("clusterIPs").index(0), "None", why);
    }
    if !named {
        return;
    }
    let why = "may not be set for ExternalName services";
    for (name, set) in [
        ("clusterIPs", !spec.cluster_ips().is_empty()),
        ("ipFamilies", !spec.ip_families().is_empty()),
        ("ipFamilyPolicy", spec.ip_family_policy().is_some()),
    ] {
        if set {
            errs.forbidden(&FieldPath::SPEC.field(name), why);
        }
    }
    let name = spec.external_name();
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errs.required(&FieldPath::SPEC.field("externalName"), ""),
        name => errs.subdomain(&FieldPath::SPEC.field("externalName"), name),
    }
}

fn check_ports(spec: &ServiceSpec, at: &FieldPath, errs: &mut ErrorList) {
    let (mut names, mut nodes, mut ports) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    at.for_each_item(spec.ports().iter(), |port, at| {
        port.check(spec.ports().len() > 1, at, errs);
        if !port.name().is_empty() && !names.insert(port.name()) {
            errs.duplicate(&at.field("name"), port.name());
        }
        let node = port.node_port();
        if node != 0 && spec.type_() == "ClusterIP" {
            let why = "may not be used when `type` is 'ClusterIP'";
            errs.forbidden(&at.field("nodePort"), why);
        }
        if node != 0 && !nodes.insert((port.protocol(), node)) {
            errs.duplicate(&at.field("nodePort"), node);
        }
        if !ports.insert((port.protocol(), port.port())) {
            errs.duplicate_formatted(at, port.shown(), "");
        }
    });
}

impl ServicePort {
    fn check(&self, named: bool, at: &FieldPath, errs: &mut ErrorList) {
        match self.name() {
            "" if named => errs.required(&at.field("name"), ""),
            "" => {}
            name => errs.label(&at.field("name"), name),
        }
        errs.port(&at.field("port"), self.port());
        errs.one_of(&at.field("protocol"), self.protocol(), &["SCTP", "TCP", "UDP"]);
        errs.port_or_name(&at.field("targetPort"), &self.target_port());
        at.if_present("appProtocol", self.app_protocol(), |protocol, at| {
            errs.qualified(at, protocol);
        });
    }

    /// What tells a port from others, as Go prints it.
    fn shown(&self) -> String {
        format!(
            "{{\"Name\":\"\",\"Protocol\":{:?},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\
             \"NodePort\":0}}",
            self.protocol(),
            self.port()
        )
    }
}

fn check_affinity(spec: &ServiceSpec, errs: &mut ErrorList) {
    errs.one_of(
        &FieldPath::SPEC.field("sessionAffinity"),
        spec.session_affinity(),
        &["ClientIP", "None"],
    );
    let seconds = spec.session_affinity_config().and_then(|config| config.client_ip());
    let Some(seconds) = seconds.and_then(super::ClientIPConfig::timeout_seconds) else { return };
    if spec.session_affinity() == "ClientIP" && !(1..=MAX_AFFINITY).contains(&seconds) {
        let at = FieldPath::SPEC.field("sessionAffinityConfig");
        let why = format!("must be greater than 0 and less than {MAX_AFFINITY}");
        errs.invalid(&at.field("clientIP").field("timeoutSeconds"), seconds, why);
    }
}

fn check_sources(service: &Service, old: Option<&Service>, errs: &mut ErrorList) {
    let (spec, notes) = (service.spec(), service.metadata().annotations());
    let balanced = spec.type_() == "LoadBalancer";
    if !spec.load_balancer_source_ranges().is_empty() {
        let at = FieldPath::SPEC.field("LoadBalancerSourceRanges");
        if !balanced {
            errs.forbidden(&at, ONLY_BALANCED);
        }
        let before = old.map(|old| old.spec().load_balancer_source_ranges().iter());
        let had: Vec<&str> = before.into_iter().flatten().map(str::trim).collect();
        for (i, range) in spec.load_balancer_source_ranges().iter().enumerate() {
            let range = range.trim();
            errs.invalid_each(&at.index(i), range, names::legacy_cidr(range, &had));
        }
    } else if let Some(ranges) = notes.get(SOURCE_RANGES) {
        let at = ANNOTATIONS.key(SOURCE_RANGES);
        if !balanced {
            errs.forbidden(&at, ONLY_BALANCED);
        }
        let before = old.and_then(|old| old.metadata().annotations().get(SOURCE_RANGES));
        if before != Some(ranges) && !ranges.trim().is_empty() {
            for range in ranges.split(',').map(str::trim) {
                errs.invalid_each(&at, range, names::legacy_cidr(range, &[]));
            }
        }
    }
}

fn validate_load_balancer(spec: &ServiceSpec, errs: &mut ErrorList) {
    let balanced = spec.type_() == "LoadBalancer";
    if spec.allocate_load_balancer_node_ports().is_some() && !balanced {
        errs.forbidden(&FieldPath::SPEC.field("allocateLoadBalancerNodePorts"), ONLY_BALANCED);
    }
    match spec.load_balancer_class() {
        Some(class) if balanced => {
            errs.qualified(&FieldPath::SPEC.field("loadBalancerClass"), class);
        }
        Some(_) => errs.forbidden(&FieldPath::SPEC.field("loadBalancerClass"), ONLY_BALANCED),
        None => {}
    }
}

fn check_traffic(spec: &ServiceSpec, errs: &mut ErrorList) {
    let (policy, at) =
        (spec.external_traffic_policy(), FieldPath::SPEC.field("externalTrafficPolicy"));
    match (spec.is_external(), policy) {
        (false, "") => {}
        (false, _) => {
            errs.invalid(&at, policy, "may only be set for externally-accessible services");
        }
        (true, "") => errs.required(&at, ""),
        (true, _) => errs.one_of(&at, policy, &["Cluster", "Local"]),
    }
    let (port, at) = (spec.health_check_node_port(), FieldPath::SPEC.field("healthCheckNodePort"));
    match (spec.needs_health_check(), port) {
        (true, 0) => errs.required(&at, ""),
        (true, port) => errs.port(&at, port),
        (false, 0) => {}
        (false, _) => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` \
                       is 'Local'";
            errs.invalid(&at, port, why);
        }
    }
    if let Some(policy) = spec.internal_traffic_policy() {
        errs.one_of(&FieldPath::SPEC.field("internalTrafficPolicy"), policy, &["Cluster", "Local"]);
    }
    if let Some(distribution) = spec.traffic_distribution() {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        errs.one_of(&FieldPath::SPEC.field("trafficDistribution"), distribution, &known);
    }
}

impl LoadBalancerStatus {
    pub(super) fn check(&self, before: &Self, balanced: bool, errs: &mut ErrorList) {
        let at = FieldPath::STATUS.field("loadBalancer");
        let at = at.field("ingress");
        if !balanced && !self.ingress().is_empty() {
            return errs.forbidden(&at, "may only be used when `spec.type` is 'LoadBalancer'");
        }
        let had: Vec<&str> = before.ingress().iter().map(LoadBalancerIngress::ip).collect();
        for (i, ingress) in self.ingress().iter().enumerate() {
            let (at, ip, name) = (at.index(i), ingress.ip(), ingress.hostname());
            if !ip.is_empty() {
                errs.invalid_each(&at.field("ip"), ip, names::legacy_ip(ip, &had));
            }
            match (ingress.ip_mode(), ip) {
                (None, "") => {}
                (None, _) => {
                    errs.required(&at.field("ipMode"), "must be specified when `ip` is set");
                }
                (Some(_), "") => {
                    let why = "may not be specified when `ip` is not set";
                    errs.forbidden(&at.field("ipMode"), why);
                }
                (Some(mode), _) => errs.one_of(&at.field("ipMode"), mode, &["Proxy", "VIP"]),
            }
            if !name.is_empty() {
                errs.subdomain(&at.field("hostname"), name);
                if names::sloppy_ip(name).is_some() {
                    let why = "must be a DNS name, not an IP address";
                    errs.invalid(&at.field("hostname"), name, why);
                }
            }
        }
    }
}
