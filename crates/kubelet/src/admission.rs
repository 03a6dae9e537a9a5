//! Kubelet admission: decides whether a pod that was bound to this node may run on it. The scheduler, or whoever else
//! set `spec.nodeName`, may not have known the node's free resources, labels, taints or pressure conditions.

use std::collections::BTreeMap;

use api::core::{Node, Pod, Taint, Toleration};
use object::Quantity;

use crate::{eviction::Pressure, sysctl::Allowlist};

/// Why a pod was rejected at admission: the reason and the message for its status.
pub(crate) type RejectReason = (String, String);

/// The state of the node that a pod is admitted against.
#[derive(Debug)]
pub(crate) struct AdmissionContext<'a> {
    pub(crate) node: &'a Node,
    /// Allocatable resources of the node.
    pub(crate) allocatable: &'a BTreeMap<String, Quantity>,
    /// The pods that already run on the node or were admitted to it.
    pub(crate) admitted_pods: &'a [Pod],
    pub(crate) pressure: &'a [Pressure],
    pub(crate) sysctls: &'a Allowlist,
}

/// A resource of which the node has less free than the pod requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InsufficientResource {
    pub(crate) resource: String,
    pub(crate) requested: i64,
    pub(crate) used: i64,
    pub(crate) capacity: i64,
}

const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
/// Pods with this priority or a higher one are system-critical.
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;
/// Runs all admission checks and returns the first failure.
pub(crate) fn admit(
    pod: &Pod,
    is_static: bool,
    place: &AdmissionContext<'_>,
) -> Result<(), RejectReason> {
    under_pressure(pod, is_static, place.pressure)?;
    if let Some(why) = place.sysctls.refusal(pod) {
        return Err(("SysctlForbidden".into(), format!("forbidden sysctl: {why}")));
    }
    check_os_and_arch(pod)?;
    if let Some(short) = insufficient_resources(pod, place).into_iter().next() {
        return Err((format!("OutOf{}", short.resource), short.to_string()));
    }
    if !pod.spec().fits_node(place.node) {
        return Err(predicate_failed(
            "NodeAffinity",
            "node(s) didn't match Pod's node affinity/selector",
        ));
    }
    let name = pod.spec().node_name();
    if !name.is_empty() && name != place.node.metadata().name() {
        return Err(predicate_failed("NodeName", "node(s) didn't match the requested node name"));
    }
    if place.admitted_pods.iter().any(|other| host_ports_conflict(pod, other)) {
        let why = "node(s) didn't have free ports for the requested pod ports";
        return Err(predicate_failed("NodePorts", why));
    }
    let drives_out = |taint: &&Taint| taint.effect() == "NoExecute" && !tolerates(pod, taint);
    if !is_static && place.node.spec().taints().iter().any(|taint| drives_out(&taint)) {
        let why = "node(s) had taints that the pod didn't tolerate";
        return Err(predicate_failed("TaintToleration", why));
    }
    Ok(())
}

/// The resources that are insufficient on the node: `pods` first, then the others by name.
pub(crate) fn insufficient_resources(
    pod: &Pod,
    place: &AdmissionContext<'_>,
) -> Vec<InsufficientResource> {
    let mut found = Vec::new();
    let has = |resource: &str| place.allocatable.get(resource);
    let room = has("pods").map_or(0, Quantity::value);
    let there = i64::try_from(place.admitted_pods.len()).unwrap_or(i64::MAX);
    if there >= room {
        let resource = "pods".to_owned();
        found.push(InsufficientResource { resource, requested: 1, used: there, capacity: room });
    }
    for (resource, amount) in pod.requests() {
        // an extended resource that this node does not advertise is not the kubelet's to count
        let known = has(&resource).is_some() || !resource.contains('/');
        if !known || amount.is_zero() {
            continue;
        }
        let measure = |amount: &Quantity| {
            if resource == "cpu" { amount.milli_value() } else { amount.value() }
        };
        let used = place
            .admitted_pods
            .iter()
            .filter_map(|other| other.requests().get(&resource).map(measure));
        let (requested, used) = (measure(&amount), used.fold(0, i64::saturating_add));
        let capacity = has(&resource).map_or(0, measure);
        if requested > capacity.saturating_sub(used) {
            let resource = resource.as_str().to_owned();
            found.push(InsufficientResource { resource, requested, used, capacity });
        }
    }
    found
}

/// Whether the pod is critical, so that it is admitted despite node pressure and never evicted.
pub(crate) fn is_critical(pod: &Pod, is_static: bool) -> bool {
    is_static || pod.spec().priority().is_some_and(|priority| priority >= SYSTEM_CRITICAL_PRIORITY)
}

impl std::fmt::Display for InsufficientResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { resource, requested, used, capacity } = self;
        write!(
            f,
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        )
    }
}

fn predicate_failed(name: &str, why: &str) -> RejectReason {
    (name.to_owned(), format!("Predicate {name} failed: {why}"))
}

fn under_pressure(pod: &Pod, is_static: bool, pressure: &[Pressure]) -> Result<(), RejectReason> {
    if pressure.is_empty() || is_critical(pod, is_static) {
        return Ok(());
    }
    if pressure == [Pressure::Memory] {
        let taint = Taint::new().with_key(MEMORY_PRESSURE).with_effect("NoSchedule");
        if pod.qos_class() != "BestEffort" || tolerates(pod, &taint) {
            return Ok(());
        }
    }
    let names: Vec<&str> = pressure.iter().map(|one| one.condition()).collect();
    Err(("Evicted".into(), format!("The node had condition: [{}]. ", names.join(" "))))
}

fn check_os_and_arch(pod: &Pod) -> Result<(), RejectReason> {
    const LABEL: &str = "kubernetes.io/os";
    if pod.metadata().labels().get(LABEL).is_some_and(|os| os != "linux") {
        let why = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Err(("PodOSSelectorNodeLabelDoesNotMatch".into(), why.into()));
    }
    if pod.spec().os().is_some_and(|os| os.name() != "linux") {
        let why = "Failed to admit pod as the OS field doesn't match node OS";
        return Err(("PodOSNotSupported".into(), why.into()));
    }
    Ok(())
}

fn tolerates(pod: &Pod, taint: &Taint) -> bool {
    pod.spec().tolerations().iter().any(|toleration: &Toleration| toleration.tolerates(taint))
}

fn host_ports_conflict(one: &Pod, other: &Pod) -> bool {
    let any = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
    host_ports(one).any(|(protocol, ip, port)| {
        host_ports(other).any(|(their_protocol, their_ip, their_port)| {
            port == their_port
                && protocol == their_protocol
                && (ip == their_ip || any(ip) || any(their_ip))
        })
    })
}

fn host_ports(pod: &Pod) -> impl Iterator<Item = (&str, &str, i32)> {
    let containers = pod.spec().containers().iter().chain(pod.spec().sidecars());
    containers
        .flat_map(|container| container.ports().iter())
        .filter(|port| port.host_port() != 0)
        .map(|port| (port.protocol(), port.host_ip(), port.host_port()))
}

#[cfg(test)]
mod tests {
    use object::{quantity::Format, yaml::from_yaml};

    use super::*;

    fn pod(spec: &str) -> Pod {
        Pod::from(from_yaml(&format!("{{metadata: {{name: p}}, spec: {spec}}}")).unwrap())
    }

    fn asking(cpu: &str) -> Pod {
        pod(&format!("{{containers: [{{name: a, resources: {{requests: {{cpu: {cpu}}}}}}}]}}"))
    }

    fn judged(pod: &Pod, others: &[Pod], pressure: &[Pressure]) -> Result<(), RejectReason> {
        let node = "{metadata: {name: n, labels: {disk: ssd}}}";
        let node = Node::from(from_yaml(node).unwrap());
        let amount = |n| Quantity::new(n, Format::DecimalSi);
        let allocatable = [("cpu".to_owned(), amount(2)), ("pods".to_owned(), amount(3))].into();
        let sysctls = &Allowlist::default();
        let (node, allocatable) = (&node, &allocatable);
        admit(
            pod,
            false,
            &AdmissionContext { node, allocatable, admitted_pods: others, pressure, sysctls },
        )
    }

    #[test]
    fn what_the_node_lacks_is_named() {
        judged(&asking("2"), &[], &[]).unwrap();
        let (reason, message) = judged(&asking("1500m"), &[asking("1")], &[]).unwrap_err();
        assert_eq!(reason, "OutOfcpu");
        let want =
            "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000";
        assert_eq!(message, want);
        let none = asking("0");
        let three = [none.clone(), none.clone(), none.clone()];
        let (reason, message) = judged(&none, &three, &[]).unwrap_err();
        assert_eq!(reason, "OutOfpods");
        assert!(message.ends_with("pods, requested: 1, used: 3, capacity: 3"), "{message}");
        let other = pod("{containers: [{name: a, resources: {requests: {example.com/x: 1}}}]}");
        judged(&other, &[], &[]).unwrap();
        let memory = pod("{containers: [{name: a, resources: {requests: {memory: 1}}}]}");
        assert_eq!(judged(&memory, &[], &[]).unwrap_err().0, "OutOfmemory");
    }

    #[test]
    fn what_the_pod_says_of_the_node_must_hold() {
        for (spec, reason) in [
            ("{nodeSelector: {disk: hdd}}", "NodeAffinity"),
            ("{nodeName: m}", "NodeName"),
            ("{os: {name: windows}}", "PodOSNotSupported"),
            (
                "{securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}}",
                "SysctlForbidden",
            ),
            (
                "{hostNetwork: true, securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]}}",
                "SysctlForbidden",
            ),
        ] {
            assert_eq!(judged(&pod(spec), &[], &[]).unwrap_err().0, reason, "{spec}");
        }
        judged(&pod("{nodeSelector: {disk: ssd}, nodeName: n, os: {name: linux}}"), &[], &[])
            .unwrap();
    }

    #[test]
    fn a_port_of_the_node_serves_one_pod() {
        let with = |port: &str| pod(&format!("{{containers: [{{name: a, ports: [{port}]}}]}}"));
        let taken = [with("{hostPort: 80, protocol: TCP}")];
        let same = with("{hostPort: 80, hostIP: 10.0.0.1, protocol: TCP}");
        assert_eq!(judged(&same, &taken, &[]).unwrap_err().0, "NodePorts");
        judged(&with("{hostPort: 80, protocol: UDP}"), &taken, &[]).unwrap();
    }

    #[test]
    fn taints_that_drive_out_keep_out_all_but_static_pods() {
        let node = "{metadata: {name: n}, spec: {taints: [{key: k, effect: NoExecute}]}}";
        let node = Node::from(from_yaml(node).unwrap());
        let allocatable = [("pods".to_owned(), Quantity::new(3, Format::DecimalSi))].into();
        let sysctls = &Allowlist::default();
        let (node, allocatable) = (&node, &allocatable);
        let place =
            AdmissionContext { node, allocatable, admitted_pods: &[], pressure: &[], sysctls };
        let (reason, message) = admit(&pod("{}"), false, &place).unwrap_err();
        assert_eq!(reason, "TaintToleration");
        let want =
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
        assert_eq!(message, want);
        admit(&pod("{}"), true, &place).unwrap();
        admit(&pod("{tolerations: [{operator: Exists}]}"), false, &place).unwrap();
    }

    #[test]
    fn pressure_keeps_out_those_who_would_go_first() {
        let best_effort = pod("{containers: [{name: a}]}");
        let (reason, message) = judged(&best_effort, &[], &[Pressure::Memory]).unwrap_err();
        assert_eq!(reason, "Evicted");
        assert_eq!(message, "The node had condition: [MemoryPressure]. ");
        judged(&asking("1"), &[], &[Pressure::Memory]).unwrap();
        let both = [Pressure::Memory, Pressure::Disk];
        let (_, message) = judged(&asking("1"), &[], &both).unwrap_err();
        assert_eq!(message, "The node had condition: [MemoryPressure DiskPressure]. ");
        judged(&pod("{priority: 2000000000}"), &[], &both).unwrap();
    }
}
