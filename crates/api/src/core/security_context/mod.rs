//! core/v1: security_context.

mod rules;
mod windows;

use macros::api;
use object::List;

pub(crate) use self::rules::Host;

#[api]
pub struct SecurityContext {
    /// Rights of the root user that are added or taken away.
    capabilities: Option<Capabilities>,
    /// Whether it may do almost all that the node can.
    privileged: Option<bool>,
    /// The SELinux context.
    se_linux_options: Option<SELinuxOptions>,
    /// What holds on Windows.
    #[api(tag = 10)]
    windows_options: Option<WindowsSecurityContextOptions>,
    /// The user that it runs as.
    #[api(tag = 4)]
    run_as_user: Option<i64>,
    /// The group that it runs as.
    #[api(tag = 8)]
    run_as_group: Option<i64>,
    /// Whether running as root is refused.
    #[api(tag = 5)]
    run_as_non_root: Option<bool>,
    /// Whether its own files cannot be changed.
    read_only_root_filesystem: Option<bool>,
    /// Whether it can get more rights than it started with.
    allow_privilege_escalation: Option<bool>,
    /// How much of /proc it sees.
    #[api(tag = 9, go = "v1.ProcMountType", values("Default", "Unmasked"))]
    proc_mount: Option<String>,
    /// The system calls that it may make.
    #[api(tag = 11)]
    seccomp_profile: Option<SeccompProfile>,
    /// What AppArmor lets it do.
    app_armor_profile: Option<AppArmorProfile>,
}

#[api]
pub struct Capabilities {
    /// Those that it gets.
    #[api(go = "[]v1.Capability")]
    add: List<String>,
    /// Those that it loses.
    #[api(go = "[]v1.Capability")]
    drop: List<String>,
}

#[api]
pub struct SeccompProfile {
    /// RuntimeDefault, Localhost or Unconfined.
    #[api(go = "v1.SeccompProfileType", discriminator)]
    #[api(values("Localhost", "RuntimeDefault", "Unconfined"))]
    type_: Must<String>,
    /// The profile's file on the node.
    #[api(union)]
    localhost_profile: Option<String>,
}

#[api]
pub struct AppArmorProfile {
    /// RuntimeDefault, Localhost or Unconfined.
    #[api(go = "v1.AppArmorProfileType", discriminator)]
    #[api(values("Localhost", "RuntimeDefault", "Unconfined"))]
    type_: Must<String>,
    /// The profile's name on the node.
    #[api(union)]
    localhost_profile: Option<String>,
}

#[api]
pub struct SELinuxOptions {
    /// The user of the label.
    user: String,
    /// The role of the label.
    role: String,
    /// The type of the label.
    type_: String,
    /// The level of the label.
    level: String,
}

#[api]
pub struct WindowsSecurityContextOptions {
    /// The name of the managed account's specification.
    gmsa_credential_spec_name: Option<String>,
    /// The managed account's specification.
    gmsa_credential_spec: Option<String>,
    /// The user to run as.
    run_as_user_name: Option<String>,
    /// Whether it runs on the host itself.
    host_process: Option<bool>,
}

#[api]
pub struct PodSecurityContext {
    /// The SELinux context.
    se_linux_options: Option<SELinuxOptions>,
    /// What holds on Windows.
    #[api(tag = 8)]
    windows_options: Option<WindowsSecurityContextOptions>,
    /// The user that containers run as.
    #[api(tag = 2)]
    run_as_user: Option<i64>,
    /// The group that containers run as.
    #[api(tag = 6)]
    run_as_group: Option<i64>,
    /// Whether running as root is refused.
    #[api(tag = 3)]
    run_as_non_root: Option<bool>,
    /// Further groups.
    supplemental_groups: List<i64>,
    /// Whether groups that the image names count as well.
    #[api(tag = 12, go = "v1.SupplementalGroupsPolicy", values("Merge", "Strict"))]
    supplemental_groups_policy: Option<String>,
    /// The group that owns the volumes.
    #[api(tag = 5)]
    fs_group: Option<i64>,
    /// Kernel settings of the pod.
    #[api(tag = 7)]
    sysctls: List<Sysctl>,
    /// When owners of volumes are changed.
    #[api(tag = 9, go = "v1.PodFSGroupChangePolicy", values("Always", "OnRootMismatch"))]
    fs_group_change_policy: Option<String>,
    /// The system calls that containers may make.
    seccomp_profile: Option<SeccompProfile>,
    /// What AppArmor lets them do.
    app_armor_profile: Option<AppArmorProfile>,
    /// How volumes get their label: MountOption or Recursive.
    #[api(tag = 13, go = "v1.PodSELinuxChangePolicy")]
    se_linux_change_policy: Option<String>,
}

#[api]
pub struct Sysctl {
    /// The name of the setting.
    name: Must<String>,
    /// Its value.
    value: Must<String>,
}
