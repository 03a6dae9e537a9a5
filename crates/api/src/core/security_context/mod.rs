//! core/v1: security_context.

mod rules;
mod windows;

use macros::api;
use object::List;

pub(crate) use self::rules::HostNamespaces;

#[api]
pub struct SecurityContext {
    /// Linux capabilities to add or drop.
    capabilities: Option<Capabilities>,
    /// Whether the container is privileged, which makes it nearly equivalent to root on the node.
    privileged: Option<bool>,
    /// SELinux context of the container.
    se_linux_options: Option<SELinuxOptions>,
    /// Settings of Windows containers.
    #[api(tag = 10)]
    windows_options: Option<WindowsSecurityContextOptions>,
    /// User ID that the container runs as. Defaults to that of the image.
    #[api(tag = 4)]
    run_as_user: Option<i64>,
    /// Primary group ID that the container runs as.
    #[api(tag = 8)]
    run_as_group: Option<i64>,
    /// Whether the kubelet refuses to run the container as user ID 0.
    #[api(tag = 5)]
    run_as_non_root: Option<bool>,
    /// Whether the root file system of the container is read-only.
    read_only_root_filesystem: Option<bool>,
    /// Whether a process can gain more privileges than its parent. False sets no_new_privs.
    allow_privilege_escalation: Option<bool>,
    /// How /proc is mounted: Default (masked) or Unmasked.
    #[api(tag = 9, go_type = "v1.ProcMountType", enum_values("Default", "Unmasked"))]
    proc_mount: Option<String>,
    /// Seccomp profile, which limits the system calls.
    #[api(tag = 11)]
    seccomp_profile: Option<SeccompProfile>,
    /// AppArmor profile.
    app_armor_profile: Option<AppArmorProfile>,
}

#[api]
pub struct Capabilities {
    /// Capabilities to add, such as NET_ADMIN.
    #[api(go_type = "[]v1.Capability")]
    add: List<String>,
    /// Capabilities to drop, such as ALL.
    #[api(go_type = "[]v1.Capability")]
    drop: List<String>,
}

#[api]
pub struct SeccompProfile {
    /// Source of the profile: RuntimeDefault, Localhost (a file of the node) or Unconfined.
    #[api(go_type = "v1.SeccompProfileType", discriminator)]
    #[api(enum_values("Localhost", "RuntimeDefault", "Unconfined"))]
    type_: Must<String>,
    /// Path of the profile, relative to the kubelet's seccomp folder.
    #[api(union)]
    localhost_profile: Option<String>,
}

#[api]
pub struct AppArmorProfile {
    /// RuntimeDefault, Localhost or Unconfined.
    #[api(go_type = "v1.AppArmorProfileType", discriminator)]
    #[api(enum_values("Localhost", "RuntimeDefault", "Unconfined"))]
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
    /// SELinux context of all containers.
    se_linux_options: Option<SELinuxOptions>,
    /// Settings of Windows containers.
    #[api(tag = 8)]
    windows_options: Option<WindowsSecurityContextOptions>,
    /// User ID that the containers run as. Defaults to that of the image.
    #[api(tag = 2)]
    run_as_user: Option<i64>,
    /// Primary group ID that the containers run as.
    #[api(tag = 6)]
    run_as_group: Option<i64>,
    /// Whether the kubelet refuses to run containers as user ID 0.
    #[api(tag = 3)]
    run_as_non_root: Option<bool>,
    /// Additional group IDs of the first process of each container.
    supplemental_groups: List<i64>,
    /// Whether groups of the image count as well: Merge (default) or Strict.
    #[api(tag = 12, go_type = "v1.SupplementalGroupsPolicy", enum_values("Merge", "Strict"))]
    supplemental_groups_policy: Option<String>,
    /// Group ID that owns the volumes, so that all containers can write to them.
    #[api(tag = 5)]
    fs_group: Option<i64>,
    /// Namespaced kernel parameters of the pod.
    #[api(tag = 7)]
    sysctls: List<Sysctl>,
    /// When the ownership of volumes is changed: Always (default) or OnRootMismatch.
    #[api(tag = 9, go_type = "v1.PodFSGroupChangePolicy", enum_values("Always", "OnRootMismatch"))]
    fs_group_change_policy: Option<String>,
    /// Seccomp profile of the containers, which limits their system calls.
    seccomp_profile: Option<SeccompProfile>,
    /// AppArmor profile of the containers.
    app_armor_profile: Option<AppArmorProfile>,
    /// How volumes are labelled: MountOption (default) or Recursive.
    #[api(tag = 13, go_type = "v1.PodSELinuxChangePolicy")]
    se_linux_change_policy: Option<String>,
}

#[api]
pub struct Sysctl {
    /// Name of the kernel parameter.
    name: Must<String>,
    /// Value of the kernel parameter.
    value: Must<String>,
}
