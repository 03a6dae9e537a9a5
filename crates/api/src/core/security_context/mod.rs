//! core/v1: security_context.

mod rules;
mod windows;

use macros::api;
use object::List;

pub(crate) use self::rules::Host;

#[api]
pub struct SecurityContext {
    #[api(tag = 1)]
    capabilities: Option<Capabilities>,
    #[api(tag = 2)]
    privileged: Option<bool>,
    #[api(tag = 3)]
    se_linux_options: Option<SELinuxOptions>,
    #[api(tag = 10)]
    windows_options: Option<WindowsSecurityContextOptions>,
    #[api(tag = 4)]
    run_as_user: Option<i64>,
    #[api(tag = 8)]
    run_as_group: Option<i64>,
    #[api(tag = 5)]
    run_as_non_root: Option<bool>,
    #[api(tag = 6)]
    read_only_root_filesystem: Option<bool>,
    #[api(tag = 7)]
    allow_privilege_escalation: Option<bool>,
    #[api(tag = 9, go = "v1.ProcMountType")]
    proc_mount: Option<String>,
    #[api(tag = 11)]
    seccomp_profile: Option<SeccompProfile>,
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
    #[api(tag = 1)]
    se_linux_options: Option<SELinuxOptions>,
    #[api(tag = 8)]
    windows_options: Option<WindowsSecurityContextOptions>,
    #[api(tag = 2)]
    run_as_user: Option<i64>,
    #[api(tag = 6)]
    run_as_group: Option<i64>,
    #[api(tag = 3)]
    run_as_non_root: Option<bool>,
    #[api(tag = 4)]
    supplemental_groups: List<i64>,
    #[api(tag = 12, go = "v1.SupplementalGroupsPolicy")]
    supplemental_groups_policy: Option<String>,
    #[api(tag = 5)]
    fs_group: Option<i64>,
    #[api(tag = 7)]
    sysctls: List<Sysctl>,
    #[api(tag = 9, go = "v1.PodFSGroupChangePolicy")]
    fs_group_change_policy: Option<String>,
    #[api(tag = 10)]
    seccomp_profile: Option<SeccompProfile>,
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
