//! Mirrors Endpoints of Services without a selector into EndpointSlices, which are what kube-proxy
//! reads.

mod metrics;

use std::net::IpAddr;

use api::{
    core::{EndpointAddress, EndpointSubset, Endpoints, Service},
    discovery::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
};
use client::Error;
use object::{List, Map, NamespacedName, ObjectMeta};
use runtime::{CachedApi, Context, Controller, EventRecorder, Reconcile, Requeue, Step};
use schema::Kind;
use tokio::time::Instant;

use self::metrics::MirroringMetrics;
use crate::{
    Config,
    endpoint_slice::{Action, MANAGED, SERVICE, TRIGGER_TIME, execute},
};

const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP_MIRROR_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotation of Endpoints that are used for leader election and contain no addresses.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that are not copied to slices.
const OWN: [&str; 2] = [TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration"];

pub(crate) fn start(cx: &Context, config: &Config) {
    let mirror = Mirror {
        services: cx.cached_api(),
        slices: cx.cached_api(),
        events: EventRecorder::start(cx, "endpoint-slice-mirroring-controller", ""),
        most: config.mirrored_endpoints_per_subset,
        metrics: MirroringMetrics::new(cx.metrics()),
    };
    Controller::new("endpointslice-mirroring", cx, mirror)
        .queue_named("endpoint_slice_mirroring")
        .watches::<Service>(|service| vec![NamespacedName::from_meta(service.metadata())])
        .watches::<EndpointSlice>(|slice| {
            let meta = slice.metadata();
            let ours = meta.labels().get(MANAGED) == Some(MANAGER);
            let name = meta.labels().get(SERVICE).filter(|_| ours);
            name.map(|name| NamespacedName::new(meta.namespace(), name)).into_iter().collect()
        })
        .start();
}

/// Reconciler of Endpoints that are mirrored.
#[derive(Debug)]
struct Mirror {
    services: CachedApi<Service>,
    slices: CachedApi<EndpointSlice>,
    events: EventRecorder,
    most: usize,
    metrics: MirroringMetrics,
}

impl Reconcile for Mirror {
    type Kind = Endpoints;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        endpoints: Option<Endpoints>,
    ) -> Result<Requeue, Error> {
        let began = Instant::now();
        let done = self.sync(key, endpoints).await;
        self.metrics.synced(began.elapsed());
        done.map(|()| Requeue::OnChange)
    }
}

impl Mirror {
    async fn sync(&self, key: &NamespacedName, endpoints: Option<Endpoints>) -> Result<(), Error> {
        let own = self.slices.in_namespace(&key.namespace).into_iter().filter(|slice| {
            let labels = slice.metadata().labels();
            labels.get(SERVICE) == Some(&*key.name) && labels.get(MANAGED) == Some(MANAGER)
        });
        let own: Vec<_> = own.collect();
        let service = self.services.get(key);
        let bare = service.as_ref().is_some_and(|service| service.spec().selector().is_empty());
        let Some(endpoints) = endpoints.filter(|it| bare && is_mirrored(it)) else {
            let gone =
                service.as_ref().map(|service| service.write_cause("there is nothing to mirror"));
            for slice in &own {
                match &gone {
                    Some(because) => self.slices.with_cause(because).delete(slice).await?,
                    None => self.slices.delete(slice).await?,
                }
                self.metrics.changed("delete");
            }
            self.metrics.forget(key);
            return Ok(());
        };
        let wanted = wanted(&endpoints, self.most);
        self.tell(&endpoints, &wanted);
        self.metrics.skipped(wanted.skipped);
        let steps = plan(&endpoints, wanted.slices, own.clone());
        self.metrics.planned(key, &own, &steps, self.most);
        execute(&self.slices, steps, |operation| self.metrics.changed(operation)).await
    }

    fn tell(&self, endpoints: &Endpoints, wanted: &DesiredSlices) {
        let DesiredSlices { invalid, skipped, .. } = wanted;
        if *invalid > 0 {
            let message =
                format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            self.events.warning(endpoints, "InvalidIPAddress", message);
        }
        if skipped > invalid {
            let most = self.most;
            let message = format!(
                "A max of {most} addresses can be mirrored to EndpointSlices per Endpoints \
                 subset. {skipped} addresses were skipped"
            );
            self.events.warning(endpoints, "TooManyAddressesToMirror", message);
        }
    }
}

/// The desired slices, one for each combination of ports and address family, and how many addresses
/// were invalid or skipped.
#[derive(Debug, Default)]
struct DesiredSlices {
    slices: Vec<EndpointSlice>,
    invalid: usize,
    skipped: usize,
}

fn is_mirrored(endpoints: &Endpoints) -> bool {
    let meta = endpoints.metadata();
    meta.labels().get(SKIP_MIRROR_LABEL) != Some("true") && meta.annotations().get(LEADER).is_none()
}

fn wanted(endpoints: &Endpoints, most: usize) -> DesiredSlices {
    let mut wanted = DesiredSlices::default();
    for subset in endpoints.subsets().iter() {
        let ports = ports(subset);
        let ready = subset.addresses().iter().map(|address| (address, true));
        let all = ready.chain(subset.not_ready_addresses().iter().map(|it| (it, false)));
        let mut added = 0;
        for (address, ready) in all {
            if added >= most {
                wanted.skipped += 1;
                continue;
            }
            let Ok(ip) = address.ip().parse::<IpAddr>() else {
                wanted.invalid += 1;
                wanted.skipped += 1;
                continue;
            };
            added += 1;
            let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
            let same = |slice: &&mut EndpointSlice| {
                slice.address_type() == family && slice.ports().iter().eq(ports.iter())
            };
            let at = wanted.slices.iter_mut().find(same);
            let endpoint = endpoint(address, &ip.to_string(), ready);
            match at {
                Some(slice) if slice.endpoints().len() < most => {
                    slice.endpoints_mut().push(endpoint);
                }
                Some(_) => wanted.skipped += 1,
                None => wanted.slices.push(
                    EndpointSlice::new()
                        .with_metadata(metadata(endpoints))
                        .with_address_type(family)
                        .with_ports(ports.clone())
                        .with_endpoints([endpoint]),
                ),
            }
        }
    }
    wanted
}

fn plan(
    endpoints: &Endpoints,
    wanted: Vec<EndpointSlice>,
    mut own: Vec<EndpointSlice>,
) -> Vec<Step<Action>> {
    let step = |rule: &str, act| Step { action: act, cause: endpoints.write_cause(rule) };
    let mut steps = Vec::new();
    for slice in wanted {
        let fits = |own: &EndpointSlice| {
            own.address_type() == slice.address_type()
                && own.ports().iter().eq(slice.ports().iter())
        };
        let Some(at) = own.iter().position(fits) else {
            if !endpoints.is_terminating() {
                steps.push(step("addresses are not mirrored yet", Action::Create(slice)));
            }
            continue;
        };
        let old = own.remove(at);
        let (new, known) = (slice.metadata(), old.metadata());
        let same = old.endpoints().iter().eq(slice.endpoints().iter())
            && known.labels().iter().eq(new.labels().iter())
            && known.annotations().iter().eq(new.annotations().iter());
        if !same {
            let meta = known
                .clone()
                .with_labels(new.labels().clone())
                .with_annotations(new.annotations().clone());
            let new = slice.with_metadata(meta);
            steps.push(step("addresses have changed", Action::Update(new)));
        }
    }
    let gone = own.into_iter().map(|slice| step("addresses are gone", Action::Delete(slice)));
    steps.extend(gone);
    steps
}

fn metadata(endpoints: &Endpoints) -> ObjectMeta {
    let meta = endpoints.metadata();
    let mut labels = Map::from([(SERVICE, meta.name()), (MANAGED, MANAGER)]);
    labels.insert_missing(meta.labels());
    let mut all = ObjectMeta::new()
        .with_namespace(meta.namespace())
        .with_generate_name(format!("{}-", meta.name()))
        .with_labels(labels)
        .with_owner_references([endpoints.controller_ref()]);
    for (name, value) in meta.annotations().iter().filter(|(name, _)| !OWN.contains(name)) {
        all.annotations_mut().insert(name, value);
    }
    all
}

fn ports(subset: &EndpointSubset) -> List<EndpointPort> {
    let port = |port: &api::core::EndpointPort| {
        let mut new = EndpointPort::new()
            .with_name(port.name())
            .with_port(port.port())
            .with_protocol(port.protocol());
        if let Some(protocol) = port.app_protocol() {
            new.set_app_protocol(protocol);
        }
        new
    };
    subset.ports().iter().map(port).collect()
}

fn endpoint(address: &EndpointAddress, ip: &str, ready: bool) -> Endpoint {
    let mut endpoint = Endpoint::new()
        .with_addresses([ip])
        .with_conditions(EndpointConditions::new().with_ready(ready));
    if !address.hostname().is_empty() {
        endpoint.set_hostname(address.hostname());
    }
    if let Some(node) = address.node_name() {
        endpoint.set_node_name(node);
    }
    if let Some(target) = address.target_ref() {
        endpoint.set_target_ref(target.clone());
    }
    endpoint
}

#[cfg(test)]
mod tests {
    use object::{View, from_json};

    use super::*;

    fn endpoints(subsets: &str) -> Endpoints {
        let text = format!(
            r#"{{"metadata":{{"name":"e","namespace":"n","labels":{{"a":"b"}},
            "annotations":{{"x":"y","kubectl.kubernetes.io/last-applied-configuration":"z"}}}},
            "subsets":[{subsets}]}}"#
        );
        Endpoints::view(&from_json(text.as_bytes()).unwrap()).clone()
    }

    #[test]
    fn addresses_become_slices_by_family_and_ports() {
        let all = endpoints(
            r#"{"addresses":[{"ip":"10.0.0.1"},{"ip":"fd00::1"},{"ip":"x"}],
            "notReadyAddresses":[{"ip":"10.0.0.2"}],"ports":[{"port":80}]}"#,
        );
        let wanted = wanted(&all, 10);
        let shown: Vec<_> =
            wanted.slices.iter().map(|it| (it.address_type(), it.endpoints().len())).collect();
        assert_eq!((shown, wanted.invalid), (vec![("IPv4", 2), ("IPv6", 1)], 1));
        let meta = wanted.slices[0].metadata().clone();
        assert_eq!(meta.labels().iter().len(), 3);
        assert_eq!(meta.annotations().iter().len(), 1);
        assert_eq!(super::wanted(&all, 1).skipped, 3);

        let made: Vec<_> = plan(&all, wanted.slices.clone(), vec![])
            .into_iter()
            .map(|step| match step.action {
                Action::Create(slice) => slice,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(plan(&all, wanted.slices.clone(), made.clone()).is_empty());
        let fewer = super::wanted(
            &endpoints(r#"{"addresses":[{"ip":"10.0.0.1"}],"ports":[{"port":80}]}"#),
            10,
        );
        let steps = plan(&all, fewer.slices, made);
        assert!(matches!(
            &*steps,
            [Step { action: Action::Update(_), .. }, Step { action: Action::Delete(_), .. }]
        ));
    }
}
