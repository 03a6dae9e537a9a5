//! The rules that depend on the operating system.

use schema::{ErrorList, FieldPath};

use super::PodSpec;
use crate::core::{PodSecurityContext, SecurityContext, WindowsSecurityContextOptions};

const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";
const NOT_ON_LINUX: &str = "windows options cannot be set for a linux pod";

pub(super) fn check_os(spec: &PodSpec, at: &FieldPath, errs: &mut ErrorList) {
    match spec.os().map(super::PodOS::name) {
        None => {}
        Some("") => errs.required(&at.field("os").field("name"), ""),
        Some("linux") => check_linux(spec, at, errs),
        Some("windows") => check_windows(spec, at, errs),
        Some(other) => errs.not_supported(&at.field("os"), other, &["linux", "windows"]),
    }
}

/// Processes of the host itself, on Windows: all containers are such, or none.
pub(super) fn check_host_process(spec: &PodSpec, at: &FieldPath, errs: &mut ErrorList) {
    let says = |options: Option<&WindowsSecurityContextOptions>| {
        options.and_then(WindowsSecurityContextOptions::host_process)
    };
    let of_pod = says(spec.security_context().and_then(PodSecurityContext::windows_options));
    let (mut all, mut of_host) = (0, 0);
    spec.visit(at, |container, at| {
        all += 1;
        let own = says(container.security_context().and_then(SecurityContext::windows_options));
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let at = at.field("securityContext");
            let why = format!(
                "pod hostProcess value must be identical if both are specified, was {of_pod}"
            );
            errs.invalid(&at.field("windowsOptions").field("hostProcess"), own, why);
        }
        of_host += usize::from(own.or(of_pod) == Some(true));
    });
    if of_host == 0 {
        return;
    }
    if of_host != all {
        let why = "If pod contains any hostProcess containers then all containers must be \
                   HostProcess containers";
        errs.invalid(at, "", why);
    }
    if !spec.host_network() {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errs.invalid(&at.field("hostNetwork"), false, why);
    }
}

fn check_linux(spec: &PodSpec, at: &FieldPath, errs: &mut ErrorList) {
    if spec.security_context().is_some_and(|context| context.windows_options().is_some()) {
        errs.forbidden(&at.field("securityContext").field("windowsOptions"), NOT_ON_LINUX);
    }
    spec.visit(at, |container, at| {
        let context = container.security_context();
        if context.is_some_and(|context| context.windows_options().is_some()) {
            errs.forbidden(&at.field("securityContext").field("windowsOptions"), NOT_ON_LINUX);
        }
    });
}

fn check_windows(spec: &PodSpec, at: &FieldPath, errs: &mut ErrorList) {
    if let Some(context) = spec.security_context() {
        let at = at.field("securityContext");
        forbid(context, &POD_FIELDS, &at, errs);
    }
    for (name, set) in [
        ("hostUsers", spec.host_users().is_some()),
        ("hostPID", spec.host_pid()),
        ("hostIPC", spec.host_ipc()),
        ("shareProcessNamespace", spec.share_process_namespace().is_some()),
    ] {
        if set {
            errs.forbidden(&at.field(name), NOT_ON_WINDOWS);
        }
    }
    spec.visit(at, |container, at| {
        if let Some(context) = container.security_context() {
            forbid(context, &CONTAINER_FIELDS, &at.field("securityContext"), errs);
        }
    });
}

const POD_FIELDS: [&str; 11] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
const CONTAINER_FIELDS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

fn forbid(context: &impl object::Lens, fields: &[&str], at: &FieldPath, errs: &mut ErrorList) {
    for name in fields {
        if !context.tree().get(name).is_null() {
            errs.forbidden(&at.field(name), NOT_ON_WINDOWS);
        }
    }
}
