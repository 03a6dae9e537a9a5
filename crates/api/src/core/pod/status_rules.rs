//! Validation of the status of a pod.

use std::collections::BTreeSet;

use object::{List, Value, names};
use schema::{ErrorList, ErrorType, FieldPath};

use super::{ContainerStatus, Pod, PodSpec, PodStatus, container_status_rules};
use crate::{
    core::Container,
    rules::{ValidateField, format_go_fields},
    shown::format_go_list,
};

const NON_NEGATIVE: &str = "must be a non-negative integer";

pub(super) fn check(pod: &Pod, old: &Pod, errs: &mut ErrorList) {
    let (new, before) = (pod.status(), old.status());
    check_conditions(new, errs);
    check_nomination(new, before, old.is_scheduled(), errs);
    if new.observed_generation() < 0 {
        let at = FieldPath::STATUS.field("observedGeneration");
        errs.invalid(&at, new.observed_generation(), NON_NEGATIVE);
    }
    let class = FieldPath::STATUS.field("qosClass");
    errs.immutable(&class, &new.qos_class().into(), &before.qos_class().into());
    validate_terminated_stays_terminated(new, before, old.spec(), errs);
    check_claims(pod, errs);
    check_pod_ips(new, before, errs);
    check_host_ips(new, before, errs);
    container_status_rules::check(pod, errs);
}

fn check_conditions(status: &PodStatus, errs: &mut ErrorList) {
    let at = FieldPath::STATUS.field("conditions");
    at.for_each_item(status.conditions().iter(), |condition, at| {
        if condition.observed_generation() < 0 {
            let at = at.field("observedGeneration");
            errs.invalid(&at, condition.observed_generation(), NON_NEGATIVE);
        }
        if !matches!(condition.type_(), "PodScheduled" | "Ready" | "Initialized") {
            errs.qualified(&at.field("Type"), condition.type_());
        }
    });
}

fn check_nomination(new: &PodStatus, old: &PodStatus, bound: bool, errs: &mut ErrorList) {
    let (name, at) = (new.nominated_node_name(), FieldPath::STATUS.field("nominatedNodeName"));
    if name.is_empty() || name == old.nominated_node_name() {
        return;
    }
    errs.subdomain(&at, name);
    if bound {
        errs.forbidden(&at, "may not be set on pods that are already bound to a node");
    }
}

/// A container that has ended for good does not come back.
fn validate_terminated_stays_terminated(
    new: &PodStatus,
    old: &PodStatus,
    spec: &PodSpec,
    errs: &mut ErrorList,
) {
    let all_may_restart = spec.restarts_all_containers();
    let restarts = |name: &str, list: &List<Container>, code: i32| {
        let container = list.find(|container| container.name() == name);
        all_may_restart
            || container
                .is_some_and(|container| container.restarts_after(code, spec.restart_policy()))
    };
    let mut each = |name: &str,
                    new: &List<ContainerStatus>,
                    old: &List<ContainerStatus>,
                    may: &dyn Fn(&str, i32) -> bool| {
        for (i, old) in old.iter().enumerate() {
            let Some(ended) = old.state().terminated() else { continue };
            let now = new.find(|new| new.name() == old.name());
            let back = now.is_some_and(|now| now.state().terminated().is_none());
            if back && !may(old.name(), ended.exit_code()) {
                let why = "may not be transitioned to non-terminated state";
                errs.forbidden(&FieldPath::STATUS.field(name).index(i).field("state"), why);
            }
        }
    };
    each("containerStatuses", new.container_statuses(), old.container_statuses(), &|name, code| {
        restarts(name, spec.containers(), code)
    });
    each(
        "initContainerStatuses",
        new.init_container_statuses(),
        old.init_container_statuses(),
        &|name, code| restarts(name, spec.init_containers(), code),
    );
    each(
        "ephemeralContainerStatuses",
        new.ephemeral_container_statuses(),
        old.ephemeral_container_statuses(),
        &|_, _| false,
    );
}

impl PodSpec {
    /// Whether the end of one container may restart all the others, whatever their own policies say.
    fn restarts_all_containers(&self) -> bool {
        self.containers().iter().chain(self.init_containers().iter()).any(|container| {
            container
                .restart_policy_rules()
                .iter()
                .any(|rule| rule.action() == "RestartAllContainers")
        })
    }
}

impl Container {
    /// Whether it is started again after it has ended with this code.
    pub fn restarts_after(&self, code: i32, of_pod: &str) -> bool {
        for rule in self.restart_policy_rules().iter() {
            let Some(codes) = rule.exit_codes() else { continue };
            let listed = codes.values().iter().any(|value| value == code);
            if listed == (codes.operator() == "In") {
                return true;
            }
        }
        match self.restart_policy().unwrap_or(of_pod) {
            "Always" => true,
            "OnFailure" => code != 0,
            _ => false,
        }
    }
}

fn check_claims(pod: &Pod, errs: &mut ErrorList) {
    let at = FieldPath::STATUS.field("resourceClaimStatuses");
    let mut seen = BTreeSet::new();
    for (i, status) in pod.status().resource_claim_statuses().iter().enumerate() {
        let (at, name) = (at.index(i), status.name());
        if !pod.spec().resource_claims().iter().any(|claim| claim.name() == name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errs.invalid(&at.field("name"), name, why);
        }
        errs.unique(&mut seen, &at.field("name"), name);
        if let Some(claim) = status.resource_claim_name() {
            errs.subdomain(&at.field("resourceClaimName"), claim);
        }
    }
}

fn check_pod_ips(status: &PodStatus, before: &PodStatus, errs: &mut ErrorList) {
    let at = FieldPath::STATUS.field("podIPs");
    let ips: Vec<&str> = status.pod_ips().iter().map(super::status::PodIP::ip).collect();
    let had: Vec<&str> = before.pod_ips().iter().map(super::status::PodIP::ip).collect();
    check_ips(&ips, &had, &at, errs);
    match ips.first() {
        first if first.is_none() != status.pod_ip().is_empty() => {
            let why = "podIP and podIPs must either both be set or both be unset";
            errs.invalid_formatted(&at, format_go_list(status.pod_ips()), why);
        }
        Some(first) if *first != status.pod_ip() => {
            errs.invalid(&at.index(0).field("ip"), *first, "must be equal to `podIP`");
        }
        _ => {}
    }
}

fn check_host_ips(status: &PodStatus, before: &PodStatus, errs: &mut ErrorList) {
    let at = FieldPath::STATUS.field("hostIPs");
    let ips: Vec<&str> = status.host_ips().iter().map(super::status::HostIP::ip).collect();
    if let Some(first) = ips.first().filter(|first| **first != status.host_ip()) {
        errs.invalid(&at.index(0).field("ip"), *first, "must be equal to `hostIP`");
    }
    let had: Vec<&str> = before.host_ips().iter().map(super::status::HostIP::ip).collect();
    check_ips(&ips, &had, &at, errs);
}

/// At most one address of each family.
fn check_ips(ips: &[&str], had: &[&str], at: &FieldPath, errs: &mut ErrorList) {
    at.for_each_item(ips.iter(), |ip, at| errs.invalid_each(at, ip, names::legacy_ip(ip, had)));
    if ips.len() < 2 {
        return;
    }
    let read: Vec<_> = ips.iter().map(|ip| names::sloppy_ip(ip)).collect();
    if let Some(i) = read.iter().position(Option::is_none) {
        let why = format!("failed to check for dual stack with error:invalid IP[{i}]: {}", ips[i]);
        errs.push(ErrorType::Internal, at, Value::Null, why);
    }
    let sixes = read.iter().flatten().filter(|ip| ip.is_ipv6()).count();
    if read.iter().flatten().count() != 2 || ips.len() > 2 || sixes != 1 {
        let each: Vec<_> =
            ips.iter().map(|ip| format_go_fields(&[("IP", Value::from(*ip))])).collect();
        let why = "may specify no more than one IP for each IP family";
        errs.invalid_formatted(at, format!("[{}]", each.join(",")), why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_ended_comes_back_where_all_are_restarted() {
        let pod = |action: &str, state: &str| {
            let json = format!(
                r#"{{"spec":{{"restartPolicy":"Never","initContainers":[{{"name":"i"}}],
                "containers":[{{"name":"a"}},{{"name":"b","restartPolicy":"Never",
                "restartPolicyRules":[{{"action":"{action}","exitCodes":{{"operator":"In","values":[42]}}}}]}}]}},
                "status":{{"containerStatuses":[{{"name":"a","state":{state}}}],
                "initContainerStatuses":[{{"name":"i","state":{state}}}]}}}}"#
            );
            Pod::from(object::from_json(json.as_bytes()).expect("JSON"))
        };
        let refused = |action: &str| {
            let (old, new) =
                (pod(action, r#"{"terminated":{"exitCode":0}}"#), pod(action, r#"{"waiting":{}}"#));
            let mut errs = ErrorList::default();
            validate_terminated_stays_terminated(new.status(), old.status(), old.spec(), &mut errs);
            errs.0.len()
        };
        assert_eq!((refused("Restart"), refused("RestartAllContainers")), (2, 0));
    }

    #[test]
    fn two_addresses_are_of_two_families() {
        let told = |ips: &[&str]| {
            let mut errs = ErrorList::default();
            check_ips(ips, &[], &FieldPath::STATUS.field("podIPs"), &mut errs);
            errs.0.len()
        };
        assert_eq!((told(&["10.0.0.1", "::1"]), told(&["10.0.0.1", "10.0.0.2"])), (0, 1));
        assert_eq!((told(&["x"]), told(&["::1", "x"])), (1, 3));
    }
}
