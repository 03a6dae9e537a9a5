//! core/v1: volume.

mod claim;
pub(crate) mod mounts;
pub(crate) mod overlaps;
pub(crate) mod projected;
mod projection;
pub(crate) mod sources;

use macros::api;
use object::{Lens, List, Map, Quantity};

pub use self::{
    claim::{
        EphemeralVolumeSource, PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate,
        VolumeResourceRequirements,
    },
    projection::{
        ClusterTrustBundleProjection, ConfigMapProjection, DownwardAPIProjection,
        DownwardAPIVolumeFile, KeyToPath, PodCertificateProjection, ProjectedVolumeSource,
        SecretProjection, ServiceAccountTokenProjection, VolumeProjection,
    },
};
use super::{LocalObjectReference, container::pull_policy};

#[api]
pub struct Volume {
    /// Name of the volume, unique in the pod.
    name: Must<String>,
    /// Where the data is.
    #[api(inline)]
    volume_source: VolumeSource,
}

#[api]
pub struct VolumeSource {
    /// File or folder of the node. A security risk: prefer other volumes.
    host_path: Option<HostPathVolumeSource>,
    /// Empty folder that exists as long as the pod.
    empty_dir: Option<EmptyDirVolumeSource>,
    /// A disk of Google's cloud; a CSI driver has taken over.
    gce_persistent_disk: Option<GCEPersistentDiskVolumeSource>,
    /// A disk of Amazon's cloud; a CSI driver has taken over.
    aws_elastic_block_store: Option<AWSElasticBlockStoreVolumeSource>,
    /// A copy of a repository; switched off.
    git_repo: Option<GitRepoVolumeSource>,
    /// Keys of a Secret as files.
    secret: Option<SecretVolumeSource>,
    /// Folder of an NFS server.
    nfs: Option<NFSVolumeSource>,
    /// A disk over iSCSI.
    iscsi: Option<ISCSIVolumeSource>,
    /// A Gluster volume; no longer supported.
    glusterfs: Option<GlusterfsVolumeSource>,
    /// Volume of a PersistentVolumeClaim of the same namespace.
    persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource>,
    /// A Ceph block device; no longer supported.
    rbd: Option<RBDVolumeSource>,
    /// A volume of an executable driver; use CSI instead.
    flex_volume: Option<FlexVolumeSource>,
    /// A disk of OpenStack; a CSI driver has taken over.
    cinder: Option<CinderVolumeSource>,
    /// A Ceph file system; no longer supported.
    cephfs: Option<CephFSVolumeSource>,
    /// A Flocker volume; no longer supported.
    flocker: Option<FlockerVolumeSource>,
    /// Fields of the pod as files.
    #[api(name = "downwardAPI")]
    downward_api: Option<DownwardAPIVolumeSource>,
    /// A disk over Fibre Channel.
    fc: Option<FCVolumeSource>,
    /// A share of Microsoft's cloud; a CSI driver has taken over.
    azure_file: Option<AzureFileVolumeSource>,
    /// Keys of a ConfigMap as files.
    config_map: Option<ConfigMapVolumeSource>,
    /// A vSphere disk; a CSI driver has taken over.
    vsphere_volume: Option<VsphereVirtualDiskVolumeSource>,
    /// A Quobyte volume; no longer supported.
    quobyte: Option<QuobyteVolumeSource>,
    /// A disk of Microsoft's cloud; a CSI driver has taken over.
    azure_disk: Option<AzureDiskVolumeSource>,
    /// A Photon disk; no longer supported.
    photon_persistent_disk: Option<PhotonPersistentDiskVolumeSource>,
    /// Several sources in one folder: Secrets, ConfigMaps, tokens and fields of the pod.
    #[api(tag = 26)]
    projected: Option<ProjectedVolumeSource>,
    /// A Portworx volume; a CSI driver has taken over.
    #[api(tag = 24)]
    portworx_volume: Option<PortworxVolumeSource>,
    /// A ScaleIO volume; no longer supported.
    #[api(name = "scaleIO")]
    scale_io: Option<ScaleIOVolumeSource>,
    /// A StorageOS volume; no longer supported.
    #[api(tag = 27)]
    storageos: Option<StorageOSVolumeSource>,
    /// Volume of a CSI driver that exists as long as the pod.
    csi: Option<CSIVolumeSource>,
    /// Claim that is created for the pod and deleted with it.
    ephemeral: Option<EphemeralVolumeSource>,
    /// Content of an image, read-only.
    image: Option<ImageVolumeSource>,
}

#[api]
pub struct PersistentVolumeClaimVolumeSource {
    /// Name of the claim, in the namespace of the pod.
    claim_name: Must<String>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
}

#[api]
pub struct HostPathVolumeSource {
    /// Path on the node.
    path: Must<String>,
    /// What must be there; empty for no check.
    #[api(default = "", unpublished_default, go_type = "v1.HostPathType")]
    #[api(enum_values(
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket"
    ))]
    type_: Option<String>,
}

#[api]
pub struct EmptyDirVolumeSource {
    /// Storage medium: empty for the node's disk, Memory for tmpfs, or HugePages.
    #[api(go_type = "v1.StorageMedium")]
    medium: String,
    /// Largest total size. The pod is evicted if it is exceeded.
    size_limit: Option<Quantity>,
    /// The mode of the folder.
    #[api(feature_gate = "EmptyDirVolumeMode")]
    mode: Option<i32>,
}

#[api]
pub struct GlusterfsVolumeSource {
    /// The Endpoints object that names the servers.
    endpoints: Must<String>,
    /// The volume on the servers.
    path: Must<String>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
}

#[api]
pub struct RBDVolumeSource {
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
    secret_ref: Option<LocalObjectReference>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
}

#[api]
pub struct CinderVolumeSource {
    /// The id of the disk.
    #[api(name = "volumeID")]
    volume_id: Must<String>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// Secret with the credentials.
    secret_ref: Option<LocalObjectReference>,
}

#[api]
pub struct CephFSVolumeSource {
    /// The addresses of the monitors.
    monitors: Must<List<String>>,
    /// The folder to mount.
    path: String,
    /// The user to log in as.
    user: String,
    /// The file with the key.
    secret_file: String,
    /// Secret with the credentials.
    secret_ref: Option<LocalObjectReference>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
}

#[api]
pub struct FlockerVolumeSource {
    /// The name of the data set.
    dataset_name: String,
    /// The id of the data set.
    #[api(name = "datasetUUID")]
    dataset_uuid: String,
}

#[api]
pub struct GCEPersistentDiskVolumeSource {
    /// The name of the disk.
    pd_name: Must<String>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// The partition to mount; the whole disk when 0.
    partition: i32,
    /// Whether the volume is mounted read-only.
    read_only: bool,
}

#[api]
pub struct QuobyteVolumeSource {
    /// The address of the registry.
    registry: Must<String>,
    /// The name of the volume.
    volume: Must<String>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// The user to mount as.
    user: String,
    /// The group to mount as.
    group: String,
    /// The tenant that owns it.
    tenant: String,
}

#[api]
pub struct FlexVolumeSource {
    /// The name of the driver.
    driver: Must<String>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// Secret with the credentials.
    secret_ref: Option<LocalObjectReference>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// Parameters that are passed to the driver.
    options: Map<String>,
}

#[api]
pub struct AWSElasticBlockStoreVolumeSource {
    /// The id of the disk.
    #[api(name = "volumeID")]
    volume_id: Must<String>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// The partition to mount; the whole disk when 0.
    partition: i32,
    /// Whether the volume is mounted read-only.
    read_only: bool,
}

#[api]
pub struct GitRepoVolumeSource {
    /// The address of the repository.
    repository: Must<String>,
    /// The commit.
    revision: String,
    /// Where to put it.
    directory: String,
}

#[api]
pub struct SecretVolumeSource {
    /// Name of the Secret, in the namespace of the pod.
    secret_name: String,
    /// Keys to project, and the path of each. If empty, every key becomes a file of its name.
    items: List<KeyToPath>,
    /// Permission bits of files that set none themselves, 0644 by default.
    #[api(default = 420, unpublished_default)]
    default_mode: Option<i32>,
    /// Whether the object or key may be missing. By default a pod does not start without it.
    optional: Option<bool>,
    /// User ID that owns files that set none themselves.
    #[api(feature_gate = "AtomicWriteVolumeUserFields")]
    default_user: Option<i64>,
}

#[api]
pub struct NFSVolumeSource {
    /// Host name or IP address of the NFS server.
    server: Must<String>,
    /// Exported path on the server.
    path: Must<String>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
}

#[api]
pub struct ISCSIVolumeSource {
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
    secret_ref: Option<LocalObjectReference>,
    /// The name of the initiator.
    #[api(tag = 12)]
    initiator_name: Option<String>,
}

#[api]
pub struct FCVolumeSource {
    /// The names of the targets.
    #[api(name = "targetWWNs")]
    target_ww_ns: List<String>,
    /// The number of the disk.
    lun: Option<i32>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// The ids of the disk, instead of targets and number.
    wwids: List<String>,
}

#[api]
pub struct AzureFileVolumeSource {
    /// The secret with the account and its key.
    secret_name: Must<String>,
    /// The name of the share.
    share_name: Must<String>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
}

#[api]
pub struct VsphereVirtualDiskVolumeSource {
    /// The path of the disk.
    volume_path: Must<String>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// The name of the storage policy.
    storage_policy_name: String,
    /// The id of the storage policy.
    #[api(name = "storagePolicyID")]
    storage_policy_id: String,
}

#[api]
pub struct PhotonPersistentDiskVolumeSource {
    /// The id of the disk.
    #[api(name = "pdID")]
    pd_id: Must<String>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
}

#[api]
pub struct AzureDiskVolumeSource {
    /// The name of the disk.
    disk_name: Must<String>,
    /// The address of the disk.
    #[api(name = "diskURI")]
    disk_uri: Must<String>,
    /// None, ReadOnly or ReadWrite.
    #[api(default = "ReadWrite", go_type = "v1.AzureDataDiskCachingMode")]
    #[api(enum_values("None", "ReadOnly", "ReadWrite"))]
    caching_mode: Option<String>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    #[api(default = "ext4")]
    fs_type: Option<String>,
    /// Whether the volume is mounted read-only.
    #[api(default = false)]
    read_only: Option<bool>,
    /// Shared, Dedicated or Managed.
    #[api(default = "Shared", go_type = "v1.AzureDataDiskKind")]
    #[api(enum_values("Dedicated", "Managed", "Shared"))]
    kind: Option<String>,
}

#[api]
pub struct PortworxVolumeSource {
    /// The id of the volume.
    #[api(name = "volumeID")]
    volume_id: Must<String>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// Whether the volume is mounted read-only.
    read_only: bool,
}

#[api]
pub struct ScaleIOVolumeSource {
    /// The address of the gateway.
    gateway: Must<String>,
    /// The name of the storage system.
    system: Must<String>,
    /// Secret with the credentials.
    #[api(no_omitempty, required)]
    secret_ref: Option<LocalObjectReference>,
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
pub struct StorageOSVolumeSource {
    /// The name of the volume.
    volume_name: String,
    /// The namespace of the volume; the pod's when absent.
    volume_namespace: String,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: String,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// Secret with the credentials.
    secret_ref: Option<LocalObjectReference>,
}

#[api]
pub struct ConfigMapVolumeSource {
    /// Name of the object, which is in the same namespace.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// Keys to project, and the path of each. If empty, every key becomes a file of its name.
    items: List<KeyToPath>,
    /// Permission bits of files that set none themselves, 0644 by default.
    #[api(default = 420, unpublished_default)]
    default_mode: Option<i32>,
    /// Whether the object or key may be missing. By default a pod does not start without it.
    optional: Option<bool>,
    /// User ID that owns files that set none themselves.
    #[api(feature_gate = "AtomicWriteVolumeUserFields")]
    default_user: Option<i64>,
}

#[api]
pub struct CSIVolumeSource {
    /// The name of the driver.
    driver: Must<String>,
    /// Whether the volume is mounted read-only.
    read_only: Option<bool>,
    /// File system type, such as ext4 or xfs. If empty, the driver chooses.
    fs_type: Option<String>,
    /// Parameters that are passed to the driver.
    volume_attributes: Map<String>,
    /// The secret for mounting into a pod.
    node_publish_secret_ref: Option<LocalObjectReference>,
}

#[api]
pub struct DownwardAPIVolumeSource {
    /// Files, and the field of each.
    items: List<DownwardAPIVolumeFile>,
    /// Permission bits of files that set none themselves, 0644 by default.
    #[api(default = 420, unpublished_default)]
    default_mode: Option<i32>,
    /// User ID that owns files that set none themselves.
    #[api(feature_gate = "AtomicWriteVolumeUserFields")]
    default_user: Option<i64>,
}

#[api]
pub struct ImageVolumeSource {
    /// Image or artifact to mount.
    reference: String,
    /// When it is pulled: Always, IfNotPresent or Never.
    #[api(go_type = "v1.PullPolicy", enum_values("Always", "IfNotPresent", "Never"))]
    pull_policy: String,
}

#[api]
pub struct VolumeMount {
    /// Name of a volume of the pod.
    name: Must<String>,
    /// Whether the mount is read-only, false by default.
    read_only: bool,
    /// Whether mounts below a read-only mount are read-only too: Disabled, IfPossible or Enabled.
    #[api(tag = 7, go_type = "v1.RecursiveReadOnlyMode")]
    recursive_read_only: Option<String>,
    /// Path in the container at which the volume is mounted.
    #[api(tag = 3)]
    mount_path: Must<String>,
    /// Path within the volume to mount, instead of its root.
    sub_path: String,
    /// Whether later mounts are visible on the other side: None (default), HostToContainer or Bidirectional.
    #[api(
        go_type = "v1.MountPropagationMode",
        enum_values("Bidirectional", "HostToContainer", "None")
    )]
    mount_propagation: Option<String>,
    /// Like subPath; $(NAME) is replaced by the variable NAME.
    sub_path_expr: String,
    /// Further options of the mount.
    #[api(tag = 8, set, feature_gate = "VolumeBindMountOptions")]
    bind_mount_options: List<String>,
}

#[api]
pub struct VolumeDevice {
    /// Name of a volume of the pod that is a claim with volumeMode Block.
    name: Must<String>,
    /// Path of the device in the container.
    device_path: Must<String>,
}

impl Volume {
    pub(crate) fn default_fields(&mut self) {
        let source = self.volume_source_mut();
        if source.is_unset() {
            source.set_empty_dir(EmptyDirVolumeSource::new());
        }
        if source.image().is_some_and(|image| image.pull_policy().is_empty()) {
            let image = source.image_mut();
            let policy = pull_policy(image.reference());
            image.set_pull_policy(policy);
        }
    }
}

impl VolumeSource {
    /// Whether it does not say what the volume is.
    pub fn is_unset(&self) -> bool {
        Self::SHAPE.fields.iter().all(|field| self.0.get(&field.name).is_null())
    }
}
