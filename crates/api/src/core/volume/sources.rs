//! The rules for what a volume can be.

use object::{Lens, Value, names};
use schema::{ErrorList, FieldPath};

use super::{
    AzureDiskVolumeSource, CSIVolumeSource, DownwardAPIVolumeFile, EphemeralVolumeSource,
    FCVolumeSource, FlexVolumeSource, FlockerVolumeSource, ISCSIVolumeSource, KeyToPath,
    QuobyteVolumeSource, StorageOSVolumeSource, VolumeSource, mounts::check_pull_policy, projected,
};
use crate::{core::env, rules::ValidateField};

const ONLY_ONE: &str = "may not specify more than 1 volume type";
pub(crate) const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// The sources in the order in which they are looked at; only the first counts.
const ORDER: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// A disk's partition; 0: the disk is not divided.
pub(crate) fn check_partition(disk: &Value, at: &FieldPath, errs: &mut ErrorList) {
    let partition = disk.get("partition").as_i64().unwrap_or_default();
    if !(0..=255).contains(&partition) {
        errs.invalid(&at.field("partition"), partition, "must be between 1 and 255, inclusive");
    }
}

impl VolumeSource {
    /// `volume` is the name of the volume, `pod` that of its pod, where it is known.
    pub(super) fn check(&self, volume: &str, pod: &str, at: &FieldPath, errs: &mut ErrorList) {
        let set: Vec<_> =
            ORDER.into_iter().filter(|name| !self.tree().get(name).is_null()).collect();
        let Some((first, others)) = set.split_first() else {
            return errs.required(at, "must specify a volume type");
        };
        self.check_source(first, &at.field(path_name(first)), errs);
        self.check_whole(first, (volume, pod), at, errs);
        for other in others {
            let name = match *other {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                name => name,
            };
            errs.forbidden(&at.field(name), ONLY_ONE);
        }
    }

    /// What also depends on the volume's name.
    fn check_whole(
        &self,
        first: &str,
        (volume, pod): (&str, &str),
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        if let Some(iscsi) = self.iscsi()
            && iscsi.initiator_name().is_some()
            && volume.len() + 1 + iscsi.target_portal().len() > 64
        {
            let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 \
                       characters if iscsi.initiatorName is specified.";
            errs.invalid(&at.field("name"), volume, why);
        }
        if first == "ephemeral" && !pod.is_empty() && !volume.is_empty() {
            let claim = format!("{pod}-{volume}");
            for wrong in names::dns1123_subdomain(&claim) {
                let wrong = format!("PVC name {claim:?}: {wrong}");
                errs.invalid(&at.field("name"), volume, wrong);
            }
        }
    }

    fn check_source(&self, name: &str, at: &FieldPath, errs: &mut ErrorList) {
        let mut need = |fields: &[&str]| {
            for field in fields {
                if self.tree().get(name).get(field).is_zero() {
                    errs.required(&at.field(field), "");
                }
            }
        };
        match name {
            "glusterfs" => need(&["endpoints", "path"]),
            "persistentVolumeClaim" => need(&["claimName"]),
            "rbd" => need(&["monitors", "image"]),
            "cephfs" => need(&["monitors"]),
            "azureFile" => need(&["secretName", "shareName"]),
            "vsphereVolume" => need(&["volumePath"]),
            "photonPersistentDisk" => need(&["pdID"]),
            "scaleIO" => need(&["gateway", "system", "volumeName"]),
            "cinder" | "portworxVolume" | "awsElasticBlockStore" => need(&["volumeID"]),
            "flexVolume" => need(&["driver"]),
            "gitRepo" => need(&["repository"]),
            "gcePersistentDisk" => need(&["pdName"]),
            "secret" => need(&["secretName"]),
            "configMap" => need(&["name"]),
            "nfs" => need(&["server", "path"]),
            "iscsi" => need(&["targetPortal"]),
            "azureDisk" => need(&["diskName", "diskURI"]),
            "image" => need(&["reference"]),
            _ => {}
        }
        self.check_more(at, errs, name);
    }

    fn check_more(&self, at: &FieldPath, errs: &mut ErrorList, name: &str) {
        match name {
            "emptyDir" => self.check_empty_dir(at, errs),
            "hostPath" => self.check_host_path(at, errs),
            "secret" | "configMap" => self.check_items(at, errs),
            "gcePersistentDisk" | "awsElasticBlockStore" => {
                check_partition(self.tree().get(name), at, errs);
            }
            "gitRepo" => {
                let repo = self.git_repo().expect("looked at because it is set");
                errs.local_descending_path(&at.field("directory"), repo.directory());
            }
            "nfs" => {
                let path = self.nfs().expect("looked at because it is set").path();
                if !path.starts_with('/') {
                    errs.invalid(&at.field("path"), path, "must be an absolute path");
                }
            }
            "cinder" => {
                let secret = self.cinder().and_then(|cinder| cinder.secret_ref());
                at.if_present("secretRef", secret, |secret, at| {
                    errs.required_field(at, "name", secret.name());
                });
            }
            "image" => {
                let image = self.image().expect("looked at because it is set");
                check_pull_policy(&at.field("pullPolicy"), image.pull_policy(), errs);
            }
            _ => self.check_rest(at, errs, name),
        }
    }

    fn check_rest(&self, at: &FieldPath, errs: &mut ErrorList, name: &str) {
        let set = "looked at because it is set";
        match name {
            "iscsi" => self.iscsi().expect(set).check(at, errs),
            "fc" => self.fc().expect(set).check(at, errs),
            "flocker" => self.flocker().expect(set).check(at, errs),
            "quobyte" => self.quobyte().expect(set).check(at, errs),
            "flexVolume" => self.flex_volume().expect(set).check(at, errs),
            "azureDisk" => self.azure_disk().expect(set).check(at, errs),
            "storageos" => self.storageos().expect(set).check(at, errs),
            "csi" => self.csi().expect(set).check(at, errs),
            "ephemeral" => self.ephemeral().expect(set).check(at, errs),
            "projected" => projected::check(self.projected().expect(set), at, errs),
            "downwardAPI" => {
                let source = self.downward_api().expect(set);
                errs.file_mode(&at.field("defaultMode"), Some(source.default_mode()));
                errs.user_or_group_id(&at.field("defaultUser"), source.default_user());
                source.items().iter().for_each(|file| file.check(at, errs));
            }
            _ => {}
        }
    }

    fn check_empty_dir(&self, at: &FieldPath, errs: &mut ErrorList) {
        let dir = self.empty_dir().expect("looked at because it is set");
        if dir.size_limit().is_some_and(|limit| limit.sign() < 0) {
            errs.forbidden(
                &at.field("sizeLimit"),
                "SizeLimit field must be a valid resource quantity",
            );
        }
        if let Some(mode) = dir.mode().filter(|mode| !(0..=0o1777).contains(mode)) {
            let why = "must be a number between 0 and 01777 (octal), both inclusive";
            errs.invalid(&at.field("mode"), mode, why);
        }
    }

    fn check_host_path(&self, at: &FieldPath, errs: &mut ErrorList) {
        let path = self.host_path().expect("looked at because it is set");
        if path.path().is_empty() {
            return errs.required(&at.field("path"), "");
        }
        errs.path_without_backsteps(&at.field("path"), path.path());
        errs.one_of(&at.field("type"), path.type_(), &HOST_PATH_TYPES);
    }

    fn check_items(&self, at: &FieldPath, errs: &mut ErrorList) {
        let (mode, user, items) = match (self.secret(), self.config_map()) {
            (Some(secret), _) => (secret.default_mode(), secret.default_user(), secret.items()),
            (_, Some(map)) => (map.default_mode(), map.default_user(), map.items()),
            _ => return,
        };
        errs.file_mode(&at.field("defaultMode"), Some(mode));
        errs.user_or_group_id(&at.field("defaultUser"), user);
        at.field("items").for_each_item(items.iter(), |item, at| item.check(at, errs));
    }
}

/// Under which name the rules of a source complain.
fn path_name(source: &str) -> &str {
    if source == "gcePersistentDisk" { "persistentDisk" } else { source }
}

impl KeyToPath {
    pub(super) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.required_field(at, "key", self.key());
        errs.required_field(at, "path", self.path());
        errs.local_non_reserved_path(&at.field("path"), self.path());
        errs.file_mode(&at.field("mode"), self.mode());
        errs.user_or_group_id(&at.field("user"), self.user());
    }
}

impl DownwardAPIVolumeFile {
    pub(super) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.required_field(at, "path", self.path());
        errs.local_non_reserved_path(&at.field("path"), self.path());
        match (self.field_ref(), self.resource_field_ref()) {
            (Some(field), resource) => {
                field.check(&env::DOWNWARD_API_VOLUME_FIELDS, &at.field("fieldRef"), errs);
                if resource.is_some() {
                    let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                    errs.invalid(at, "resource", why);
                }
            }
            (None, Some(resource)) => resource.check(true, &at.field("resourceFieldRef"), errs),
            (None, None) => errs.required(at, "one of fieldRef and resourceFieldRef is required"),
        }
        errs.file_mode(&at.field("mode"), self.mode());
        errs.user_or_group_id(&at.field("user"), self.user());
    }
}

impl ISCSIVolumeSource {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.required_field(at, "iqn", self.iqn());
        if !self.iqn().is_empty() {
            check_iscsi_name(&at.field("iqn"), self.iqn(), true, errs);
        }
        if !(0..=255).contains(&self.lun()) {
            errs.invalid(&at.field("lun"), self.lun(), "must be between 0 and 255, inclusive");
        }
        let chap = self.chap_auth_discovery() || self.chap_auth_session();
        if chap && self.secret_ref().is_none() {
            errs.required(&at.field("secretRef"), "");
        }
        if let Some(name) = self.initiator_name() {
            check_iscsi_name(&at.field("initiatorname"), name, true, errs);
        }
    }
}

/// The three ways to name a party of iSCSI.
pub(crate) fn check_iscsi_name(at: &FieldPath, name: &str, wordy: bool, errs: &mut ErrorList) {
    let alnum = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let rest = |name: &str| name.get(4..).unwrap_or_default().to_owned();
    let fits = match name.get(..3) {
        Some("iqn") => is_iqn(name),
        Some("eui") => alnum(&rest(name), 16),
        Some("naa") => alnum(&rest(name), 32),
        _ if wordy => {
            return errs.invalid(at, name, "must be valid format starting with iqn, eui, or naa");
        }
        _ => false,
    };
    if !fits {
        errs.invalid(at, name, "must be valid format");
    }
}

/// `iqn.2006-01.com.example:name`.
fn is_iqn(name: &str) -> bool {
    let digits = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    let Some(rest) = name.strip_prefix("iqn.") else { return false };
    let Some((date, rest)) = rest.split_once('.') else { return false };
    let dated = date.split_once('-').is_some_and(|(y, m)| digits(y, 4) && digits(m, 2));
    let domain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    let tail = |c: char| !c.is_whitespace() && !",;*&$|".contains(c);
    rest.split_once(':').is_some_and(|(host, id)| {
        dated
            && !host.is_empty()
            && host.bytes().all(domain)
            && !id.is_empty()
            && id.chars().all(tail)
    })
}

impl FCVolumeSource {
    pub(crate) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let at_names = at.field("targetWWNs");
        match (self.target_ww_ns().is_empty(), self.wwids().is_empty()) {
            (true, true) => {
                errs.required(&at_names, "must specify either targetWWNs or wwids, but not both");
            }
            (false, false) => errs.invalid(
                &at_names,
                object::Value::from(self.target_ww_ns().clone()),
                "targetWWNs and wwids can not be specified simultaneously",
            ),
            _ => {}
        }
        if self.target_ww_ns().is_empty() {
            return;
        }
        match self.lun() {
            None => errs.required(&at.field("lun"), "lun is required if targetWWNs is specified"),
            Some(0..=255) => {}
            Some(lun) => {
                errs.invalid(&at.field("lun"), lun, "must be between 0 and 255, inclusive");
            }
        }
    }
}

impl FlockerVolumeSource {
    pub(crate) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        match (self.dataset_name(), self.dataset_uuid()) {
            ("", "") => errs.required(at, "one of datasetName and datasetUUID is required"),
            ("", _) | (_, "") => {}
            _ => errs.invalid(
                at,
                "resource",
                "datasetName and datasetUUID can not be specified simultaneously",
            ),
        }
        if self.dataset_name().contains('/') {
            errs.invalid(&at.field("datasetName"), self.dataset_name(), "must not contain '/'");
        }
    }
}

impl QuobyteVolumeSource {
    pub(crate) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let pairs = "must be a host:port pair or multiple pairs separated by commas";
        if self.registry().is_empty() {
            errs.required(&at.field("registry"), pairs);
        } else if self.tenant().len() >= 65 {
            let why = "must be a UUID and may not exceed a length of 64 characters";
            errs.required(&at.field("tenant"), why);
        } else {
            for _ in self.registry().split(',').filter(|pair| !is_host_port(pair)) {
                errs.invalid(&at.field("registry"), self.registry(), pairs);
            }
        }
        errs.required_field(at, "volume", self.volume());
    }
}

fn is_host_port(pair: &str) -> bool {
    match pair.strip_prefix('[') {
        Some(rest) => {
            rest.split_once("]:").is_some_and(|(_, port)| !port.contains([':', '[', ']']))
        }
        None => pair.split_once(':').is_some_and(|(_, port)| !port.contains([':', '[', ']'])),
    }
}

impl FlexVolumeSource {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        check_flex_options(self.options().iter().map(|(key, _)| key), at, errs);
    }
}

/// Options under names of Kubernetes are the kubelet's own.
pub(crate) fn check_flex_options<'a>(
    keys: impl Iterator<Item = &'a str>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    for key in keys {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            errs.invalid(&at.field("options").key(key), key, why);
        }
    }
}

impl AzureDiskVolumeSource {
    pub(crate) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let modes = ["None", "ReadOnly", "ReadWrite"];
        errs.one_of(&at.field("cachingMode"), self.caching_mode(), &modes);
        errs.one_of(&at.field("kind"), self.kind(), &["Dedicated", "Managed", "Shared"]);
        let uri = at.field("diskURI");
        if self.kind() == "Managed" {
            if !self.disk_uri().starts_with("/subscriptions/") {
                errs.not_supported(&uri, self.disk_uri(), &["/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"]);
            }
        } else if !self.disk_uri().starts_with("https://") {
            errs.not_supported(
                &uri,
                self.disk_uri(),
                &["https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"],
            );
        }
    }
}

impl StorageOSVolumeSource {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.required_field(at, "volumeName", self.volume_name());
        errs.optional_format(&at.field("volumeName"), self.volume_name(), names::dns1123_label);
        errs.optional_format(
            &at.field("volumeNamespace"),
            self.volume_namespace(),
            names::dns1123_label,
        );
        at.if_present("secretRef", self.secret_ref(), |secret, at| {
            errs.required_field(at, "name", secret.name());
        });
    }
}

impl CSIVolumeSource {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        check_csi_driver(&at.field("driver"), self.driver(), errs);
        match self.node_publish_secret_ref().map(super::LocalObjectReference::name) {
            Some("") => errs.required(&at.field("nodePublishSecretRef").field("name"), ""),
            Some(name) => errs.subdomain(&at.field("name"), name),
            None => {}
        }
    }
}

/// The name of a CSI driver.
pub(crate) fn check_csi_driver(at: &FieldPath, name: &str, errs: &mut ErrorList) {
    if name.is_empty() {
        return errs.required(at, "");
    }
    errs.max_bytes(at, name, 63);
    errs.invalid_each(at, name, names::dns1123_subdomain(&name.to_lowercase()));
}

impl EphemeralVolumeSource {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let at = at.field("volumeClaimTemplate");
        match self.volume_claim_template() {
            None => errs.required(&at, ""),
            Some(template) => {
                check_template_meta(template.metadata(), &at.field("metadata"), errs);
                template.spec().check(&at.field("spec"), errs);
            }
        }
    }
}

/// Of the metadata of a claim that is to be, only labels and annotations count.
pub(crate) fn check_template_meta(meta: &object::ObjectMeta, at: &FieldPath, errs: &mut ErrorList) {
    schema::validate_annotations(meta.annotations(), &at.field("annotations"), errs);
    schema::validate_labels(meta.labels(), &at.field("labels"), errs);
    for (name, value) in meta.tree().entries() {
        // A list is set though it be empty, and so is what Go keeps behind a pointer.
        let is_set = !value.is_zero()
            || matches!(value, object::Value::List(_))
            || name == "deletionGracePeriodSeconds";
        if !matches!(name, "labels" | "annotations") && is_set {
            let name = if name == "uid" { "uID" } else { name };
            errs.forbidden(&at.field(name), "cannot be set");
        }
    }
}
