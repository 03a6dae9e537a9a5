//! certificates/v1: PodCertificateRequest. It is stored in v1beta1, which has the rules.

use macros::api;
use object::{Bytes, Condition, List, Map, ObjectMeta, Time, Value};
use schema::{
    CLIENT_METADATA_FIELDS, Kind, ResourceNames, SelectableField, StorageConfig, Subresource,
    TableColumn,
};

use super::v1beta1;
use crate::columns;

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
    /// A request that is signed by the key, and says nothing else.
    #[api(tag = 12, name = "stubPKCS10Request")]
    stub_pkcs10_request: Must<Bytes>,
    /// What the pod's author wants the signer to know.
    #[api(tag = 11)]
    unverified_user_annotations: Map<String>,
}

#[api]
pub struct PodCertificateRequestStatus {
    /// What was decided: Issued, Denied, Failed.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
    /// The certificate and those that lead to its root, as PEM.
    certificate_chain: String,
    /// From when on the certificate is valid.
    #[api(tag = 4)]
    not_before: Option<Time>,
    /// When the kubelet should ask for the next one.
    begin_refresh_at: Option<Time>,
    /// Until when the certificate is valid.
    not_after: Option<Time>,
}

impl Kind for PodCertificateRequest {
    const NAMES: ResourceNames = ResourceNames::new(
        "certificates.k8s.io",
        "v1",
        "PodCertificateRequest",
        "podcertificaterequests",
    );
    const FORMER_API_VERSIONS: &'static [&'static str] = &["certificates.k8s.io/v1beta1"];
    const STORAGE: StorageConfig = StorageConfig::new("podcertificaterequests", "v1beta1");
    const BLIND_UPDATES: bool = false;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const GATE: Option<&str> = Some("PodCertificateRequest");
    const SUBRESOURCES: &'static [Subresource] = v1beta1::PodCertificateRequest::SUBRESOURCES;
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

    fn from_stored(object: &mut Value) {
        for name in ["pkixPublicKey", "proofOfPossession"] {
            object["spec"].remove(name);
        }
    }
}

impl PodCertificateRequestStatus {
    pub(super) fn state(&self) -> &str {
        let decided =
            |condition: &&Condition| matches!(condition.type_(), "Issued" | "Denied" | "Failed");
        self.conditions().iter().rfind(decided).map_or("Pending", Condition::type_)
    }
}
