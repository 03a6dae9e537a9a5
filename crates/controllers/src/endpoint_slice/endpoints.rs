//! Endpoints controller: writes the endpoints of each Service into one Endpoints object, for
//! clients of the deprecated API.

use api::core::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service};
use client::Error;
use object::{List, NamespacedName, ObjectMeta};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue, Step};
use schema::Kind;

use super::{TriggerTimes, annotate, grouped, selecting, selector};
use crate::Config;

const MANAGED: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

pub(crate) fn start(cx: &Context, _: &Config) {
    let controller = EndpointsReconciler {
        services: cx.cached_api(),
        pods: cx.cached_api(),
        endpoints: cx.cached_api(),
        trigger_times: TriggerTimes::default(),
    };
    let services = controller.services.clone();
    Controller::new("endpoints", cx, controller)
        .queue_named("endpoint")
        .watches::<Pod>(move |pod| selecting(pod, &services))
        .watches::<Endpoints>(|own| vec![NamespacedName::from_meta(own.metadata())])
        .start();
}

/// Reconciler of the Endpoints of Services.
#[derive(Debug)]
struct EndpointsReconciler {
    services: CachedApi<Service>,
    pods: CachedApi<Pod>,
    endpoints: CachedApi<Endpoints>,
    trigger_times: TriggerTimes,
}

/// A write to an Endpoints object.
#[derive(Debug, PartialEq)]
enum Act {
    Create(Endpoints),
    Update(Endpoints),
    Delete(Endpoints),
}

impl Reconcile for EndpointsReconciler {
    type Kind = Service;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        service: Option<Service>,
    ) -> Result<Requeue, Error> {
        let found = self.endpoints.get(key);
        let step = if let Some(service) = service {
            self.plan(&service, found)
        } else {
            self.trigger_times.forget(key);
            found.filter(is_ours).map(|own| {
                let because = own.write_cause("its service is gone");
                Step { action: Act::Delete(own), cause: because }
            })
        };
        let Some(Step { action: act, cause: because }) = step else { return Ok(Requeue::OnChange) };
        let endpoints = self.endpoints.with_cause(&because);
        match act {
            Act::Create(own) => match endpoints.create(own).await {
                Err(error) if error.is_namespace_terminating() => {}
                made => drop(made?),
            },
            Act::Update(own) => drop(endpoints.update(own).await?),
            Act::Delete(own) => endpoints.delete(&own).await?,
        }
        Ok(Requeue::OnChange)
    }
}

impl EndpointsReconciler {
    fn plan(&self, service: &Service, found: Option<Endpoints>) -> Option<Step<Act>> {
        let selector = selector(service)?;
        let mut pods = self.pods.in_namespace(service.metadata().namespace());
        pods.retain(|pod| selector.matches(pod.metadata().labels()));
        let trigger = self.trigger_times.compute(service, pods.iter());
        let mut step = plan(service, &pods, found)?;
        if let Act::Create(own) | Act::Update(own) = &mut step.action {
            annotate(own.metadata_mut(), trigger);
        }
        Some(step)
    }
}

fn is_ours(endpoints: &Endpoints) -> bool {
    endpoints.metadata().labels().get(MANAGED) == Some(MANAGER)
}

fn plan(service: &Service, pods: &[Pod], found: Option<Endpoints>) -> Option<Step<Act>> {
    let selector = selector(service).filter(|_| !service.is_terminating())?;
    let mine = pods.iter().filter(|pod| selector.matches(pod.metadata().labels()));
    let subsets: List<EndpointSubset> = grouped(service, mine)
        .iter()
        .filter(|(_, endpoints)| !endpoints.is_empty())
        .map(subset)
        .collect();
    let act = match found {
        Some(own) if *own.subsets() == subsets => return None,
        Some(own) => Act::Update(own.with_subsets(subsets)),
        None => {
            let meta = service.metadata();
            let mut labels = meta.labels().clone();
            labels.insert(MANAGED, MANAGER);
            let own = ObjectMeta::new().with_name(meta.name()).with_namespace(meta.namespace());
            let own = Endpoints::new().with_metadata(own.with_labels(labels));
            Act::Create(own.with_subsets(subsets))
        }
    };
    Some(Step { action: act, cause: service.write_cause("its pods have changed") })
}

fn subset((ports, endpoints): &super::Group) -> EndpointSubset {
    let address = |endpoint: &api::discovery::Endpoint| {
        let ip = endpoint.addresses().iter().next().unwrap_or_default();
        let mut address = EndpointAddress::new().with_ip(ip);
        if let Some(node) = endpoint.node_name() {
            address.set_node_name(node);
        }
        if let Some(target) = endpoint.target_ref() {
            address.set_target_ref(target.clone());
        }
        if let Some(name) = endpoint.hostname() {
            address.set_hostname(name);
        }
        address
    };
    let ready = |endpoint: &&api::discovery::Endpoint| endpoint.conditions().ready() == Some(true);
    let (there, others): (Vec<_>, Vec<_>) = endpoints.iter().partition(ready);
    let ports = ports.iter().map(|port| {
        EndpointPort::new()
            .with_name(port.name())
            .with_port(port.port().unwrap_or_default())
            .with_protocol(port.protocol())
    });
    EndpointSubset::new()
        .with_addresses(there.into_iter().map(address).collect::<List<_>>())
        .with_not_ready_addresses(others.into_iter().map(address).collect::<List<_>>())
        .with_ports(ports.collect::<List<_>>())
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{pod, service},
        *,
    };

    #[test]
    fn tells_the_ready_from_the_others() {
        let pods = [pod("a", "10.0.0.1", true), pod("b", "10.0.0.2", false)];
        let step = plan(&service("http"), &pods, None).expect("nothing is there yet");
        let Act::Create(own) = step.action else { panic!("{step:?}") };
        let subset = own.subsets().iter().next().expect("one");
        assert_eq!((subset.addresses().len(), subset.not_ready_addresses().len()), (1, 1));
        assert_eq!(subset.ports().iter().next().map(api::core::EndpointPort::port), Some(8080));
        assert!(plan(&service("http"), &pods, Some(own)).is_none());
    }
}
