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
    /// Unique in the pod.
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, inline)]
    volume_source: VolumeSource,
}

#[api]
pub struct VolumeSource {
    /// A file or folder of the node.
    #[api(tag = 1)]
    host_path: Option<HostPathVolumeSource>,
    /// An empty folder that lives as long as the pod.
    #[api(tag = 2)]
    empty_dir: Option<EmptyDirVolumeSource>,
    #[api(tag = 3)]
    gce_persistent_disk: Option<GCEPersistentDiskVolumeSource>,
    #[api(tag = 4)]
    aws_elastic_block_store: Option<AWSElasticBlockStoreVolumeSource>,
    #[api(tag = 5)]
    git_repo: Option<GitRepoVolumeSource>,
    /// The keys of a Secret, as files.
    #[api(tag = 6)]
    secret: Option<SecretVolumeSource>,
    /// A folder of an NFS server.
    #[api(tag = 7)]
    nfs: Option<NFSVolumeSource>,
    #[api(tag = 8)]
    iscsi: Option<ISCSIVolumeSource>,
    #[api(tag = 9)]
    glusterfs: Option<GlusterfsVolumeSource>,
    /// A volume that outlives the pod, by its claim.
    #[api(tag = 10)]
    persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource>,
    #[api(tag = 11)]
    rbd: Option<RBDVolumeSource>,
    #[api(tag = 12)]
    flex_volume: Option<FlexVolumeSource>,
    #[api(tag = 13)]
    cinder: Option<CinderVolumeSource>,
    #[api(tag = 14)]
    cephfs: Option<CephFSVolumeSource>,
    #[api(tag = 15)]
    flocker: Option<FlockerVolumeSource>,
    /// Fields of the pod, as files.
    #[api(tag = 16, name = "downwardAPI")]
    downward_api: Option<DownwardAPIVolumeSource>,
    #[api(tag = 17)]
    fc: Option<FCVolumeSource>,
    #[api(tag = 18)]
    azure_file: Option<AzureFileVolumeSource>,
    /// The keys of a ConfigMap, as files.
    #[api(tag = 19)]
    config_map: Option<ConfigMapVolumeSource>,
    #[api(tag = 20)]
    vsphere_volume: Option<VsphereVirtualDiskVolumeSource>,
    #[api(tag = 21)]
    quobyte: Option<QuobyteVolumeSource>,
    #[api(tag = 22)]
    azure_disk: Option<AzureDiskVolumeSource>,
    #[api(tag = 23)]
    photon_persistent_disk: Option<PhotonPersistentDiskVolumeSource>,
    /// Several sources in one folder.
    #[api(tag = 26)]
    projected: Option<ProjectedVolumeSource>,
    #[api(tag = 24)]
    portworx_volume: Option<PortworxVolumeSource>,
    #[api(tag = 25, name = "scaleIO")]
    scale_io: Option<ScaleIOVolumeSource>,
    #[api(tag = 27)]
    storageos: Option<StorageOSVolumeSource>,
    /// A volume of a CSI driver that lives as long as the pod.
    #[api(tag = 28)]
    csi: Option<CSIVolumeSource>,
    /// A claim that is made for the pod and lives as long as it.
    #[api(tag = 29)]
    ephemeral: Option<EphemeralVolumeSource>,
    /// The content of an image.
    #[api(tag = 30)]
    image: Option<ImageVolumeSource>,
}

#[api]
pub struct PersistentVolumeClaimVolumeSource {
    #[api(tag = 1, required, always)]
    claim_name: String,
    #[api(tag = 2)]
    read_only: bool,
}

#[api]
pub struct HostPathVolumeSource {
    #[api(tag = 1, required, always)]
    path: String,
    #[api(tag = 2, default = "", implied, go = "v1.HostPathType")]
    type_: Option<String>,
}

#[api]
pub struct EmptyDirVolumeSource {
    #[api(tag = 1, go = "v1.StorageMedium")]
    medium: String,
    #[api(tag = 2)]
    size_limit: Option<Quantity>,
    #[api(tag = 3)]
    mode: Option<i32>,
}

#[api]
pub struct GlusterfsVolumeSource {
    #[api(tag = 1, required, always)]
    endpoints: String,
    #[api(tag = 2, required, always)]
    path: String,
    #[api(tag = 3)]
    read_only: bool,
}

#[api]
pub struct RBDVolumeSource {
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
    secret_ref: Option<LocalObjectReference>,
    #[api(tag = 8)]
    read_only: bool,
}

#[api]
pub struct CinderVolumeSource {
    #[api(tag = 1, name = "volumeID", required, always)]
    volume_id: String,
    #[api(tag = 2)]
    fs_type: String,
    #[api(tag = 3)]
    read_only: bool,
    #[api(tag = 4)]
    secret_ref: Option<LocalObjectReference>,
}

#[api]
pub struct CephFSVolumeSource {
    #[api(tag = 1, required, always)]
    monitors: List<String>,
    #[api(tag = 2)]
    path: String,
    #[api(tag = 3)]
    user: String,
    #[api(tag = 4)]
    secret_file: String,
    #[api(tag = 5)]
    secret_ref: Option<LocalObjectReference>,
    #[api(tag = 6)]
    read_only: bool,
}

#[api]
pub struct FlockerVolumeSource {
    #[api(tag = 1)]
    dataset_name: String,
    #[api(tag = 2, name = "datasetUUID")]
    dataset_uuid: String,
}

#[api]
pub struct GCEPersistentDiskVolumeSource {
    #[api(tag = 1, required, always)]
    pd_name: String,
    #[api(tag = 2)]
    fs_type: String,
    #[api(tag = 3)]
    partition: i32,
    #[api(tag = 4)]
    read_only: bool,
}

#[api]
pub struct QuobyteVolumeSource {
    #[api(tag = 1, required, always)]
    registry: String,
    #[api(tag = 2, required, always)]
    volume: String,
    #[api(tag = 3)]
    read_only: bool,
    #[api(tag = 4)]
    user: String,
    #[api(tag = 5)]
    group: String,
    #[api(tag = 6)]
    tenant: String,
}

#[api]
pub struct FlexVolumeSource {
    #[api(tag = 1, required, always)]
    driver: String,
    #[api(tag = 2)]
    fs_type: String,
    #[api(tag = 3)]
    secret_ref: Option<LocalObjectReference>,
    #[api(tag = 4)]
    read_only: bool,
    #[api(tag = 5)]
    options: Map<String>,
}

#[api]
pub struct AWSElasticBlockStoreVolumeSource {
    #[api(tag = 1, name = "volumeID", required, always)]
    volume_id: String,
    #[api(tag = 2)]
    fs_type: String,
    #[api(tag = 3)]
    partition: i32,
    #[api(tag = 4)]
    read_only: bool,
}

#[api]
pub struct GitRepoVolumeSource {
    #[api(tag = 1, required, always)]
    repository: String,
    #[api(tag = 2)]
    revision: String,
    #[api(tag = 3)]
    directory: String,
}

#[api]
pub struct SecretVolumeSource {
    #[api(tag = 1)]
    secret_name: String,
    #[api(tag = 2)]
    items: List<KeyToPath>,
    #[api(tag = 3, default = 420, implied)]
    default_mode: Option<i32>,
    #[api(tag = 4)]
    optional: Option<bool>,
    #[api(tag = 5)]
    default_user: Option<i64>,
}

#[api]
pub struct NFSVolumeSource {
    #[api(tag = 1, required, always)]
    server: String,
    #[api(tag = 2, required, always)]
    path: String,
    #[api(tag = 3)]
    read_only: bool,
}

#[api]
pub struct ISCSIVolumeSource {
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
    secret_ref: Option<LocalObjectReference>,
    #[api(tag = 12)]
    initiator_name: Option<String>,
}

#[api]
pub struct FCVolumeSource {
    #[api(tag = 1, name = "targetWWNs")]
    target_ww_ns: List<String>,
    #[api(tag = 2)]
    lun: Option<i32>,
    #[api(tag = 3)]
    fs_type: String,
    #[api(tag = 4)]
    read_only: bool,
    #[api(tag = 5)]
    wwids: List<String>,
}

#[api]
pub struct AzureFileVolumeSource {
    #[api(tag = 1, required, always)]
    secret_name: String,
    #[api(tag = 2, required, always)]
    share_name: String,
    #[api(tag = 3)]
    read_only: bool,
}

#[api]
pub struct VsphereVirtualDiskVolumeSource {
    #[api(tag = 1, required, always)]
    volume_path: String,
    #[api(tag = 2)]
    fs_type: String,
    #[api(tag = 3)]
    storage_policy_name: String,
    #[api(tag = 4, name = "storagePolicyID")]
    storage_policy_id: String,
}

#[api]
pub struct PhotonPersistentDiskVolumeSource {
    #[api(tag = 1, name = "pdID", required, always)]
    pd_id: String,
    #[api(tag = 2)]
    fs_type: String,
}

#[api]
pub struct AzureDiskVolumeSource {
    #[api(tag = 1, required, always)]
    disk_name: String,
    #[api(tag = 2, name = "diskURI", required, always)]
    disk_uri: String,
    #[api(tag = 3, default = "ReadWrite", implied, go = "v1.AzureDataDiskCachingMode")]
    caching_mode: Option<String>,
    #[api(tag = 4, default = "ext4")]
    fs_type: Option<String>,
    #[api(tag = 5, default = false)]
    read_only: Option<bool>,
    #[api(tag = 6, default = "Shared", implied, go = "v1.AzureDataDiskKind")]
    kind: Option<String>,
}

#[api]
pub struct PortworxVolumeSource {
    #[api(tag = 1, name = "volumeID", required, always)]
    volume_id: String,
    #[api(tag = 2)]
    fs_type: String,
    #[api(tag = 3)]
    read_only: bool,
}

#[api]
pub struct ScaleIOVolumeSource {
    #[api(tag = 1, required, always)]
    gateway: String,
    #[api(tag = 2, required, always)]
    system: String,
    #[api(tag = 3, always)]
    secret_ref: Option<LocalObjectReference>,
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
pub struct StorageOSVolumeSource {
    #[api(tag = 1)]
    volume_name: String,
    #[api(tag = 2)]
    volume_namespace: String,
    #[api(tag = 3)]
    fs_type: String,
    #[api(tag = 4)]
    read_only: bool,
    #[api(tag = 5)]
    secret_ref: Option<LocalObjectReference>,
}

#[api]
pub struct ConfigMapVolumeSource {
    #[api(tag = 1, inline)]
    local_object_reference: LocalObjectReference,
    #[api(tag = 2)]
    items: List<KeyToPath>,
    #[api(tag = 3, default = 420, implied)]
    default_mode: Option<i32>,
    #[api(tag = 4)]
    optional: Option<bool>,
    #[api(tag = 5)]
    default_user: Option<i64>,
}

#[api]
pub struct CSIVolumeSource {
    #[api(tag = 1, required, always)]
    driver: String,
    #[api(tag = 2)]
    read_only: Option<bool>,
    #[api(tag = 3)]
    fs_type: Option<String>,
    #[api(tag = 4)]
    volume_attributes: Map<String>,
    #[api(tag = 5)]
    node_publish_secret_ref: Option<LocalObjectReference>,
}

#[api]
pub struct DownwardAPIVolumeSource {
    #[api(tag = 1)]
    items: List<DownwardAPIVolumeFile>,
    #[api(tag = 2, default = 420, implied)]
    default_mode: Option<i32>,
    #[api(tag = 3)]
    default_user: Option<i64>,
}

#[api]
pub struct ImageVolumeSource {
    #[api(tag = 1)]
    reference: String,
    #[api(tag = 2, go = "v1.PullPolicy")]
    pull_policy: String,
}

#[api]
pub struct VolumeMount {
    /// Of the volume.
    #[api(tag = 1, required, always)]
    name: String,
    /// Whether it cannot be written to.
    #[api(tag = 2)]
    read_only: bool,
    /// Whether that holds for what is mounted below it, too.
    #[api(tag = 7, go = "v1.RecursiveReadOnlyMode")]
    recursive_read_only: Option<String>,
    /// Where it appears.
    #[api(tag = 3, required, always)]
    mount_path: String,
    /// The part of the volume that appears.
    #[api(tag = 4)]
    sub_path: String,
    /// Whether mounts made later are seen on the other side.
    #[api(tag = 5, go = "v1.MountPropagationMode")]
    mount_propagation: Option<String>,
    /// As subPath, with $(NAME) for environment variables.
    #[api(tag = 6)]
    sub_path_expr: String,
    #[api(tag = 8, set)]
    bind_mount_options: List<String>,
}

#[api]
pub struct VolumeDevice {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    device_path: String,
}

impl Volume {
    pub(crate) fn default_fields(&mut self) {
        let source = self.volume_source_mut();
        if source.is_unset() {
            source.set_empty_dir(EmptyDirVolumeSource::new());
        }
        if source.ephemeral().is_some_and(|it| it.volume_claim_template().is_some()) {
            let claim = source.ephemeral_mut().volume_claim_template_mut();
            claim.spec_mut().resources_mut().round_up();
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
