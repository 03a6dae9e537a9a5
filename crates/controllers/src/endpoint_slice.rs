//! EndpointSlice controller: writes the IPs of a Service's pods into EndpointSlices of at most a
//! hundred endpoints.

mod actions;
mod counts;
mod endpoints;
mod metrics;
mod trigger_time;

use std::collections::HashMap;

use api::{
    core::{Pod, Service, ServicePort, is_endpoint_ip},
    discovery::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
};
use client::Error;
use object::{IntOrString, List, NamespacedName, ObjectMeta, selector::Selector};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue, Step};
use schema::Kind;

pub(crate) use self::{
    actions::{Action, execute},
    counts::{ServiceCounts, count},
    endpoints::start as start_endpoints,
    trigger_time::TRIGGER_TIME,
};
use self::{
    metrics::SliceMetrics,
    trigger_time::{TriggerTimes, annotate},
};
use crate::Config;

const MAX_ENDPOINTS_PER_SLICE: usize = 100;
pub(crate) const SERVICE: &str = "kubernetes.io/service-name";
pub(crate) const MANAGED: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";

pub(crate) fn start(cx: &Context, _: &Config) {
    let slices = EndpointSlices {
        pods: cx.cached_api(),
        slices: cx.cached_api(),
        services: cx.cached_api(),
        trigger_times: TriggerTimes::default(),
        metrics: SliceMetrics::new(cx.metrics()),
    };
    let services = slices.services.clone();
    Controller::new("endpointslice", cx, slices)
        .queue_named("endpoint_slice")
        .watches::<Pod>(move |pod| selecting(pod, &services))
        .watches::<EndpointSlice>(|slice| {
            let service = slice.metadata().labels().get(SERVICE);
            let key = |name| NamespacedName::new(slice.metadata().namespace(), name);
            service.map(key).into_iter().collect()
        })
        .start();
}

/// The Services whose selector matches the pod.
fn selecting(pod: &Pod, services: &CachedApi<Service>) -> Vec<NamespacedName> {
    let near = services.in_namespace(pod.metadata().namespace()).into_iter();
    let selects = near.filter(|service| {
        selector(service).is_some_and(|selector| selector.matches(pod.metadata().labels()))
    });
    selects.map(|service| NamespacedName::from_meta(service.metadata())).collect()
}

/// The selector of a Service; `None` if its endpoints are not managed by this controller.
fn selector(service: &Service) -> Option<Selector> {
    let labels = service.spec().selector();
    let selects = !labels.is_empty() && service.spec().type_() != "ExternalName";
    selects.then(|| Selector::from_labels(labels.iter()))
}

/// Reconciler of the EndpointSlices of Services.
#[derive(Debug)]
struct EndpointSlices {
    services: CachedApi<Service>,
    pods: CachedApi<Pod>,
    slices: CachedApi<EndpointSlice>,
    trigger_times: TriggerTimes,
    metrics: SliceMetrics,
}

impl Reconcile for EndpointSlices {
    type Kind = Service;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        service: Option<Service>,
    ) -> Result<Requeue, Error> {
        let Some(service) = service else {
            self.trigger_times.forget(key);
            self.metrics.forget(key);
            return Ok(Requeue::OnChange); // slices are left to the garbage collector
        };
        let done = self.sync(key, &service).await;
        self.metrics.synced(done.is_ok());
        done.map(|()| Requeue::OnChange)
    }
}

impl EndpointSlices {
    async fn sync(&self, key: &NamespacedName, service: &Service) -> Result<(), Error> {
        let mut pods = self.pods.in_namespace(&key.namespace);
        let selector = selector(service);
        pods.retain(|pod| {
            selector.as_ref().is_some_and(|own| own.matches(pod.metadata().labels()))
        });
        let near = self.slices.in_namespace(&key.namespace).into_iter();
        let own = near.filter(|slice| {
            let labels = slice.metadata().labels();
            labels.get(SERVICE) == Some(&*key.name) && labels.get(MANAGED) == Some(MANAGER)
        });
        let own: Vec<_> = own.collect();
        let trigger = self.trigger_times.compute(service, pods.iter());
        let mut steps = plan(service, &pods, own.clone());
        for step in &mut steps {
            if let Action::Create(slice) | Action::Update(slice) = &mut step.action {
                annotate(slice.metadata_mut(), trigger);
            }
        }
        let changed = steps.len();
        if selector.is_none() {
            self.metrics.forget(key);
        } else {
            self.metrics.planned(service, count(&own, &steps, MAX_ENDPOINTS_PER_SLICE));
        }
        execute(&self.slices, steps, |operation| self.metrics.changed(operation)).await?;
        if selector.is_some() {
            self.metrics.written(service, changed);
        }
        Ok(())
    }
}

/// Computes how to change a Service's slices. Slices with the right content stay; the others are
/// rewritten.
fn plan(service: &Service, pods: &[Pod], own: Vec<EndpointSlice>) -> Vec<Step<Action>> {
    let step = |rule| move |act| Step { action: act, cause: service.write_cause(rule) };
    let Some(selector) = selector(service).filter(|_| !service.is_terminating()) else {
        return own
            .into_iter()
            .map(Action::Delete)
            .map(step("the service selects no pods"))
            .collect();
    };
    let groups =
        grouped(service, pods.iter().filter(|pod| selector.matches(pod.metadata().labels())));
    let (mut left, mut creates, mut steps) = (own, Vec::new(), Vec::new());
    for (ports, endpoints) in groups {
        for part in chunks(&endpoints) {
            let wanted = slice(service, &ports, part);
            let same = |own: &EndpointSlice| {
                // item by item: an empty list may be returned as an absent one
                own.endpoints().iter().eq(wanted.endpoints().iter())
                    && own.ports().iter().eq(wanted.ports().iter())
                    && own.address_type() == wanted.address_type()
            };
            if let Some(at) = left.iter().position(same) {
                left.remove(at);
            } else if let Some(at) =
                left.iter().position(|own| own.ports().iter().eq(wanted.ports().iter()))
            {
                let old = left.remove(at);
                let new = wanted.with_metadata(old.metadata().clone());
                steps.push(step("its pods have changed")(Action::Update(new)));
            } else {
                creates.push(wanted);
            }
        }
    }
    for old in left {
        let owner = old.metadata().controller_ref();
        let owned = owner.is_some_and(|owner| owner.uid() == service.metadata().uid());
        let fits = |new: &EndpointSlice| owned && new.address_type() == old.address_type();
        match creates.iter().rposition(fits) {
            // A slice that is not needed becomes one that is, so that clients see one change.
            Some(at) => {
                let new = creates.remove(at).with_metadata(old.metadata().clone());
                steps.push(step("its pods have changed")(Action::Update(new)));
            }
            None => steps.push(step("its pods are elsewhere")(Action::Delete(old))),
        }
    }
    let creates = creates.into_iter().map(Action::Create).map(step("its pods are not named yet"));
    creates.chain(steps).collect()
}

fn chunks(endpoints: &[Endpoint]) -> Vec<&[Endpoint]> {
    if endpoints.is_empty() {
        vec![&[]]
    } else {
        endpoints.chunks(MAX_ENDPOINTS_PER_SLICE).collect()
    }
}

/// Endpoints whose pods have the same port numbers.
type Group = (List<EndpointPort>, Vec<Endpoint>);

/// Groups the endpoints by the port numbers of their pods.
fn grouped<'a>(service: &Service, pods: impl Iterator<Item = &'a Pod>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut pods: Vec<&Pod> = pods.filter(|pod| should_be_in_endpoints(service, pod)).collect();
    pods.sort_by_key(|pod| pod.metadata().name());
    for pod in pods {
        let Some(ports) = ports(service, pod) else { continue };
        let endpoint = endpoint(service, pod);
        match groups.iter_mut().find(|(own, _)| *own == ports) {
            Some((_, endpoints)) => endpoints.push(endpoint),
            None => groups.push((ports, vec![endpoint])),
        }
    }
    if groups.is_empty() {
        groups.push((List::from_iter(Vec::<EndpointPort>::new()), Vec::new()));
    }
    groups
}

/// Whether the pod belongs into the endpoints: it has not finished and has an IP of the Service's
/// family. The kubelet reports the IP; an invalid one counts as none, so that the Service's other
/// pods stay reachable.
fn should_be_in_endpoints(service: &Service, pod: &Pod) -> bool {
    let ip = pod.status().pod_ip();
    ip.contains(':') == (family(service) == "IPv6")
        && is_endpoint_ip(ip)
        && !matches!(pod.status().phase(), "Succeeded" | "Failed")
}

fn family(service: &Service) -> &str {
    service.spec().ip_families().iter().next().unwrap_or("IPv4")
}

/// The Service's ports with the pod's port numbers. A named port that the pod lacks is left out;
/// `None` if none is left and the Service is not headless.
fn ports(service: &Service, pod: &Pod) -> Option<List<EndpointPort>> {
    let (mut found, named) = (Vec::new(), named_ports(pod));
    for port in service.spec().ports().iter() {
        let Some(number) = target(port, &named) else {
            continue;
        };
        let mut made = EndpointPort::new()
            .with_name(port.name())
            .with_protocol(port.protocol())
            .with_port(number);
        if let Some(protocol) = port.app_protocol() {
            made.set_app_protocol(protocol);
        }
        found.push(made);
    }
    let headless = service.spec().cluster_ip() == "None";
    (!found.is_empty() || headless).then(|| found.into_iter().collect())
}

/// The port numbers of a pod by name and protocol.
type NamedPorts<'a> = HashMap<(&'a str, &'a str), i32>;

fn named_ports(pod: &Pod) -> NamedPorts<'_> {
    let spec = pod.spec();
    let containers = spec.containers().iter().chain(spec.init_containers().iter());
    let mut named = NamedPorts::new();
    for port in containers.flat_map(|container| container.ports().iter()) {
        named.entry((port.name(), port.protocol())).or_insert(port.container_port());
    }
    named
}

/// The port number of a Service port in a pod.
fn target(port: &ServicePort, named: &NamedPorts<'_>) -> Option<i32> {
    match port.target_port() {
        IntOrString::Int(0) => Some(port.port()),
        IntOrString::Int(number) => Some(number),
        IntOrString::Text(name) => named.get(&(&*name, port.protocol())).copied(),
    }
}

fn endpoint(service: &Service, pod: &Pod) -> Endpoint {
    let terminating = pod.is_terminating();
    let serving = is_ready(pod);
    let ready = service.spec().publish_not_ready_addresses() || (serving && !terminating);
    let conditions = EndpointConditions::new()
        .with_ready(ready)
        .with_serving(serving)
        .with_terminating(terminating);
    let target = api::core::ObjectReference::new()
        .with_kind("Pod")
        .with_namespace(pod.metadata().namespace())
        .with_name(pod.metadata().name())
        .with_uid(pod.metadata().uid());
    let mut endpoint = Endpoint::new()
        .with_addresses([pod.status().pod_ip()])
        .with_conditions(conditions)
        .with_target_ref(target);
    if !pod.spec().node_name().is_empty() {
        endpoint.set_node_name(pod.spec().node_name());
    }
    let named = pod.spec().subdomain() == service.metadata().name();
    if named && !pod.spec().hostname().is_empty() {
        endpoint.set_hostname(pod.spec().hostname());
    }
    endpoint
}

fn is_ready(pod: &Pod) -> bool {
    let condition = pod.status().conditions().find(|own| own.type_() == "Ready");
    condition.is_some_and(|condition| condition.status() == "True")
}

fn slice(service: &Service, ports: &List<EndpointPort>, endpoints: &[Endpoint]) -> EndpointSlice {
    let meta = service.metadata();
    let mut labels = meta.labels().clone();
    labels.insert(SERVICE, meta.name());
    labels.insert(MANAGED, MANAGER);
    if service.spec().cluster_ip() == "None" {
        labels.insert("service.kubernetes.io/headless", "");
    }
    let own = ObjectMeta::new()
        .with_generate_name(format!("{}-", meta.name()))
        .with_namespace(meta.namespace())
        .with_labels(labels)
        .with_owner_references([service.controller_ref()]);
    EndpointSlice::new()
        .with_metadata(own)
        .with_address_type(family(service))
        .with_endpoints(endpoints.iter().cloned().collect::<List<_>>())
        .with_ports(ports.clone())
}

#[cfg(test)]
mod tests;
