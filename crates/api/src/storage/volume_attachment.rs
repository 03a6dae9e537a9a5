//! storage/v1: VolumeAttachment.

use macros::api;
use object::{Map, ObjectMeta, Time};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Scope, Subresource,
    TableColumn,
};

use crate::{
    core::{
        PersistentVolumeSpec, persistent_volume_claim::check_modes,
        volume::sources::check_csi_driver,
    },
    rules::ValidateField,
};

/// A request to attach a volume to a node, or to detach it.
#[api]
pub struct VolumeAttachment {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What is to be attached where. It never changes.
    #[api(validations(Immutable))]
    spec: Must<VolumeAttachmentSpec>,
    /// Observed state of the attachment.
    status: VolumeAttachmentStatus,
}

#[api]
pub struct VolumeAttachmentSpec {
    /// The driver that attaches the volume.
    #[api(validations(Required, Format("long-name-caseless"), MaxLength(63)))]
    attacher: Must<String>,
    /// The volume.
    source: Must<VolumeAttachmentSource>,
    /// The node.
    node_name: Must<String>,
}

#[api]
pub struct VolumeAttachmentSource {
    /// The volume's name.
    persistent_volume_name: Option<String>,
    /// The volume itself, where it is written down nowhere else.
    #[api(go_type = "v1.PersistentVolumeSpec")]
    inline_volume_spec: Option<PersistentVolumeSpec>,
}

#[api]
pub struct VolumeAttachmentStatus {
    /// Whether the volume is attached.
    attached: Must<bool>,
    /// Data of the driver that it needs again when the volume is mounted.
    attachment_metadata: Map<String>,
    /// Why the volume could not be attached.
    attach_error: Option<VolumeError>,
    /// Why the volume could not be detached.
    detach_error: Option<VolumeError>,
}

#[api]
pub struct VolumeError {
    /// When it happened.
    time: Time,
    /// What went wrong; without secrets.
    message: String,
    /// The driver's number for it.
    #[api(feature_gate = "MutableCSINodeAllocatableCount")]
    error_code: Option<i32>,
}

impl Kind for VolumeAttachment {
    const NAMES: ResourceNames =
        ResourceNames::new("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["storage.k8s.io/v1alpha1", "storage.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const SHOWS_DELETED: bool = true;
    const BLIND_UPDATES: bool = false;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("VolumeAttachment")];
    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::VOLUME_ATTACHMENT);
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn {
            format: "name",
            ..TableColumn::text("Attacher", |this, _| this.spec().attacher().into())
        },
        TableColumn::text("PV", |this, _| {
            this.spec().source().persistent_volume_name().unwrap_or_default().into()
        }),
        TableColumn::text("Node", |this, _| this.spec().node_name().into()),
        TableColumn::new("Attached", "boolean", |this, _| this.status().attached().into()),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().source().check(&FieldPath::SPEC.field("source"), errs);
        errs.subdomain(&FieldPath::SPEC.field("nodeName"), self.spec().node_name());
        self.status().check(&FieldPath::STATUS, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.validate(errs);
        if self.spec() != old.spec() {
            check_csi_driver(&FieldPath::SPEC.field("attacher"), self.spec().attacher(), errs);
        }
    }

    fn validate_status(&self, _: &Self, errs: &mut ErrorList) {
        schema::validate_name(Self::NAME, self.metadata(), errs);
        self.validate(errs);
    }
}

/// All metadata of an attached volume together are at most this long.
const MAX_METADATA: usize = 256 * 1024;
const MAX_MESSAGE: usize = 1024;

impl VolumeAttachmentSource {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        match (self.persistent_volume_name(), self.inline_volume_spec()) {
            (None, None) => errs.required(at, one),
            (Some(_), Some(_)) => errs.forbidden(at, one),
            (Some(""), None) => {
                let why = "must specify non empty persistentVolumeName";
                errs.required(&at.field("persistentVolumeName"), why);
            }
            (Some(_), None) => {}
            (None, Some(spec)) => check_inline(spec, &at.field("inlineVolumeSpec"), errs),
        }
        if let Some(name) = self.persistent_volume_name() {
            errs.subdomain(&at.field("persistentVolumeName"), name);
        }
    }
}

/// A volume that is written down nowhere but in its attachment.
fn check_inline(spec: &PersistentVolumeSpec, at: &FieldPath, errs: &mut ErrorList) {
    let inline = "may not be specified in the context of inline volumes";
    for (name, is_set) in [
        ("claimRef", spec.claim_ref().is_some()),
        ("capacity", !spec.capacity().is_empty()),
        ("nodeAffinity", spec.node_affinity().is_some()),
        ("storageClassName", !spec.storage_class_name().is_empty()),
    ] {
        if is_set {
            errs.forbidden(&at.field(name), inline);
        }
    }
    check_modes(spec.access_modes(), "", &at.field("accessModes"), errs);
    if !matches!(spec.persistent_volume_reclaim_policy(), "" | "Retain") {
        let why = "may only be Retain in the context of inline volumes";
        errs.forbidden(&at.field("persistentVolumeReclaimPolicy"), why);
    }
    if spec.volume_mode().is_some_and(|mode| mode != "Filesystem") {
        let why =
            "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errs.forbidden(&at.field("volumeMode"), why);
    }
    let source = spec.persistent_volume_source();
    if source.csi().is_none() {
        let why = "has to be specified in the context of inline volumes";
        errs.required(&at.field("csi"), why);
    }
    source.check("", at, errs);
    if source.first() == Some("local") {
        errs.required(&at.field("nodeAffinity"), "Local volume requires node affinity");
    }
}

impl VolumeAttachmentStatus {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let size: usize =
            self.attachment_metadata().iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > MAX_METADATA {
            errs.too_long(&at.field("attachmentMetadata"), MAX_METADATA);
        }
        for (name, error) in
            [("attachError", self.attach_error()), ("detachError", self.detach_error())]
        {
            let Some(error) = error else { continue };
            let at = at.field(name);
            errs.max_bytes(&at.field("message"), error.message(), MAX_MESSAGE);
            if let Some(code) = error.error_code().filter(|code| *code < 0) {
                let why = "must be between 0 and 2147483647, inclusive";
                errs.invalid(&at.field("errorCode"), code, why);
            }
        }
    }
}
