//! What a pod gets that nobody has asked for.

use object::{List, Text};

use super::{Pod, PodSpec};
use crate::core::{
    Container, PodSecurityContext, PodTemplateSpec,
    resources::{is_hugepages, is_pod_level_resource},
};

pub(super) fn pod(pod: &mut Pod) {
    let spec = pod.spec_mut();
    if spec.termination_grace_period_seconds() < 0 {
        spec.set_termination_grace_period_seconds(1);
    }
    requests_from_limits(spec);
    if spec.enable_service_links().is_none() {
        spec.set_enable_service_links(true);
    }
    if spec.host_network() {
        host_ports(spec);
    }
    pod_spec(spec);
    ips(pod);
}

impl PodTemplateSpec {
    /// What holds for a template as for a pod.
    pub(crate) fn default_fields(&mut self) {
        pod_spec(self.spec_mut());
    }
}

/// What is missing in the resources of the whole pod follows from its containers.
pub(super) fn pod_resources(spec: &mut PodSpec) {
    let Some(asked) = spec.resources() else { return };
    if asked.limits().is_empty() && asked.requests().is_empty() {
        return;
    }
    let (limits, requests) = (spec.container_limits(), spec.container_requests());
    let limit = |one: &Container, name: &str| one.resources().limits().get(name).is_some();
    let all_limited = |name: &str| spec.all_containers().all(|one| limit(one, name));
    let known = |name: &str| is_hugepages(name) || is_pod_level_resource(name) && all_limited(name);
    let limits: Vec<_> = limits.into_iter().filter(|(name, _)| known(name)).collect();
    let resources = spec.resources_mut();
    for (name, amount) in requests {
        let known = is_pod_level_resource(&name) && !is_hugepages(&name);
        if known && resources.requests().get(&name).is_none() {
            resources.requests_mut().insert(&name, amount);
        }
    }
    for (name, amount) in limits {
        if resources.limits().get(&name).is_none() {
            let least = resources.requests().get(&name).filter(|least| *least > amount);
            resources.limits_mut().insert(&name, least.unwrap_or(amount));
        }
    }
    let limits = resources.limits().clone();
    for (name, amount) in limits.iter().filter(|(name, _)| is_pod_level_resource(name)) {
        if resources.requests().get(name).is_none() {
            resources.requests_mut().insert(name, amount);
        }
    }
}

fn pod_spec(spec: &mut PodSpec) {
    if spec.service_account_name().is_empty() {
        let name = Text::from(spec.service_account());
        spec.set_service_account_name(name);
    }
    let name = Text::from(spec.service_account_name());
    spec.set_service_account(name);
    if spec.security_context().is_none() {
        spec.set_security_context(PodSecurityContext::new());
    }
    if !spec.volumes().is_empty() {
        for volume in spec.volumes_mut().iter_mut() {
            volume.default_fields();
        }
    }
    containers(spec, Container::default_fields);
    if !spec.ephemeral_containers().is_empty() {
        let ephemeral = spec.ephemeral_containers_mut().iter_mut();
        ephemeral.for_each(|container| container.as_container_mut().default_fields());
    }
}

/// Each container and init container.
fn containers(spec: &mut PodSpec, each: fn(&mut Container)) {
    let all = |list: &mut List<Container>| list.iter_mut().for_each(each);
    if !spec.containers().is_empty() {
        all(spec.containers_mut());
    }
    if !spec.init_containers().is_empty() {
        all(spec.init_containers_mut());
    }
}

/// Who says how much a container may use at most asks for as much.
fn requests_from_limits(spec: &mut PodSpec) {
    containers(spec, |container| {
        if !container.resources().limits().is_empty() {
            let limits = container.resources().limits().clone();
            container.resources_mut().requests_mut().insert_missing(&limits);
        }
    });
}

/// On the host's network a port of a container is a port of the host.
fn host_ports(spec: &mut PodSpec) {
    containers(spec, |container| {
        if container.ports().is_empty() {
            return;
        }
        for port in container.ports_mut().iter_mut().filter(|port| port.host_port() == 0) {
            let number = port.container_port();
            port.set_host_port(number);
        }
    });
}

/// The one address and the list of addresses agree; the one wins.
fn ips(pod: &mut Pod) {
    let status = pod.status();
    let first = status.pod_ips().iter().next().map(|ip| Text::from(ip.ip()));
    let one = Text::from(status.pod_ip());
    match first {
        Some(first) if one.is_empty() => pod.status_mut().set_pod_ip(first),
        Some(first) if first == one => {}
        _ if one.is_empty() => {}
        _ => pod.status_mut().set_pod_ips([super::PodIP::new().with_ip(one)]),
    }
}
