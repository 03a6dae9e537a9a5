//! Debugging profiles: the privileges of a debugging container.

use object::Value;

use crate::{
    error::{CommandError, Result},
    flags::ParsedFlags,
    workload::{items_mut, push},
};

/// A debugging profile: the value of `--profile`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Profile {
    Legacy,
    General,
    Baseline,
    Restricted,
    Netadmin,
    Sysadmin,
}

/// Where the debugging container runs: on a node, in a copy of a pod, or in the pod itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DebugStyle {
    Node,
    Copy,
    Ephemeral,
}

impl Profile {
    pub(super) fn of(name: &str) -> Result<Self> {
        Ok(match name {
            "legacy" => Self::Legacy,
            "general" => Self::General,
            "baseline" => Self::Baseline,
            "restricted" => Self::Restricted,
            "netadmin" => Self::Netadmin,
            "sysadmin" => Self::Sysadmin,
            other => return Err(CommandError::error(format!("unknown profile: {other}"))),
        })
    }

    /// Applies the profile to the pod and the container with this name.
    pub(super) fn apply(self, pod: &mut Value, name: &str, style: DebugStyle, flags: &ParsedFlags) {
        match self {
            Self::Legacy => {}
            Self::General if style == DebugStyle::Node => {
                each(pod, name, |container| container.remove("securityContext"));
            }
            Self::General => add_capabilities(pod, name, &["SYS_PTRACE"]),
            Self::Baseline => each(pod, name, |container| container.remove("securityContext")),
            Self::Restricted => each(pod, name, |container| {
                container["securityContext"] = object::yaml::from_yaml(
                    "{runAsNonRoot: true, capabilities: {drop: [ALL]}, allowPrivilegeEscalation: false, seccompProfile: {type: RuntimeDefault}}",
                )
                .expect("written in the code");
            }),
            Self::Netadmin => add_capabilities(pod, name, &["NET_ADMIN", "NET_RAW"]),
            Self::Sysadmin => each(pod, name, |container| {
                container["securityContext"]["privileged"] = true.into();
            }),
        }
        match style {
            DebugStyle::Node => {
                if matches!(self, Self::Legacy | Self::General | Self::Sysadmin) {
                    mount_root(pod, name);
                }
                if !matches!(self, Self::Baseline | Self::Restricted) {
                    for field in ["hostNetwork", "hostPID", "hostIPC"] {
                        pod["spec"][field] = true.into();
                    }
                }
            }
            DebugStyle::Copy => strip(pod, self, flags),
            DebugStyle::Ephemeral => {}
        }
    }
}

fn each(pod: &mut Value, name: &str, mut change: impl FnMut(&mut Value)) {
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        if pod["spec"][field].is_null() {
            continue;
        }
        for container in items_mut(&mut pod["spec"][field]) {
            if container["name"].as_str() == Some(name) {
                change(container);
            }
        }
    }
}

fn add_capabilities(pod: &mut Value, name: &str, capabilities: &[&str]) {
    each(pod, name, |container| {
        let there = &mut container["securityContext"]["capabilities"]["add"];
        for capability in capabilities {
            if !there.items().iter().any(|one| one.as_str() == Some(capability)) {
                push(there, (*capability).into());
            }
        }
    });
}

fn mount_root(pod: &mut Value, name: &str) {
    let read = |text: &str| object::yaml::from_yaml(text).expect("written in the code");
    push(&mut pod["spec"]["volumes"], read("{name: host-root, hostPath: {path: /}}"));
    each(pod, name, |container| {
        push(&mut container["volumeMounts"], read("{mountPath: /host, name: host-root}"));
    });
}

/// Removes what a copy of a pod does not keep.
fn strip(pod: &mut Value, profile: Profile, flags: &ParsedFlags) {
    if profile == Profile::Legacy || !flags.is_true("keep-labels") {
        pod["metadata"].remove("labels");
    }
    if profile == Profile::Legacy {
        return;
    }
    if !flags.is_true("keep-annotations") {
        pod["metadata"].remove("annotations");
    }
    for container in items_mut(&mut pod["spec"]["containers"]) {
        for (flag, field) in [
            ("keep-liveness", "livenessProbe"),
            ("keep-readiness", "readinessProbe"),
            ("keep-startup", "startupProbe"),
        ] {
            if !flags.is_true(flag) {
                container.remove(field);
            }
        }
    }
    if !flags.is_true("keep-init-containers") {
        pod["spec"].remove("initContainers");
    }
    if pod["spec"]["shareProcessNamespace"].is_null() {
        pod["spec"]["shareProcessNamespace"] = true.into();
    }
}
