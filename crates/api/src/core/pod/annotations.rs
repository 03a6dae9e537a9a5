//! The rules for annotations that pods are run by.

use object::Map;
use schema::{ErrorList, FieldPath};

use super::PodSpec;
use crate::{
    core::{SeccompProfile, SecurityContext},
    rules::ValidateField,
};

/// Marks a pod that stands for one that the kubelet has from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST: &str = "localhost/";

pub(super) fn check(notes: &Map<String>, spec: &PodSpec, at: &FieldPath, errs: &mut ErrorList) {
    if let Some(value) = notes.get(MIRROR).filter(|_| spec.node_name().is_empty()) {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errs.invalid(&at.key(MIRROR), value, why);
    }
    if let Some(cost) = notes.get(DELETION_COST)
        && !is_cost(cost)
    {
        errs.invalid(&at.key(DELETION_COST), cost, "must be a 32bit integer");
    }
    for (key, value) in notes.iter() {
        if key == SECCOMP_POD || key.starts_with(SECCOMP) {
            check_seccomp(value, &at.field(key), errs);
        }
        if let Some(name) = key.strip_prefix(APP_ARMOR) {
            check_app_armor(name, value, spec, &at.key(key), errs);
        }
    }
}

/// What may not change with a pod.
pub(super) fn check_changed(
    new: &Map<String>,
    old: &Map<String>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    for (key, _) in old.iter().filter(|(key, value)| new.get(key) != Some(*value)) {
        if key.starts_with(APP_ARMOR) {
            errs.forbidden(&at.key(key), "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            errs.forbidden(&at.key(key), "may not remove or update mirror pod annotation");
        }
    }
    for (key, _) in new.iter().filter(|(key, _)| old.get(key).is_none()) {
        if key.starts_with(APP_ARMOR) {
            errs.forbidden(&at.key(key), "may not add AppArmor annotations");
        }
        if key == MIRROR {
            errs.forbidden(&at.key(key), "may not add mirror pod annotation");
        }
    }
}

/// Where both an annotation and a field name a profile, it is the same.
pub(super) fn check_profiles(
    notes: &Map<String>,
    spec: &PodSpec,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let seccomp = |note: &str, profile: &SeccompProfile, at: &FieldPath, errs: &mut ErrorList| {
        let at = at.field("securityContext");
        let of = (profile.type_(), profile.localhost_profile());
        match_profile("seccomp", note, of, &at.field("seccompProfile"), errs);
    };
    let of_pod = spec.security_context().and_then(|context| context.seccomp_profile());
    if let Some((note, profile)) = notes.get(SECCOMP_POD).zip(of_pod) {
        seccomp(note, profile, at, errs);
    }
    spec.visit(at, |container, at| {
        let profile = container.security_context().and_then(SecurityContext::seccomp_profile);
        let note = notes.get(&format!("{SECCOMP}{}", container.name()));
        if let Some((note, profile)) = note.zip(profile) {
            seccomp(note, profile, at, errs);
        }
    });
    if spec.os().is_some_and(|os| os.name() == "windows") {
        return;
    }
    let of_pod = spec.security_context().and_then(|context| context.app_armor_profile());
    spec.visit(at, |container, at| {
        let own = container.security_context().and_then(SecurityContext::app_armor_profile);
        let note = notes.get(&format!("{APP_ARMOR}{}", container.name()));
        if let Some((note, profile)) = note.zip(own.or(of_pod)) {
            let at = at.field("securityContext");
            let of = (profile.type_(), profile.localhost_profile());
            match_profile("apparmor", note, of, &at.field("appArmorProfile"), errs);
        }
    });
}

fn is_cost(cost: &str) -> bool {
    let plain = cost.strip_prefix('-').unwrap_or(cost);
    let digits = !plain.is_empty() && plain.bytes().all(|b| b.is_ascii_digit());
    digits && (plain == "0" || !plain.starts_with('0')) && cost.parse::<i32>().is_ok()
}

fn check_seccomp(profile: &str, at: &FieldPath, errs: &mut ErrorList) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix(LOCALHOST) {
        Some(path) => errs.local_descending_path(at, path),
        None => errs.invalid(at, profile, "must be a valid seccomp profile"),
    }
}

fn check_app_armor(
    name: &str,
    profile: &str,
    spec: &PodSpec,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let mut found = false;
    spec.visit(at, |container, _| found |= container.name() == name);
    if !found {
        errs.invalid(at, name, "container not found");
    }
    let fits =
        matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with(LOCALHOST);
    if !fits {
        errs.invalid(at, profile, format!("invalid AppArmor profile name: {profile:?}"));
    }
}

/// `of`: a profile's type and file; `what` it is a profile of.
fn match_profile(
    what: &str,
    note: &str,
    of: (&str, Option<&str>),
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let (ty, file) = of;
    let same = match ty {
        "Unconfined" => note == "unconfined",
        "RuntimeDefault" if note == "docker/default" => what == "seccomp",
        "RuntimeDefault" => note == "runtime/default",
        "Localhost" => note.starts_with(LOCALHOST),
        _ => true,
    };
    if !same {
        let why = format!("{what} type in annotation and field must match");
        errs.forbidden(&at.field("type"), why);
    } else if ty == "Localhost" && note.strip_prefix(LOCALHOST) != file {
        let why = format!("{what} profile in annotation and field must match");
        errs.forbidden(&at.field("localhostProfile"), why);
    }
}
