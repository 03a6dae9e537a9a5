//! What must be done before a server is ready, by upstream's names: each part of the start
//! says when it is.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use server::{Check, Registry, Says};

/// Parts of the start, in upstream's order. Those that are not parts of ours have no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Admission,
    FlowControl,
    CustomKinds,
    Namespaces,
    Authentication,
    Identity,
    Collector,
    Storage,
    TokenTracking,
    AddressRepair,
    Roles,
    PriorityClasses,
    FlowObjects,
    Service,
    ServiceRanges,
    ProxyCertificate,
    LocalServices,
    RemoteServices,
}

const PARTS: &[(Part, &str)] = &[
    (Part::Admission, "poststarthook/start-apiserver-admission-initializer"),
    (Part::Storage, "poststarthook/generic-apiserver-start-informers"),
    (Part::FlowControl, "poststarthook/priority-and-fairness-config-consumer"),
    (Part::FlowControl, "poststarthook/priority-and-fairness-filter"),
    (Part::Storage, "poststarthook/storage-object-count-tracker-hook"),
    (Part::CustomKinds, "poststarthook/start-apiextensions-informers"),
    (Part::CustomKinds, "poststarthook/start-apiextensions-controllers"),
    (Part::CustomKinds, "poststarthook/crd-informer-synced"),
    (Part::Namespaces, "poststarthook/start-system-namespaces-controller"),
    (Part::Service, "poststarthook/peer-endpoint-reconciler-controller"),
    (Part::Authentication, "poststarthook/start-cluster-authentication-info-controller"),
    (Part::Identity, "poststarthook/start-kube-apiserver-identity-lease-controller"),
    (Part::Collector, "poststarthook/start-kube-apiserver-identity-lease-garbage-collector"),
    (Part::Storage, "poststarthook/storage-readiness"),
    (Part::TokenTracking, "poststarthook/start-legacy-token-tracking-controller"),
    (Part::AddressRepair, "poststarthook/start-service-ip-repair-controllers"),
    (Part::Roles, "poststarthook/rbac/bootstrap-roles"),
    (Part::PriorityClasses, "poststarthook/scheduling/bootstrap-system-priority-classes"),
    (Part::FlowObjects, "poststarthook/priority-and-fairness-config-producer"),
    (Part::Service, "poststarthook/bootstrap-controller"),
    (Part::ServiceRanges, "poststarthook/start-kubernetes-service-cidr-controller"),
    (Part::ProxyCertificate, "poststarthook/aggregator-reload-proxy-client-cert"),
    (Part::LocalServices, "poststarthook/start-kube-aggregator-informers"),
    (Part::LocalServices, "poststarthook/apiservice-status-local-available-controller"),
    (Part::RemoteServices, "poststarthook/apiservice-status-remote-available-controller"),
    (Part::LocalServices, "poststarthook/apiservice-registration-controller"),
    (Part::RemoteServices, "poststarthook/apiservice-discovery-controller"),
    (Part::LocalServices, "poststarthook/kube-apiserver-autoregistration"),
    (Part::LocalServices, "autoregister-completion"),
    (Part::RemoteServices, "poststarthook/apiservice-openapi-controller"),
    (Part::RemoteServices, "poststarthook/apiservice-openapiv3-controller"),
];

/// How far the start has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    pub(crate) fn done(&self, parts: &[Part]) {
        let bits = parts.iter().fold(0, |bits, part| bits | 1 << *part as u64);
        self.0.fetch_or(bits, Ordering::Release);
    }

    fn is_done(&self, part: Part) -> bool {
        self.0.load(Ordering::Acquire) & 1 << part as u64 != 0
    }

    /// All that is looked at; `expiry` says whether the certificate that is shown still holds.
    /// Another's certificate for aggregated servers is a part only where there is one.
    pub(crate) fn checks(
        &self,
        registry: &Arc<Registry>,
        expiry: impl Fn() -> Result<(), String> + Send + Sync + 'static,
        proxied: bool,
    ) -> Vec<Check> {
        let engine = registry.engine().clone();
        let health = move || engine.health().map_err(|error| error.to_string());
        let engine = registry.engine().clone();
        let again = move || engine.readiness().map_err(|error| error.to_string());
        let mut all = vec![
            Check::new("ping", Says::Either, || Ok(())),
            Check::new("log", Says::Either, || Ok(())),
            Check::new("loopback-serving-certificate", Says::Dead, expiry),
            Check::new("etcd", Says::Either, health),
            Check::new("etcd-readiness", Says::Unready, again),
        ];
        let synced = self.clone();
        all.push(Check::new("informer-sync", Says::Unready, move || {
            if synced.is_done(Part::Storage) { Ok(()) } else { Err("not yet read".to_owned()) }
        }));
        let own = |part: &Part| proxied || *part != Part::ProxyCertificate;
        for (part, name) in PARTS.iter().filter(|(part, _)| own(part)) {
            let (progress, part) = (self.clone(), *part);
            all.push(Check::new(name, Says::Either, move || {
                if progress.is_done(part) { Ok(()) } else { Err("not finished".to_owned()) }
            }));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_told_apart() {
        let progress = Progress::default();
        assert!(!progress.is_done(Part::Admission));
        progress.done(&[Part::Admission, Part::RemoteServices]);
        assert!(progress.is_done(Part::Admission) && progress.is_done(Part::RemoteServices));
        assert!(!progress.is_done(Part::Roles));
    }
}
