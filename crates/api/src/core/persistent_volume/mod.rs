//! core/v1: PersistentVolume.

mod rules;

use macros::api;
use object::{List, Map, ObjectMeta, Quantity, Text, Time};
use schema::{Column, Errors, Kind, Names, Scope, Storage, Subresource, Warnings, Writer};

use super::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, FCVolumeSource, FlockerVolumeSource,
    GCEPersistentDiskVolumeSource, HostPathVolumeSource, NFSVolumeSource, NodeSelector,
    ObjectReference, PhotonPersistentDiskVolumeSource, PortworxVolumeSource, QuobyteVolumeSource,
    SecretReference, VsphereVirtualDiskVolumeSource,
    persistent_volume_claim::{CLASS_ANNOTATION, access_modes},
    resources,
};

#[api]
pub struct PersistentVolume {
    /// Name, labels and the like.
    #[api(tag = 1)]
    metadata: ObjectMeta,
    /// What the volume is.
    #[api(tag = 2)]
    spec: PersistentVolumeSpec,
    /// Whether it is in use.
    #[api(tag = 3)]
    status: PersistentVolumeStatus,
}

#[api]
pub struct PersistentVolumeSpec {
    /// How large it is.
    #[api(tag = 1, go = "v1.ResourceList")]
    capacity: Map<Quantity>,
    #[api(tag = 2, inline)]
    persistent_volume_source: PersistentVolumeSource,
    /// How it can be used.
    #[api(tag = 3, go = "[]v1.PersistentVolumeAccessMode")]
    access_modes: List<String>,
    /// The claim that has it.
    #[api(tag = 4, granular)]
    claim_ref: Option<ObjectReference>,
    /// What becomes of it without its claim: Retain or Delete.
    #[api(tag = 5, go = "v1.PersistentVolumeReclaimPolicy")]
    persistent_volume_reclaim_policy: String,
    /// The class that it belongs to.
    #[api(tag = 6)]
    storage_class_name: String,
    /// Options to mount it with.
    #[api(tag = 7)]
    mount_options: List<String>,
    /// Filesystem or Block.
    #[api(tag = 8, go = "v1.PersistentVolumeMode")]
    volume_mode: Option<String>,
    /// The nodes that can use it.
    #[api(tag = 9)]
    node_affinity: Option<VolumeNodeAffinity>,
    /// The class of attributes that it has.
    #[api(tag = 10)]
    volume_attributes_class_name: Option<String>,
}

#[api]
pub struct PersistentVolumeSource {
    #[api(tag = 1)]
    gce_persistent_disk: Option<GCEPersistentDiskVolumeSource>,
    #[api(tag = 2)]
    aws_elastic_block_store: Option<AWSElasticBlockStoreVolumeSource>,
    #[api(tag = 3)]
    host_path: Option<HostPathVolumeSource>,
    #[api(tag = 4)]
    glusterfs: Option<GlusterfsPersistentVolumeSource>,
    #[api(tag = 5)]
    nfs: Option<NFSVolumeSource>,
    #[api(tag = 6)]
    rbd: Option<RBDPersistentVolumeSource>,
    #[api(tag = 7)]
    iscsi: Option<ISCSIPersistentVolumeSource>,
    #[api(tag = 8)]
    cinder: Option<CinderPersistentVolumeSource>,
    #[api(tag = 9)]
    cephfs: Option<CephFSPersistentVolumeSource>,
    #[api(tag = 10)]
    fc: Option<FCVolumeSource>,
    #[api(tag = 11)]
    flocker: Option<FlockerVolumeSource>,
    #[api(tag = 12)]
    flex_volume: Option<FlexPersistentVolumeSource>,
    #[api(tag = 13)]
    azure_file: Option<AzureFilePersistentVolumeSource>,
    #[api(tag = 14)]
    vsphere_volume: Option<VsphereVirtualDiskVolumeSource>,
    #[api(tag = 15)]
    quobyte: Option<QuobyteVolumeSource>,
    #[api(tag = 16)]
    azure_disk: Option<AzureDiskVolumeSource>,
    #[api(tag = 17)]
    photon_persistent_disk: Option<PhotonPersistentDiskVolumeSource>,
    #[api(tag = 18)]
    portworx_volume: Option<PortworxVolumeSource>,
    #[api(tag = 19, name = "scaleIO")]
    scale_io: Option<ScaleIOPersistentVolumeSource>,
    #[api(tag = 20)]
    local: Option<LocalVolumeSource>,
    #[api(tag = 21)]
    storageos: Option<StorageOSPersistentVolumeSource>,
    #[api(tag = 22)]
    csi: Option<CSIPersistentVolumeSource>,
}

#[api]
pub struct GlusterfsPersistentVolumeSource {
    #[api(tag = 1, required, always)]
    endpoints: String,
    #[api(tag = 2, required, always)]
    path: String,
    #[api(tag = 3)]
    read_only: bool,
    #[api(tag = 4)]
    endpoints_namespace: Option<String>,
}

#[api]
pub struct RBDPersistentVolumeSource {
    #[api(tag = 1, required, always)]
    monitors: List<String>,
    #[api(tag = 2, required, always)]
    image: String,
    #[api(tag = 3)]
    fs_type: String,
    #[api(tag = 4, default = "rbd")]
    pool: String,
    #[api(tag = 5, default = "admin")]
    user: String,
    #[api(tag = 6, default = "/etc/ceph/keyring")]
    keyring: String,
    #[api(tag = 7)]
    secret_ref: Option<SecretReference>,
    #[api(tag = 8)]
    read_only: bool,
}

#[api]
pub struct CinderPersistentVolumeSource {
    #[api(tag = 1, name = "volumeID", required, always)]
    volume_id: String,
    #[api(tag = 2)]
    fs_type: String,
    #[api(tag = 3)]
    read_only: bool,
    #[api(tag = 4)]
    secret_ref: Option<SecretReference>,
}

#[api]
pub struct CephFSPersistentVolumeSource {
    #[api(tag = 1, required, always)]
    monitors: List<String>,
    #[api(tag = 2)]
    path: String,
    #[api(tag = 3)]
    user: String,
    #[api(tag = 4)]
    secret_file: String,
    #[api(tag = 5)]
    secret_ref: Option<SecretReference>,
    #[api(tag = 6)]
    read_only: bool,
}

#[api]
pub struct FlexPersistentVolumeSource {
    #[api(tag = 1, required, always)]
    driver: String,
    #[api(tag = 2)]
    fs_type: String,
    #[api(tag = 3)]
    secret_ref: Option<SecretReference>,
    #[api(tag = 4)]
    read_only: bool,
    #[api(tag = 5)]
    options: Map<String>,
}

#[api]
pub struct ISCSIPersistentVolumeSource {
    #[api(tag = 1, required, always)]
    target_portal: String,
    #[api(tag = 2, required, always)]
    iqn: String,
    #[api(tag = 3, required, always)]
    lun: i32,
    #[api(tag = 4, default = "default")]
    iscsi_interface: String,
    #[api(tag = 5)]
    fs_type: String,
    #[api(tag = 6)]
    read_only: bool,
    #[api(tag = 7)]
    portals: List<String>,
    #[api(tag = 8)]
    chap_auth_discovery: bool,
    #[api(tag = 11)]
    chap_auth_session: bool,
    #[api(tag = 10)]
    secret_ref: Option<SecretReference>,
    #[api(tag = 12)]
    initiator_name: Option<String>,
}

#[api]
pub struct AzureFilePersistentVolumeSource {
    #[api(tag = 1, required, always)]
    secret_name: String,
    #[api(tag = 2, required, always)]
    share_name: String,
    #[api(tag = 3)]
    read_only: bool,
    #[api(tag = 4, always)]
    secret_namespace: Option<String>,
}

#[api]
pub struct ScaleIOPersistentVolumeSource {
    #[api(tag = 1, required, always)]
    gateway: String,
    #[api(tag = 2, required, always)]
    system: String,
    #[api(tag = 3, always)]
    secret_ref: Option<SecretReference>,
    #[api(tag = 4)]
    ssl_enabled: bool,
    #[api(tag = 5)]
    protection_domain: String,
    #[api(tag = 6)]
    storage_pool: String,
    #[api(tag = 7, default = "ThinProvisioned")]
    storage_mode: String,
    #[api(tag = 8)]
    volume_name: String,
    #[api(tag = 9, default = "xfs")]
    fs_type: String,
    #[api(tag = 10)]
    read_only: bool,
}

#[api]
pub struct StorageOSPersistentVolumeSource {
    #[api(tag = 1)]
    volume_name: String,
    #[api(tag = 2)]
    volume_namespace: String,
    #[api(tag = 3)]
    fs_type: String,
    #[api(tag = 4)]
    read_only: bool,
    #[api(tag = 5)]
    secret_ref: Option<ObjectReference>,
}

#[api]
pub struct LocalVolumeSource {
    #[api(tag = 1, required, always)]
    path: String,
    #[api(tag = 2)]
    fs_type: Option<String>,
}

#[api]
pub struct CSIPersistentVolumeSource {
    #[api(tag = 1, required, always)]
    driver: String,
    #[api(tag = 2, required, always)]
    volume_handle: String,
    #[api(tag = 3)]
    read_only: bool,
    #[api(tag = 4)]
    fs_type: String,
    #[api(tag = 5)]
    volume_attributes: Map<String>,
    #[api(tag = 6)]
    controller_publish_secret_ref: Option<SecretReference>,
    #[api(tag = 7)]
    node_stage_secret_ref: Option<SecretReference>,
    #[api(tag = 8)]
    node_publish_secret_ref: Option<SecretReference>,
    #[api(tag = 9)]
    controller_expand_secret_ref: Option<SecretReference>,
    #[api(tag = 10)]
    node_expand_secret_ref: Option<SecretReference>,
}

#[api]
pub struct VolumeNodeAffinity {
    #[api(tag = 1)]
    required: Option<NodeSelector>,
}

#[api]
pub struct PersistentVolumeStatus {
    #[api(tag = 1, default = "Pending", implied, go = "v1.PersistentVolumePhase")]
    phase: String,
    #[api(tag = 2)]
    message: String,
    #[api(tag = 3)]
    reason: String,
    #[api(tag = 4)]
    last_phase_transition_time: Option<Time>,
}

impl Kind for PersistentVolume {
    const NAMES: Names = Names {
        group: "",
        version: "v1",
        kind: "PersistentVolume",
        plural: "persistentvolumes",
        singular: "persistentvolume",
        short: &["pv"],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("persistentvolumes", "v1");
    const SHOWS_DELETED: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "PersistentVolume", &["get", "patch", "update"])];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::new("Capacity", "string", |volume, _| {
            volume.spec().capacity().get("storage").unwrap_or_default().to_string().into()
        }),
        Column::new("Access Modes", "string", |volume, _| {
            access_modes(volume.spec().access_modes())
        }),
        Column::new("Reclaim Policy", "string", |volume, _| {
            volume.spec().persistent_volume_reclaim_policy().into()
        }),
        Column::new("Status", "string", |volume, _| {
            if volume.is_terminating() {
                "Terminating".into()
            } else {
                volume.status().phase().into()
            }
        }),
        Column::new("Claim", "string", |volume, _| match volume.spec().claim_ref() {
            Some(claim) => format!("{}/{}", claim.namespace(), claim.name()).into(),
            None => "".into(),
        }),
        Column::new("StorageClass", "string", |volume, _| volume.class().into()),
        Column::new("VolumeAttributesClass", "string", |volume, _| {
            volume.spec().volume_attributes_class_name().unwrap_or("<unset>").into()
        }),
        Column::new("Reason", "string", |volume, _| volume.status().reason().into()),
        Column::AGE,
        Column::new("VolumeMode", "string", |volume: &Self, _| {
            volume.spec().volume_mode().unwrap_or("<unset>").into()
        })
        .wide(),
    ];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn warn(&self, _old: Option<&Self>, warnings: &mut Warnings) {
        rules::warn(self, warnings);
    }

    fn validate(&self, errs: &mut Errors) {
        rules::check(self, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        rules::check(self, errs);
        rules::check_kept(self, old, errs);
    }

    fn default_fields(&mut self) {
        let spec = self.spec_mut();
        resources::round_up(spec.capacity_mut());
        if spec.persistent_volume_reclaim_policy().is_empty() {
            spec.set_persistent_volume_reclaim_policy("Retain");
        }
        if spec.volume_mode().is_none() {
            spec.set_volume_mode("Filesystem");
        }
    }

    fn sign(&mut self, old: Option<&Self>, by: &Writer) {
        let Some(old) = old else { return };
        let (new, before) = (self.status(), old.status());
        let (moment, was) = (new.last_phase_transition_time(), before.last_phase_transition_time());
        if new.phase() != before.phase() && (moment.is_none() || moment == was) {
            self.status_mut().set_last_phase_transition_time(Time::text(by.now));
        } else if let (None, Some(was)) = (moment, was) {
            self.status_mut().set_last_phase_transition_time(was);
        }
    }

    fn prepare_create(&mut self) {
        let now = Text::from(self.metadata().creation_timestamp());
        let status = PersistentVolumeStatus::new().with_phase("Pending");
        self.set_status(status.with_last_phase_transition_time(now));
    }
}

impl PersistentVolume {
    /// The storage class, also as clients of old wrote it.
    pub fn class(&self) -> &str {
        let annotation = self.metadata().annotations().get(CLASS_ANNOTATION);
        annotation.unwrap_or(self.spec().storage_class_name())
    }
}
