//! The rules for volumes that outlive pods.

use crate::core::{affinity::warn_term, pod::warnings::DEPRECATED_VOLUMES};
use object::{Lens, Value, names};
use schema::{ErrorList, FieldPath, WarningList};

use super::{CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSource};
use crate::{
    core::{
        SecretReference,
        persistent_volume_claim::check_modes,
        volume::sources::{
            HOST_PATH_TYPES, check_csi_driver, check_flex_options, check_iscsi_name,
            check_partition,
        },
    },
    rules::ValidateField,
    shown::format_go_option,
};

const FLEX: &str = "flexVolume";
/// The sources in the order in which they are looked at, and what they must say.
const SOURCES: [(&str, &[&str]); 22] = [
    ("hostPath", &["path"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("nfs", &["server", "path"]),
    ("rbd", &["monitors", "image"]),
    ("quobyte", &[]),
    ("cephfs", &["monitors"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("cinder", &["volumeID"]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("local", &["path"]),
    ("storageos", &["volumeName"]),
    ("csi", &[]),
];
/// Labels of nodes, old and new.
const RENAMED: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
];

pub(super) fn check(volume: &PersistentVolume, errs: &mut ErrorList) {
    let spec = volume.spec();
    check_modes(volume.spec().access_modes(), "", &FieldPath::SPEC.field("accessModes"), errs);
    check_capacity(volume, errs);
    let policy = spec.persistent_volume_reclaim_policy();
    if !policy.is_empty() {
        let known = ["Delete", "Recycle", "Retain"];
        errs.one_of(&FieldPath::SPEC.field("persistentVolumeReclaimPolicy"), policy, &known);
    }
    let nodes = spec.node_affinity().and_then(|affinity| affinity.required());
    if let Some(nodes) = nodes {
        nodes.check(&FieldPath::SPEC.field("nodeAffinity").field("required"), errs);
    } else if spec.node_affinity().is_some() {
        let at = FieldPath::SPEC.field("nodeAffinity");
        errs.required(&at.field("required"), "must specify required node constraints");
    }
    let source = spec.persistent_volume_source();
    source.check(volume.metadata().name(), &FieldPath::SPEC, errs);
    if source.first() == Some("local") && spec.node_affinity().is_none() {
        errs.required(
            &FieldPath::SPEC.field("nodeAffinity"),
            "Local volume requires node affinity",
        );
    }
    let root = source.host_path().is_some_and(|path| path.path().trim_matches('/').is_empty());
    if root && policy == "Recycle" {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        errs.forbidden(&FieldPath::SPEC.field("persistentVolumeReclaimPolicy"), why);
    }
    if !spec.storage_class_name().is_empty() {
        errs.subdomain(&FieldPath::SPEC.field("storageClassName"), spec.storage_class_name());
    }
    if let Some(mode) = spec.volume_mode() {
        errs.one_of(&FieldPath::SPEC.field("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    check_class(volume, errs);
}

/// What a volume is made of does not change.
pub(super) fn validate_source_immutable(
    new: &PersistentVolume,
    old: &PersistentVolume,
    errs: &mut ErrorList,
) {
    let part = |volume: &PersistentVolume, name: &str| volume.spec().tree().get(name).clone();
    let source = |name: &&str| {
        let (mut new, old) = (part(new, name), part(old, name));
        if *name == "csi" && old.get("controllerExpandSecretRef").is_null() && !old.is_null() {
            new.remove("controllerExpandSecretRef");
        }
        new != old
    };
    if SOURCES.iter().any(|(name, _)| source(name)) {
        let why = "spec.persistentvolumesource is immutable after creation\n@@ -1 +1 @@\n";
        errs.forbidden(&FieldPath::SPEC.field("persistentvolumesource"), why);
    }
    let at = FieldPath::Root.field("volumeMode");
    errs.immutable(&at, &part(new, "volumeMode"), &part(old, "volumeMode"));
    let before = part(old, "nodeAffinity");
    let mut after = part(new, "nodeAffinity");
    restore_beta_label_keys(&mut after, &before);
    if !before.is_null() && after != before {
        let why = "field is immutable, except for updating from beta label to GA";
        let shown = format_go_option(new.spec().node_affinity());
        errs.invalid_formatted(&FieldPath::Root.field("nodeAffinity"), shown, why);
    }
    let class = |volume: &PersistentVolume| volume.spec().volume_attributes_class_name().is_some();
    if class(old) && !class(new) {
        let why = "update from non-nil value to nil is forbidden";
        errs.forbidden(&FieldPath::SPEC.field("volumeAttributesClassName"), why);
    }
}

/// Gives labels that have taken their new names the old ones back. Those that have no new name
/// may lose theirs, which other rules refuse.
fn restore_beta_label_keys(new: &mut Value, old: &Value) {
    if let Value::List(items) = new {
        items
            .make_mut()
            .iter_mut()
            .zip(old.items())
            .for_each(|(new, old)| restore_beta_label_keys(new, old));
    } else if let Some(label) = old.get("key").as_str() {
        let renamed = RENAMED.iter().find(|(old, _)| *old == label).map_or("", |(_, new)| new);
        if new.get("key").as_str().unwrap_or_default() == renamed {
            new["key"] = label.into();
        }
    } else if new.is_object() {
        new.retain(|name, new| {
            restore_beta_label_keys(new, old.get(name));
            true
        });
    }
}

fn check_capacity(volume: &PersistentVolume, errs: &mut ErrorList) {
    let (capacity, at) = (volume.spec().capacity(), FieldPath::SPEC.field("capacity"));
    if capacity.is_empty() {
        errs.required(&at, "");
    }
    if capacity.get("storage").is_none() || capacity.iter().len() > 1 {
        errs.not_supported(&at, Value::from(capacity.clone()), &["storage"]);
    }
    for (name, amount) in capacity.iter() {
        if amount.sign() < 0 {
            errs.invalid(&at.key(name), amount.value(), "must be a valid resource quantity");
        }
        if amount.sign() <= 0 {
            errs.invalid(&at.key(name), amount.to_string(), "must be greater than zero");
        }
    }
}

fn check_class(volume: &PersistentVolume, errs: &mut ErrorList) {
    let spec = volume.spec();
    let Some(class) = spec.volume_attributes_class_name() else { return };
    let at = FieldPath::SPEC.field("volumeAttributesClassName");
    match class {
        "" => errs.required(&at, "an empty string is disallowed"),
        class => errs.subdomain(&at, class),
    }
    if spec.persistent_volume_source().csi().is_none() {
        let why = "has to be specified when using volumeAttributesClassName";
        errs.required(&FieldPath::SPEC.field("csi"), why);
    }
}

impl PersistentVolumeSource {
    /// The source that counts, where there are several. Flex volumes do not mind others.
    pub(crate) fn first(&self) -> Option<&'static str> {
        let is_set = |name: &&str| !self.tree().get(name).is_null();
        SOURCES.iter().map(|(name, _)| *name).find(is_set)
    }

    /// `volume`: its name, as far as it has one; `spec`: where it stands.
    pub(crate) fn check(&self, volume: &str, spec: &FieldPath, errs: &mut ErrorList) {
        let Some(first) = self.first() else {
            return errs.required(spec, "must specify a volume type");
        };
        for (name, needs) in SOURCES {
            if self.tree().get(name).is_null() {
                continue;
            }
            if name == first || name == FLEX {
                let at = if name == "gcePersistentDisk" { "persistentDisk" } else { name };
                let at = spec.field(at);
                let missing = |need: &&&str| self.tree().get(name).get(need).is_zero();
                for need in needs.iter().filter(missing) {
                    errs.required(&at.field(need), "");
                }
                self.check_source(name, volume, &at, errs);
            } else {
                let at = if name == "cephfs" { "cephFS" } else { name };
                errs.forbidden(&spec.field(at), "may not specify more than 1 volume type");
            }
        }
    }

    fn check_source(&self, name: &str, volume: &str, at: &FieldPath, errs: &mut ErrorList) {
        match name {
            "csi" => self.csi().expect("it is set").check(at, errs),
            "iscsi" => self.check_iscsi(volume, at, errs),
            _ => self.check_files(name, at, errs),
        }
    }

    fn check_files(&self, name: &str, at: &FieldPath, errs: &mut ErrorList) {
        match name {
            "hostPath" => {
                if let Some(path) = self.host_path().filter(|path| !path.path().is_empty()) {
                    errs.path_without_backsteps(&at.field("path"), path.path());
                    errs.one_of(&at.field("type"), path.type_(), &HOST_PATH_TYPES);
                }
            }
            "gcePersistentDisk" | "awsElasticBlockStore" => {
                check_partition(self.tree().get(name), at, errs);
            }
            "glusterfs" => {
                let at = at.field("endpointsNamespace");
                match self.glusterfs().and_then(|volume| volume.endpoints_namespace()) {
                    Some("") => {
                        let why =
                            "if the endpointnamespace is set, it must be a valid namespace name";
                        errs.invalid(&at, "", why);
                    }
                    Some(namespace) => errs.label(&at, namespace),
                    None => {}
                }
            }
            "cinder" => {
                if let Some(secret) = self.cinder().and_then(|cinder| cinder.secret_ref()) {
                    need_secret(secret.name(), secret.namespace(), at, errs);
                }
            }
            "azureFile" => {
                let namespace = self.azure_file().and_then(|share| share.secret_namespace());
                if namespace == Some("") {
                    errs.required(&at.field("secretNamespace"), "");
                }
            }
            "storageos" => {
                let volume = self.storageos().expect("it is set");
                for (field, label) in [
                    ("volumeName", volume.volume_name()),
                    ("volumeNamespace", volume.volume_namespace()),
                ] {
                    errs.optional_format(&at.field(field), label, names::dns1123_label);
                }
                if let Some(secret) = volume.secret_ref() {
                    need_secret(secret.name(), secret.namespace(), at, errs);
                }
            }
            "local" => errs
                .path_without_backsteps(&at.field("path"), self.local().map_or("", |it| it.path())),
            "nfs" => {
                if let Some(nfs) = self.nfs().filter(|nfs| !nfs.path().starts_with('/')) {
                    errs.invalid(&at.field("path"), nfs.path(), "must be an absolute path");
                }
            }
            "flocker" => self.flocker().expect("it is set").check(at, errs),
            "quobyte" => self.quobyte().expect("it is set").check(at, errs),
            "fc" => self.fc().expect("it is set").check(at, errs),
            "azureDisk" => self.azure_disk().expect("it is set").check(at, errs),
            FLEX => {
                let flex = self.flex_volume().expect("it is set");
                check_flex_options(flex.options().iter().map(|(key, _)| key), at, errs);
            }
            _ => {}
        }
    }

    fn check_iscsi(&self, volume: &str, at: &FieldPath, errs: &mut ErrorList) {
        let Some(iscsi) = self.iscsi() else { return };
        if iscsi.initiator_name().is_some() && volume.len() + 1 + iscsi.target_portal().len() > 64 {
            let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 \
                       characters if iscsi.initiatorName is specified.";
            errs.invalid(&at.field("targetportal"), iscsi.target_portal(), why);
        }
        if !iscsi.iqn().is_empty() {
            check_iscsi_name(&at.field("iqn"), iscsi.iqn(), false, errs);
        }
        if !(0..=255).contains(&iscsi.lun()) {
            errs.invalid(&at.field("lun"), iscsi.lun(), "must be between 0 and 255, inclusive");
        }
        let chap = iscsi.chap_auth_discovery() || iscsi.chap_auth_session();
        match iscsi.secret_ref() {
            None if chap => errs.required(&at.field("secretRef"), ""),
            Some(secret) => errs.required_field(&at.field("secretRef"), "name", secret.name()),
            None => {}
        }
        if let Some(name) = iscsi.initiator_name() {
            check_iscsi_name(&at.field("initiatorname"), name, false, errs);
        }
    }
}

impl CSIPersistentVolumeSource {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        check_csi_driver(&at.field("driver"), self.driver(), errs);
        errs.required_field(at, "volumeHandle", self.volume_handle());
        for (name, secret) in [
            ("controllerPublishSecretRef", self.controller_publish_secret_ref()),
            ("controllerExpandSecretRef", self.controller_expand_secret_ref()),
            ("nodePublishSecretRef", self.node_publish_secret_ref()),
            ("nodeExpandSecretRef", self.node_expand_secret_ref()),
        ] {
            at.if_present(name, secret, |secret, at| check_secret(secret, at, errs));
        }
    }
}

/// Of these secrets only the names must be there.
fn need_secret(name: &str, namespace: &str, at: &FieldPath, errs: &mut ErrorList) {
    errs.required_field(&at.field("secretRef"), "name", name);
    errs.required_field(&at.field("secretRef"), "namespace", namespace);
}

fn check_secret(secret: &SecretReference, at: &FieldPath, errs: &mut ErrorList) {
    errs.required_format(&at.field("name"), secret.name(), names::dns1123_subdomain);
    errs.required_format(&at.field("namespace"), secret.namespace(), names::dns1123_label);
}

const OLD_ANNOTATIONS: [(&str, &str); 2] = [
    (
        "volume.beta.kubernetes.io/storage-class",
        "deprecated since v1.8; use \"storageClassName\" attribute instead",
    ),
    (
        "volume.beta.kubernetes.io/mount-options",
        "deprecated since v1.31; use \"mountOptions\" attribute instead",
    ),
];

pub(super) fn warn(volume: &PersistentVolume, warnings: &mut WarningList) {
    let (spec, at) = (volume.spec(), FieldPath::SPEC);
    for (key, why) in OLD_ANNOTATIONS {
        if volume.metadata().annotations().get(key).is_some() {
            warnings.push_at(&FieldPath::METADATA.field("annotations").key(key), why);
        }
    }
    if spec.persistent_volume_reclaim_policy() == "Recycle" {
        let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is \
                   to use dynamic provisioning.";
        warnings.push_at(&at.field("persistentVolumeReclaimPolicy"), why);
    }
    let terms = spec.node_affinity().and_then(|affinity| affinity.required());
    let terms = terms.into_iter().flat_map(|terms| terms.node_selector_terms().iter());
    for (i, term) in terms.enumerate() {
        let at = at.field("nodeAffinity");
        warn_term(term, false, &at.field("required").field("nodeSelectorTerms").index(i), warnings);
    }
    for field in ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"] {
        let old = DEPRECATED_VOLUMES.iter().find(|(name, ..)| *name == field);
        if let Some((_, name, why)) = old.filter(|_| !spec.tree().get(field).is_null()) {
            warnings.push_at(&at.field(name), why);
        }
    }
}
