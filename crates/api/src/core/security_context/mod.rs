//! core/v1: security_context.

mod rules;
mod windows;

use macros::api;
use object::List;

pub(crate) use self::rules::Host;

#[api]
pub struct SecurityContext {
    /// Rights of the root user that are added or taken away.
    #[api(tag = 1)]
    capabilities: Option<Capabilities>,
    /// Whether it may do almost all that the node can.
    #[api(tag = 2)]
    privileged: Option<bool>,
    /// The SELinux context.
    #[api(tag = 3)]
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
    #[api(tag = 6)]
    read_only_root_filesystem: Option<bool>,
    /// Whether it can get more rights than it started with.
    #[api(tag = 7)]
    allow_privilege_escalation: Option<bool>,
    /// How much of /proc it sees.
    #[api(tag = 9, go = "v1.ProcMountType")]
    proc_mount: Option<String>,
    /// The system calls that it may make.
    #[api(tag = 11)]
    seccomp_profile: Option<SeccompProfile>,
    /// What AppArmor lets it do.
    #[api(tag = 12)]
    app_armor_profile: Option<AppArmorProfile>,
}

#[api]
pub struct Capabilities {
    #[api(tag = 1, go = "[]v1.Capability")]
    add: List<String>,
    #[api(tag = 2, go = "[]v1.Capability")]
    drop: List<String>,
}

#[api]
pub struct SeccompProfile {
    #[api(tag = 1, required, always, go = "v1.SeccompProfileType")]
    type_: String,
    #[api(tag = 2)]
    localhost_profile: Option<String>,
}

#[api]
pub struct AppArmorProfile {
    #[api(tag = 1, required, always, go = "v1.AppArmorProfileType")]
    type_: String,
    #[api(tag = 2)]
    localhost_profile: Option<String>,
}

#[api]
pub struct SELinuxOptions {
    #[api(tag = 1)]
    user: String,
    #[api(tag = 2)]
    role: String,
    #[api(tag = 3)]
    type_: String,
    #[api(tag = 4)]
    level: String,
}

#[api]
pub struct WindowsSecurityContextOptions {
    #[api(tag = 1)]
    gmsa_credential_spec_name: Option<String>,
    #[api(tag = 2)]
    gmsa_credential_spec: Option<String>,
    #[api(tag = 3)]
    run_as_user_name: Option<String>,
    #[api(tag = 4)]
    host_process: Option<bool>,
}

#[api]
pub struct PodSecurityContext {
    /// The SELinux context.
    #[api(tag = 1)]
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
    #[api(tag = 4)]
    supplemental_groups: List<i64>,
    /// Whether groups that the image names count as well.
    #[api(tag = 12, go = "v1.SupplementalGroupsPolicy")]
    supplemental_groups_policy: Option<String>,
    /// The group that owns the volumes.
    #[api(tag = 5)]
    fs_group: Option<i64>,
    /// Kernel settings of the pod.
    #[api(tag = 7)]
    sysctls: List<Sysctl>,
    /// When owners of volumes are changed.
    #[api(tag = 9, go = "v1.PodFSGroupChangePolicy")]
    fs_group_change_policy: Option<String>,
    /// The system calls that containers may make.
    #[api(tag = 10)]
    seccomp_profile: Option<SeccompProfile>,
    /// What AppArmor lets them do.
    #[api(tag = 11)]
    app_armor_profile: Option<AppArmorProfile>,
    #[api(tag = 13, go = "v1.PodSELinuxChangePolicy")]
    se_linux_change_policy: Option<String>,
}

#[api]
pub struct Sysctl {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    value: String,
}
