//! storage/v1: CSIDriver.

use std::collections::BTreeSet;

use macros::api;
use object::{Lens, List, ObjectMeta};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn, WarningList};

use crate::{columns, generation, rules::or_null};

/// What a storage driver can do, and what it wants of Kubernetes.
#[api]
pub struct CSIDriver {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What the driver is like.
    spec: Must<CSIDriverSpec>,
}

#[api]
pub struct CSIDriverSpec {
    /// Whether volumes must be attached to a node before they are mounted. It never changes.
    #[api(default = true, unpublished_default)]
    attach_required: Option<bool>,
    /// Whether the driver receives information about the pod that a volume is mounted for.
    #[api(default = false, unpublished_default)]
    pod_info_on_mount: Option<bool>,
    /// The kinds of volumes that the driver has: Persistent, Ephemeral. They never change.
    #[api(set, go_type = "[]v1.VolumeLifecycleMode")]
    volume_lifecycle_modes: List<String>,
    /// Whether the scheduler looks at how much room the driver says it has.
    #[api(default = false, unpublished_default)]
    storage_capacity: Option<bool>,
    /// Whether volumes are given to the pod's group: ReadWriteOnceWithFSType, File, None.
    #[api(default = "ReadWriteOnceWithFSType", unpublished_default, go_type = "v1.FSGroupPolicy")]
    fs_group_policy: Option<String>,
    /// The tokens of the pod's service account that the driver is given.
    token_requests: List<TokenRequest>,
    /// Whether mounted volumes are published again from time to time.
    #[api(default = false, unpublished_default)]
    requires_republish: Option<bool>,
    /// Whether the driver mounts with an SELinux label of its own.
    #[api(default = false, unpublished_default)]
    se_linux_mount: Option<bool>,
    /// After how many seconds the number of volumes that a node can take is asked anew.
    #[api(feature_gate = "MutableCSINodeAllocatableCount")]
    node_allocatable_update_period_seconds: Option<i64>,
    /// Whether tokens are given as secrets rather than as attributes of the volume.
    #[api(feature_gate = "CSIServiceAccountTokenSecrets")]
    service_account_token_in_secrets: Option<bool>,
    /// Whether pods stay off nodes that do not have the driver.
    #[api(default = false, unpublished_default, feature_gate = "VolumeLimitScaling")]
    prevent_pod_scheduling_if_missing: Option<bool>,
}

#[api]
pub struct TokenRequest {
    /// Whom the token is for; empty: the API server.
    audience: Must<String>,
    /// How long the token is valid.
    expiration_seconds: Option<i64>,
}

impl Kind for CSIDriver {
    const NAMES: ResourceNames =
        ResourceNames::new("storage.k8s.io", "v1", "CSIDriver", "csidrivers");
    const FORMER_API_VERSIONS: &'static [&'static str] = &["storage.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const SHOWS_DELETED: bool = true;
    const BLIND_UPDATES: bool = false;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::new("AttachRequired", "boolean", |it, _| it.spec().attach_required().into()),
        TableColumn::new("PodInfoOnMount", "boolean", |it, _| it.spec().pod_info_on_mount().into()),
        TableColumn::new("StorageCapacity", "boolean", |it, _| it.spec().storage_capacity().into()),
        TableColumn::text("TokenRequests", |driver, _| match driver.spec().token_requests() {
            none if none.is_empty() => columns::text_or_unset(""),
            some => columns::join(some.iter().map(TokenRequest::audience)).into(),
        }),
        TableColumn::new("RequiresRepublish", "boolean", |it, _| {
            it.spec().requires_republish().into()
        }),
        TableColumn::text("Modes", |driver, _| {
            columns::join(driver.spec().volume_lifecycle_modes().iter()).into()
        }),
        TableColumn::AGE,
    ];

    fn default_fields(&mut self) {
        if self.spec().volume_lifecycle_modes().is_empty() {
            self.spec_mut().volume_lifecycle_modes_mut().push("Persistent");
        }
    }

    fn prepare_update(&mut self, old: &Self) {
        let changed = self.spec() != old.spec();
        generation::bump_if(self.metadata_mut(), old.metadata(), changed);
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(&FieldPath::SPEC, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.validate(errs);
        let (new, old) = (self.spec().tree(), old.spec().tree());
        errs.immutable(
            &FieldPath::SPEC.field("attachedRequired"),
            new.get("attachRequired"),
            old.get("attachRequired"),
        );
        let modes = "volumeLifecycleModes";
        errs.immutable(&FieldPath::SPEC.field(modes), new.get(modes), old.get(modes));
    }

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        let spec = self.spec();
        let same = old.is_some_and(|old| old.spec().token_requests() == spec.token_requests());
        if !same
            && !spec.token_requests().is_empty()
            && spec.service_account_token_in_secrets().is_none()
        {
            warnings.push(
                "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set \
                 to true to prevent possible logging of tokens in volume attributes",
            );
        }
    }
}

/// How often a node may be asked anew, in seconds.
const MIN_PERIOD: i64 = 10;

impl CSIDriverSpec {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let policies = ["File", "None", "ReadWriteOnceWithFSType"];
        errs.one_of(&at.field("fsGroupPolicy"), self.fs_group_policy(), &policies);
        self.check_tokens(&at.field("tokenRequests"), errs);
        for mode in self.volume_lifecycle_modes().iter() {
            errs.one_of(&at.field("volumeLifecycleModes"), mode, &["Persistent", "Ephemeral"]);
        }
        let period = self.node_allocatable_update_period_seconds();
        if let Some(period) = period.filter(|period| *period < MIN_PERIOD) {
            let at = at.field("nodeAllocatableUpdatePeriodSeconds");
            errs.invalid(&at, period, "must be greater than or equal to 10 seconds");
        }
        let secrets = self.service_account_token_in_secrets();
        if secrets.is_some() && self.token_requests().is_empty() {
            let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            errs.invalid(&at.field("serviceAccountTokenInSecrets"), or_null(secrets), why);
        }
    }

    fn check_tokens(&self, at: &FieldPath, errs: &mut ErrorList) {
        let mut audiences = BTreeSet::new();
        for (i, request) in self.token_requests().iter().enumerate() {
            let at = at.index(i);
            if !audiences.insert(request.audience()) {
                errs.duplicate(&at.field("audience"), request.audience());
                continue;
            }
            let Some(seconds) = request.expiration_seconds() else { continue };
            let at = at.field("expirationSeconds");
            if seconds < 600 {
                errs.invalid(&at, seconds, "may not specify a duration less than 10 minutes");
            } else if seconds > 1 << 32 {
                errs.invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create_errors, created_from_json};

    #[test]
    fn audiences_are_told_apart() {
        let driver: CSIDriver =
            created_from_json(r#"{"spec":{"tokenRequests":[{"audience":"a"},{"audience":"a"}]}}"#);
        assert_eq!(
            driver.spec().volume_lifecycle_modes().iter().collect::<Vec<_>>(),
            ["Persistent"]
        );
        let wrong = create_errors(&driver);
        assert_eq!(wrong, ["spec.tokenRequests[1].audience: Duplicate value: \"a\""]);
    }
}
