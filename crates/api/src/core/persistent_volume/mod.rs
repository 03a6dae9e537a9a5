//! core/v1: PersistentVolume.

mod rules;

use macros::api;
use object::{List, Map, ObjectMeta, Quantity, Text, Time};
use schema::{
    ErrorList, Kind, ResourceNames, Scope, Subresource, TableColumn, WarningList, WriteContext,
};

use super::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, FCVolumeSource, FlockerVolumeSource,
    GCEPersistentDiskVolumeSource, HostPathVolumeSource, NFSVolumeSource, NodeSelector,
    ObjectReference, PhotonPersistentDiskVolumeSource, PortworxVolumeSource, QuobyteVolumeSource,
    SecretReference, VsphereVirtualDiskVolumeSource,
    persistent_volume_claim::{ACCESS_MODES, CLASS_ANNOTATION, access_modes},
};

/// A piece of storage in the cluster, independent of any pod.
#[api]
pub struct PersistentVolume {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Properties of the volume.
    spec: PersistentVolumeSpec,
    /// Observed status of the volume.
    status: PersistentVolumeStatus,
}

#[api]
pub struct PersistentVolumeSpec {
    /// Size of the volume, as storage.
    #[api(go_type = "v1.ResourceList")]
    capacity: Map<Quantity>,
    /// Where the data is.
    #[api(inline)]
    persistent_volume_source: PersistentVolumeSource,
    /// Ways in which the volume can be mounted: ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod.
    #[api(go_type = "[]v1.PersistentVolumeAccessMode", enum_values = &ACCESS_MODES)]
    access_modes: List<String>,
    /// Claim that the volume is bound to.
    #[api(granular)]
    claim_ref: Option<ObjectReference>,
    /// What happens to the volume when its claim is deleted: Retain or Delete.
    #[api(
        go_type = "v1.PersistentVolumeReclaimPolicy",
        enum_values("Delete", "Recycle", "Retain")
    )]
    persistent_volume_reclaim_policy: String,
    /// StorageClass of the volume. Empty if it has none.
    storage_class_name: String,
    /// Mount options, such as ro or soft.
    mount_options: List<String>,
    /// Filesystem (default) or Block for a raw device.
    #[api(go_type = "v1.PersistentVolumeMode", enum_values("Block", "Filesystem"))]
    volume_mode: Option<String>,
    /// Nodes that can reach the volume. Pods that use it are scheduled there.
    node_affinity: Option<VolumeNodeAffinity>,
    /// VolumeAttributesClass of the volume.
    volume_attributes_class_name: Option<String>,
}

#[api]
pub struct PersistentVolumeSource {
    /// A disk of Google's cloud; a CSI driver has taken over.
    gce_persistent_disk: Option<GCEPersistentDiskVolumeSource>,
    /// A disk of Amazon's cloud; a CSI driver has taken over.
    aws_elastic_block_store: Option<AWSElasticBlockStoreVolumeSource>,
    /// A file or folder of the node.
    host_path: Option<HostPathVolumeSource>,
    /// A Gluster volume; no longer supported.
    glusterfs: Option<GlusterfsPersistentVolumeSource>,
    /// A folder of an NFS server.
    nfs: Option<NFSVolumeSource>,
    /// A Ceph block device; no longer supported.
    rbd: Option<RBDPersistentVolumeSource>,
    /// A disk over iSCSI.
    iscsi: Option<ISCSIPersistentVolumeSource>,
    /// A disk of OpenStack; a CSI driver has taken over.
    cinder: Option<CinderPersistentVolumeSource>,
    /// A Ceph file system; no longer supported.
    cephfs: Option<CephFSPersistentVolumeSource>,
    /// A disk over Fibre Channel.
    fc: Option<FCVolumeSource>,
    /// A Flocker volume; no longer supported.
    flocker: Option<FlockerVolumeSource>,
    /// A volume of an executable driver; use CSI instead.
    flex_volume: Option<FlexPersistentVolumeSource>,
    /// A share of Microsoft's cloud; a CSI driver has taken over.
    azure_file: Option<AzureFilePersistentVolumeSource>,
    /// A vSphere disk; a CSI driver has taken over.
    vsphere_volume: Option<VsphereVirtualDiskVolumeSource>,
    /// A Quobyte volume; no longer supported.
    quobyte: Option<QuobyteVolumeSource>,
    /// A disk of Microsoft's cloud; a CSI driver has taken over.
    azure_disk: Option<AzureDiskVolumeSource>,
    /// A Photon disk; no longer supported.
    photon_persistent_disk: Option<PhotonPersistentDiskVolumeSource>,
    /// A Portworx volume; a CSI driver has taken over.
    portworx_volume: Option<PortworxVolumeSource>,
    /// A ScaleIO volume; no longer supported.
    #[api(name = "scaleIO")]
    scale_io: Option<ScaleIOPersistentVolumeSource>,
    /// A disk or folder of one node.
    local: Option<LocalVolumeSource>,
    /// A StorageOS volume; no longer supported.
    storageos: Option<StorageOSPersistentVolumeSource>,
    /// A volume of a CSI driver.
    csi: Option<CSIPersistentVolumeSource>,
}

#[api]
pub struct GlusterfsPersistentVolumeSource {
    /// The Endpoints object that names the servers.
    endpoints: Must<String>,
    /// The volume on the servers.
    path: Must<String>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// The namespace of the Endpoints object.
    endpoints_namespace: Option<String>,
}

#[api]
pub struct RBDPersistentVolumeSource {
    /// The addresses of the monitors.
    monitors: Must<List<String>>,
    /// The image.
    image: Must<String>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// The pool of the image.
    #[api(default = "rbd")]
    pool: String,
    /// The user to log in as.
    #[api(default = "admin")]
    user: String,
    /// The file with the keys.
    #[api(default = "/etc/ceph/keyring")]
    keyring: String,
    /// Secret with the credentials.
    secret_ref: Option<SecretReference>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
}

#[api]
pub struct CinderPersistentVolumeSource {
    /// The id of the disk.
    #[api(name = "volumeID")]
    volume_id: Must<String>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// Secret with the credentials.
    secret_ref: Option<SecretReference>,
}

#[api]
pub struct CephFSPersistentVolumeSource {
    /// The addresses of the monitors.
    monitors: Must<List<String>>,
    /// The folder to mount.
    path: String,
    /// The user to log in as.
    user: String,
    /// The file with the key.
    secret_file: String,
    /// Secret with the credentials.
    secret_ref: Option<SecretReference>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
}

#[api]
pub struct FlexPersistentVolumeSource {
    /// The name of the driver.
    driver: Must<String>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// Secret with the credentials.
    secret_ref: Option<SecretReference>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// Parameters that are passed to the driver.
    options: Map<String>,
}

#[api]
pub struct ISCSIPersistentVolumeSource {
    /// The address of the portal, with its port.
    target_portal: Must<String>,
    /// The qualified name of the target.
    iqn: Must<String>,
    /// The number of the disk.
    lun: Must<i32>,
    /// The interface to use.
    #[api(default = "default")]
    iscsi_interface: String,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// Further portals.
    portals: List<String>,
    /// Whether discovery logs in by CHAP.
    chap_auth_discovery: bool,
    /// Whether the session logs in by CHAP.
    #[api(tag = 11)]
    chap_auth_session: bool,
    /// Secret with the credentials.
    #[api(tag = 10)]
    secret_ref: Option<SecretReference>,
    /// The name of the initiator.
    #[api(tag = 12)]
    initiator_name: Option<String>,
}

#[api]
pub struct AzureFilePersistentVolumeSource {
    /// The secret with the account and its key.
    secret_name: Must<String>,
    /// The name of the share.
    share_name: Must<String>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// The namespace of the secret.
    #[api(no_omitempty)]
    secret_namespace: Option<String>,
}

#[api]
pub struct ScaleIOPersistentVolumeSource {
    /// The address of the gateway.
    gateway: Must<String>,
    /// The name of the storage system.
    system: Must<String>,
    /// Secret with the credentials.
    #[api(no_omitempty, required)]
    secret_ref: Option<SecretReference>,
    /// Whether the gateway is talked to over TLS.
    ssl_enabled: bool,
    /// The protection domain.
    protection_domain: String,
    /// The storage pool.
    storage_pool: String,
    /// ThickProvisioned or ThinProvisioned.
    #[api(default = "ThinProvisioned")]
    storage_mode: String,
    /// The name of the volume.
    volume_name: String,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    #[api(default = "xfs")]
    fs_type: String,
    /// Whether the volume is mounted read-only.
    read_only: bool,
}

#[api]
pub struct StorageOSPersistentVolumeSource {
    /// The name of the volume.
    volume_name: String,
    /// The namespace of the volume; the pod's when absent.
    volume_namespace: String,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// Secret with the credentials.
    secret_ref: Option<ObjectReference>,
}

#[api]
pub struct LocalVolumeSource {
    /// The disk or folder on the node.
    path: Must<String>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: Option<String>,
}

#[api]
pub struct CSIPersistentVolumeSource {
    /// The name of the driver.
    driver: Must<String>,
    /// ID of the volume at the driver.
    volume_handle: Must<String>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// Parameters that are passed to the driver.
    volume_attributes: Map<String>,
    /// The secret for attaching.
    controller_publish_secret_ref: Option<SecretReference>,
    /// The secret for staging on a node.
    node_stage_secret_ref: Option<SecretReference>,
    /// The secret for mounting into a pod.
    node_publish_secret_ref: Option<SecretReference>,
    /// The secret for growing the volume.
    controller_expand_secret_ref: Option<SecretReference>,
    /// The secret for growing the file system on a node.
    node_expand_secret_ref: Option<SecretReference>,
}

#[api]
pub struct VolumeNodeAffinity {
    /// Terms that the node must match.
    required: Option<NodeSelector>,
}

#[api]
pub struct PersistentVolumeStatus {
    /// Pending, Available, Bound, Released or Failed.
    #[api(default = "Pending", unpublished_default, go_type = "v1.PersistentVolumePhase")]
    #[api(enum_values("Available", "Bound", "Failed", "Pending", "Released"))]
    phase: String,
    /// Human-readable details.
    message: String,
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// When the phase last changed.
    last_phase_transition_time: Option<Time>,
}

impl Kind for PersistentVolume {
    const NAMES: ResourceNames =
        ResourceNames::new("", "v1", "PersistentVolume", "persistentvolumes").short(&["pv"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const SCOPE: Scope = Scope::Cluster;
    const SHOWS_DELETED: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("PersistentVolume").writes_metadata()];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Capacity", |volume, _| {
            volume.spec().capacity().get("storage").unwrap_or_default().to_string().into()
        }),
        TableColumn::text("Access Modes", |volume, _| access_modes(volume.spec().access_modes())),
        TableColumn::text("Reclaim Policy", |it, _| {
            it.spec().persistent_volume_reclaim_policy().into()
        }),
        TableColumn::text("Status", |volume, _| {
            if volume.is_terminating() {
                "Terminating".into()
            } else {
                volume.status().phase().into()
            }
        }),
        TableColumn::text("Claim", |volume, _| match volume.spec().claim_ref() {
            Some(claim) => format!("{}/{}", claim.namespace(), claim.name()).into(),
            None => "".into(),
        }),
        TableColumn::text("StorageClass", |volume, _| volume.class().into()),
        TableColumn::text("VolumeAttributesClass", |volume, _| {
            volume.spec().volume_attributes_class_name().unwrap_or("<unset>").into()
        }),
        TableColumn::text("Reason", |volume, _| volume.status().reason().into()),
        TableColumn::AGE,
        TableColumn::wide_text("VolumeMode", |volume, _| {
            volume.spec().volume_mode().unwrap_or("<unset>").into()
        }),
    ];

    fn warn(&self, _old: Option<&Self>, warnings: &mut WarningList) {
        rules::warn(self, warnings);
    }

    fn validate(&self, errs: &mut ErrorList) {
        rules::check(self, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        rules::check(self, errs);
        rules::validate_source_immutable(self, old, errs);
    }

    fn default_fields(&mut self) {
        let spec = self.spec_mut();
        if spec.persistent_volume_reclaim_policy().is_empty() {
            spec.set_persistent_volume_reclaim_policy("Retain");
        }
        if spec.volume_mode().is_none() {
            spec.set_volume_mode("Filesystem");
        }
    }

    fn sign(&mut self, old: Option<&Self>, by: &WriteContext) {
        let Some(old) = old else { return };
        let (new, before) = (self.status(), old.status());
        let (moment, was) = (new.last_phase_transition_time(), before.last_phase_transition_time());
        if new.phase() != before.phase() && (moment.is_none() || moment == was) {
            self.status_mut().set_last_phase_transition_time(Time::format(by.now));
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
