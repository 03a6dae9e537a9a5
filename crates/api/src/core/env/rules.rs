//! The rules for environment variables and what they are read from.

use object::{List, names};
use schema::{ErrorList, FieldPath};

use super::{EnvFromSource, EnvVar, FileKeySelector, ObjectFieldSelector, ResourceFieldSelector};
use crate::rules::ValidateField;

/// The fields of a pod that a variable can show.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The fields of a pod that a file can show.
pub(crate) const DOWNWARD_API_VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
/// Fields that have a name, but are not shown.
const OTHER_FIELDS: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub(crate) fn check_env(vars: &List<EnvVar>, at: &FieldPath, errs: &mut ErrorList) {
    at.for_each_item(vars.iter(), |var, at| {
        errs.required_format(&at.field("name"), var.name(), names::relaxed_env_var_name);
        var.check_source(&at.field("valueFrom"), errs);
    });
}

pub(crate) fn check_env_from(
    sources: &List<EnvFromSource>,
    list: &FieldPath,
    errs: &mut ErrorList,
) {
    list.for_each_item(sources.iter(), |source, at| {
        if !source.prefix().is_empty() {
            let wrong = names::relaxed_env_var_name(source.prefix());
            errs.invalid_each(&at.field("prefix"), source.prefix(), wrong);
        }
        let map = source.config_map_ref().map(|map| map.local_object_reference().name());
        let secret = source.secret_ref().map(|secret| secret.local_object_reference().name());
        for (field, name) in [("configMapRef", map), ("secretRef", secret)] {
            match name {
                Some("") => errs.required(&at.field(field).field("name"), ""),
                Some(name) => {
                    let wrong = schema::name_validation::dns_subdomain(name, true);
                    errs.invalid_each(&at.field(field).field("name"), name, wrong);
                }
                None => {}
            }
        }
        match (map, secret) {
            (None, None) => {
                errs.invalid(list, "", "must specify one of: `configMapRef` or `secretRef`");
            }
            (Some(_), Some(_)) => {
                errs.invalid(list, "", "may not have more than one field specified at a time");
            }
            _ => {}
        }
    });
}

impl EnvVar {
    fn check_source(&self, at: &FieldPath, errs: &mut ErrorList) {
        let Some(source) = self.value_from() else { return };
        let mut count = 0;
        if let Some(field) = source.field_ref() {
            count += 1;
            field.check(&FIELDS, &at.field("fieldRef"), errs);
        }
        if let Some(resource) = source.resource_field_ref() {
            count += 1;
            resource.check(false, &at.field("resourceFieldRef"), errs);
        }
        if let Some(key) = source.config_map_key_ref() {
            count += 1;
            let name = key.local_object_reference().name();
            check_key(name, key.key(), &at.field("configMapKeyRef"), errs);
        }
        if let Some(key) = source.secret_key_ref() {
            count += 1;
            let name = key.local_object_reference().name();
            check_key(name, key.key(), &at.field("secretKeyRef"), errs);
        }
        if let Some(file) = source.file_key_ref() {
            count += 1;
            file.check(&at.field("fileKeyRef"), errs);
        }
        let wrong = match (count, self.value()) {
            (0, _) => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
                 `secretKeyRef` or `fileKeyRef`"
            }
            (1, "") => return,
            (_, "") => "may not have more than one field specified at a time",
            _ => "may not be specified when `value` is not empty",
        };
        errs.invalid(at, "", wrong);
    }
}

impl ObjectFieldSelector {
    /// `known` are the fields that can be shown where this stands.
    pub(crate) fn check(&self, known: &[&str], at: &FieldPath, errs: &mut ErrorList) {
        let path = self.field_path();
        let wrong = |errs: &mut ErrorList, why: String| {
            let why = format!("error converting fieldPath: {why}");
            errs.invalid(&at.field("fieldPath"), path, why);
        };
        if path.is_empty() {
            return errs.required(&at.field("fieldPath"), "");
        }
        if self.api_version() != "v1" {
            return wrong(errs, format!("unsupported pod version: {}", self.api_version()));
        }
        match subscript(path) {
            Some(("metadata.annotations", key)) => errs.qualified(at, &key.to_lowercase()),
            Some(("metadata.labels", key)) => errs.qualified(at, key),
            Some(_) => wrong(errs, format!("field label does not support subscript: {path}")),
            None => {
                let path = if path == "spec.host" { "spec.nodeName" } else { path };
                let named = FIELDS.contains(&path)
                    || DOWNWARD_API_VOLUME_FIELDS.contains(&path)
                    || OTHER_FIELDS.contains(&path);
                if named {
                    errs.one_of(&at.field("fieldPath"), path, known);
                } else {
                    wrong(errs, format!("field label not supported: {path}"));
                }
            }
        }
    }
}

impl ResourceFieldSelector {
    /// In a `volume`, it must be said of which container.
    pub(crate) fn check(&self, volume: bool, at: &FieldPath, errs: &mut ErrorList) {
        let resource = self.resource();
        let huge = resource.starts_with("limits.hugepages-")
            || resource.starts_with("requests.hugepages-");
        if volume && self.container_name().is_empty() {
            errs.required(&at.field("containerName"), "");
        } else if resource.is_empty() {
            errs.required(&at.field("resource"), "");
        } else if !huge {
            errs.one_of(&at.field("resource"), resource, &RESOURCES);
        }
        self.check_divisor(huge, at, errs);
    }

    fn check_divisor(&self, huge: bool, at: &FieldPath, errs: &mut ErrorList) {
        let divisor = self.divisor();
        if divisor.is_zero() {
            return;
        }
        let (what, known): (_, &[&str]) = match self.resource() {
            "limits.cpu" | "requests.cpu" => ("cpu", &["1m", "1"]),
            "limits.memory" | "requests.memory" => ("memory", &DIVISORS),
            "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
                ("local ephemeral storage", &DIVISORS)
            }
            _ if huge => ("hugepages", &DIVISORS),
            _ => return,
        };
        if !known.contains(&&*divisor.to_string()) {
            let known = if what == "cpu" { "1m and 1".to_owned() } else { known.join(", ") };
            let why =
                format!("only divisor's values {known} are supported with the {what} resource");
            errs.invalid(&at.field("divisor"), self.resource(), why);
        }
    }
}

impl FileKeySelector {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.required_format(&at.field("key"), self.key(), names::relaxed_env_var_name);
        errs.required_format(&at.field("volumeName"), self.volume_name(), names::dns1123_label);
        match self.path() {
            "" => errs.required(&at.field("path"), ""),
            path => errs.path_without_backsteps(&at.field("path"), path),
        }
    }
}

fn check_key(name: &str, key: &str, at: &FieldPath, errs: &mut ErrorList) {
    errs.subdomain(&at.field("name"), name);
    errs.required_format(&at.field("key"), key, names::config_map_key);
}

/// `metadata.labels['app']` is the field and the key.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_suffix("']")?;
    let (field, key) = rest.split_once("['")?;
    (!field.is_empty()).then_some((field, key))
}
