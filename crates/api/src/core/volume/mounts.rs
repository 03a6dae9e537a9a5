//! The rules for where containers see volumes.

use std::collections::{BTreeMap, BTreeSet};

use object::{List, Value, names};
use schema::{ErrorList, FieldPath};

use super::{Volume, VolumeDevice, VolumeMount, VolumeSource};
use crate::{core::Container, rules::ValidateField};

/// The sound volumes of a pod, by name.
pub(crate) type Volumes<'a> = BTreeMap<&'a str, &'a VolumeSource>;

/// Checks the volumes of a pod; those that pass can be mounted.
pub(crate) fn check_volumes<'a>(
    volumes: &'a List<Volume>,
    pod: &str,
    at: &FieldPath,
    errs: &mut ErrorList,
) -> Volumes<'a> {
    let made = |volume: &Volume| {
        let made = !pod.is_empty() && volume.volume_source().ephemeral().is_some();
        made.then(|| format!("{pod}-{}", volume.name()))
    };
    let made: BTreeSet<String> = volumes.iter().filter_map(made).collect();
    let mut sound = Volumes::new();
    for (i, volume) in volumes.iter().enumerate() {
        let (at, before) = (at.index(i), errs.0.len());
        let (name, source) = (volume.name(), volume.volume_source());
        source.check(name, pod, &at, errs);
        errs.required_format(&at.field("name"), name, names::dns1123_label);
        if sound.contains_key(name) {
            errs.duplicate(&at.field("name"), name);
        }
        if errs.0.len() == before {
            sound.insert(name, source);
        }
        let claim = source
            .persistent_volume_claim()
            .map(super::PersistentVolumeClaimVolumeSource::claim_name);
        if let Some(claim) = claim.filter(|claim| made.contains(*claim)) {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            errs.invalid(&at.field("persistentVolumeClaim").field("claimName"), claim, why);
        }
    }
    sound
}

impl Container {
    pub(crate) fn check_mounts(&self, volumes: &Volumes, at: &FieldPath, errs: &mut ErrorList) {
        let mut paths = BTreeSet::new();
        let devices = self.volume_devices();
        let device_names = devices.by_key(|device| device.name());
        let device_paths = devices.by_key(|device| device.device_path());
        for (i, mount) in self.volume_mounts().iter().enumerate() {
            let (list, at) = (at, at.index(i));
            let (name, path) = (mount.name(), mount.mount_path());
            errs.required_field(&at, "name", name);
            if !volumes.contains_key(name) {
                errs.not_found(&at.field("name"), name);
            }
            errs.required_field(&at, "mountPath", path);
            if !paths.insert(path) {
                errs.invalid(&at.field("mountPath"), path, "must be unique");
            }
            if device_names.contains_key(name) {
                let why = "must not already exist in volumeDevices";
                errs.invalid(&at.field("name"), name, why);
            }
            if device_paths.contains_key(path) {
                let why = "must not already exist as a path in volumeDevices";
                errs.invalid(&at.field("mountPath"), path, why);
            }
            mount.check_paths(list, &at, errs);
            self.check_propagation(mount, &list.field("mountPropagation"), errs);
            mount.check_recursive(&list.field("recursiveReadOnly"), errs);
            mount.check_options(volumes, &at.field("bindMountOptions"), errs);
        }
    }

    fn check_propagation(&self, mount: &VolumeMount, at: &FieldPath, errs: &mut ErrorList) {
        let Some(mode) = mount.mount_propagation() else { return };
        errs.one_of(at, mode, &["Bidirectional", "HostToContainer", "None"]);
        let privileged = self
            .security_context()
            .and_then(super::super::security_context::SecurityContext::privileged);
        if mode == "Bidirectional" && privileged != Some(true) {
            let why = "Bidirectional mount propagation is available only to privileged containers";
            errs.forbidden(at, why);
        }
    }

    pub(crate) fn check_devices(&self, volumes: &Volumes, at: &FieldPath, errs: &mut ErrorList) {
        let mut seen = (BTreeSet::new(), BTreeSet::new());
        let mounts = self.volume_mounts();
        let mount_names = mounts.by_key(|mount| mount.name());
        let mount_paths = mounts.by_key(|mount| mount.mount_path());
        for (i, device) in self.volume_devices().iter().enumerate() {
            device.check(volumes, &mut seen, &at.index(i), errs);
            let (name, path) = (device.name(), device.device_path());
            let at = at.index(i);
            if mount_names.contains_key(name) {
                let why = "must not already exist in volumeMounts";
                errs.invalid(&at.field("name"), name, why);
            }
            if mount_paths.contains_key(path) {
                let why = "must not already exist as a path in volumeMounts";
                errs.invalid(&at.field("devicePath"), path, why);
            }
        }
    }
}

impl VolumeMount {
    fn check_paths(&self, list: &FieldPath, at: &FieldPath, errs: &mut ErrorList) {
        let (path, expression) = (self.sub_path(), self.sub_path_expr());
        if !path.is_empty() {
            errs.local_descending_path(&list.field("subPath"), path);
        }
        if !expression.is_empty() {
            if !path.is_empty() {
                let why = "subPathExpr and subPath are mutually exclusive";
                errs.invalid(&at.field("subPathExpr"), expression, why);
            }
            errs.local_descending_path(&list.field("subPathExpr"), expression);
        }
    }

    fn check_recursive(&self, at: &FieldPath, errs: &mut ErrorList) {
        match self.recursive_read_only() {
            None | Some("Disabled") => {}
            Some("Enabled" | "IfPossible") => {
                if !self.read_only() {
                    errs.forbidden(at, "may only be specified when readOnly is true");
                }
                if !matches!(self.mount_propagation(), None | Some("None")) {
                    let why =
                        "may only be specified when mountPropagation is None or not specified";
                    errs.forbidden(at, why);
                }
            }
            Some(other) => errs.not_supported(at, other, &["Disabled", "Enabled", "IfPossible"]),
        }
    }

    fn check_options(&self, volumes: &Volumes, at: &FieldPath, errs: &mut ErrorList) {
        let mut seen = BTreeSet::new();
        for (i, option) in self.bind_mount_options().iter().enumerate() {
            errs.one_of(&at.index(i), option, &["nodev", "noexec", "nosuid"]);
            errs.unique(&mut seen, &at.index(i), option);
        }
        let image = volumes.get(self.name()).is_some_and(|source| source.image().is_some());
        if image && !seen.is_empty() {
            let options = Value::from(self.bind_mount_options().clone());
            errs.invalid(at, options, "bindMountOptions may not be used with image volumes");
        }
    }
}

impl VolumeDevice {
    fn check<'a>(
        &'a self,
        volumes: &Volumes,
        (names, paths): &mut (BTreeSet<&'a str>, BTreeSet<&'a str>),
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        let (name, path) = (self.name(), self.device_path());
        errs.required_field(at, "name", name);
        if !names.insert(name) && !name.is_empty() {
            errs.invalid(&at.field("name"), name, "must be unique");
        }
        match volumes.get(name) {
            None => errs.not_found(&at.field("name"), name),
            Some(source)
                if source.persistent_volume_claim().is_none() && source.ephemeral().is_none() =>
            {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral \
                           for block mode";
                errs.invalid(&at.field("name"), name, why);
            }
            Some(_) => {}
        }
        errs.required_field(at, "devicePath", path);
        if paths.contains(path) {
            errs.invalid(&at.field("devicePath"), path, "must be unique");
        }
        if path.split('/').any(|part| part == "..") {
            errs.invalid(&at.field("devicePath"), path, "can not contain backsteps ('..')");
        } else {
            paths.insert(path);
        }
    }
}

/// When an image is pulled.
pub(crate) fn check_pull_policy(at: &FieldPath, policy: &str, errs: &mut ErrorList) {
    errs.required_one_of(at, policy, &["Always", "IfNotPresent", "Never"]);
}
