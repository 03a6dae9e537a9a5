//! certificates/v1beta1: PodCertificateRequest.

use macros::api;
use object::{Bytes, Lens, Map, ObjectMeta, Value};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, SelectableField,
    StorageConfig, Subresource, TableColumn,
};

use super::rules::{check_spec, check_status};
use crate::{
    certificates::{self, PodCertificateRequestStatus},
    columns,
    shown::format_go,
};

/// A kubelet's request for a certificate of a pod.
#[api]
pub struct PodCertificateRequest {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The requested certificate and its pod. Immutable.
    spec: Must<PodCertificateRequestSpec>,
    /// What the signer has decided.
    status: PodCertificateRequestStatus,
}

#[api]
pub struct PodCertificateRequestSpec {
    /// Who is to sign: `example.com/signer`.
    signer_name: Must<String>,
    /// The pod's name.
    pod_name: Must<String>,
    /// The pod's number.
    #[api(name = "podUID", go_type = "types.UID")]
    pod_uid: Must<String>,
    /// The name of the pod's service account.
    service_account_name: Must<String>,
    /// The number of the pod's service account.
    #[api(name = "serviceAccountUID", go_type = "types.UID")]
    service_account_uid: Must<String>,
    /// The node that the pod runs on.
    #[api(go_type = "types.NodeName")]
    node_name: Must<String>,
    /// The node's number.
    #[api(name = "nodeUID", go_type = "types.UID")]
    node_uid: Must<String>,
    /// How long the certificate may be valid at most.
    #[api(default = 86400)]
    max_expiration_seconds: Option<i32>,
    /// The public key; better say stubPKCS10Request.
    #[api(no_omitempty)]
    pkix_public_key: Bytes,
    /// The pod's number, signed by the key; better say stubPKCS10Request.
    #[api(no_omitempty)]
    proof_of_possession: Bytes,
    /// A request that is signed by the key, and says nothing else.
    #[api(tag = 12, name = "stubPKCS10Request")]
    stub_pkcs10_request: Must<Bytes>,
    /// What the pod's author wants the signer to know.
    #[api(tag = 11)]
    unverified_user_annotations: Map<String>,
}

impl Kind for PodCertificateRequest {
    const NAMES: ResourceNames =
        ResourceNames { version: "v1beta1", ..certificates::PodCertificateRequest::NAMES };
    const FORMER_API_VERSIONS: &'static [&'static str] =
        certificates::PodCertificateRequest::FORMER_API_VERSIONS;
    const STORAGE: StorageConfig = certificates::PodCertificateRequest::STORAGE;
    const BLIND_UPDATES: bool = false;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const GATE: Option<&str> = certificates::PodCertificateRequest::GATE;
    const DEFAULT_ON: bool = false;
    const DEPRECATED: &str = "deprecated in v1.37+, unavailable in v1.40+; use \
                              certificates.k8s.io/v1 PodCertificateRequest";
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("PodCertificateRequest")];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("PodName", |this, _| this.spec().pod_name().into()),
        TableColumn::text("ServiceAccountName", |this, _| {
            this.spec().service_account_name().into()
        }),
        TableColumn::text("NodeName", |this, _| this.spec().node_name().into()),
        TableColumn::text("SignerName", |this, _| this.spec().signer_name().into()),
        TableColumn::text("State", |this, _| this.status().state().into()),
        TableColumn::text("UnverifiedUserAnnotations", |this, _| {
            columns::labels(this.spec().unverified_user_annotations())
        }),
    ];
    const INDEXES: &'static [SelectableField<Self>] = &[
        SelectableField::filter_only("spec.signerName", |this| this.spec().signer_name().into()),
        SelectableField::filter_only("spec.podName", |this| this.spec().pod_name().into()),
        SelectableField::with_watch_topic("spec.nodeName", |this| this.spec().node_name().into()),
    ];

    fn validate(&self, errs: &mut ErrorList) {
        check_spec(self.spec(), errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        if self.spec().filled() != old.spec().filled() {
            errs.invalid_formatted(&FieldPath::SPEC, format_go(self.spec()), "field is immutable");
        }
    }

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
        check_status(self, old, errs);
    }
}

impl PodCertificateRequestSpec {
    /// Without bytes that were given and are none.
    fn filled(&self) -> Value {
        let mut spec = self.tree().clone();
        spec.retain(|_, value| !value.is_zero());
        spec
    }
}
