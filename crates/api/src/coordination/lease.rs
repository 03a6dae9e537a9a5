//! coordination/v1: Lease.

use macros::api;
use object::{MicroTime, ObjectMeta};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, TableColumn};

/// A lock with an expiry, for leader election and heartbeats.
#[api]
pub struct Lease {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Who holds it.
    spec: LeaseSpec,
}

#[api]
pub struct LeaseSpec {
    /// Identity of the holder.
    holder_identity: Option<String>,
    /// Seconds after renewTime at which others may take the lease.
    lease_duration_seconds: Option<i32>,
    /// When the holder acquired the lease.
    acquire_time: Option<MicroTime>,
    /// When the holder last renewed the lease.
    renew_time: Option<MicroTime>,
    /// Number of times the lease changed its holder.
    lease_transitions: Option<i32>,
    /// How the holder is chosen among candidates.
    #[api(go_type = "v1.CoordinatedLeaseStrategy")]
    strategy: Option<String>,
    /// To whom it should be handed.
    preferred_holder: Option<String>,
}

impl Kind for Lease {
    const NAMES: ResourceNames = ResourceNames::new("coordination.k8s.io", "v1", "Lease", "leases");
    const FORMER_API_VERSIONS: &'static [&'static str] = &["coordination.k8s.io/v1beta1"];
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const CREATED_BY_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Holder", |it, _| it.spec().holder_identity().unwrap_or_default().into()),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        let (spec, at) = (self.spec(), FieldPath::SPEC);
        if let Some(seconds) = spec.lease_duration_seconds().filter(|seconds| *seconds <= 0) {
            errs.invalid(&at.field("leaseDurationSeconds"), seconds, "must be greater than 0");
        }
        if let Some(n) = spec.lease_transitions() {
            errs.non_negative(&at.field("leaseTransitions"), n.into());
        }
    }

    fn prepare_create(&mut self) {
        self.spec_mut().drop_election();
    }

    fn prepare_update(&mut self, old: &Self) {
        if old.spec().strategy().is_none() && old.spec().preferred_holder().is_none() {
            self.spec_mut().drop_election();
        }
    }
}

impl LeaseSpec {
    /// Candidates are not chosen by the server.
    fn drop_election(&mut self) {
        self.clear_strategy();
        self.clear_preferred_holder();
    }
}
