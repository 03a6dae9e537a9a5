//! The CRI configuration of a container.

use std::{
    collections::HashMap,
    path::{Component, Path, PathBuf},
};

use api::core::{Container as Spec, Pod, SeccompProfile};
use container::cri::{
    Capability, ContainerConfig, ContainerMetadata, Image, ImageSpec, Int64Value, KeyValue,
    LinuxContainerConfig, LinuxContainerSecurityContext, Mount, NamespaceMode, SecurityProfile,
    Signal, SupplementalGroupsPolicy, security_profile::ProfileType,
};

use super::{plan::hash, sandbox};
use crate::{cgroup, env::expand_all, runtime::labels};

const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// PATH_MAX of the kernel.
const LONGEST_PATH: usize = 4096;

/// Inputs of a container's configuration other than its spec.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainerInputs {
    pub(crate) env: Vec<(String, String)>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) image: Image,
    pub(crate) restarts: i32,
    pub(crate) machine_memory: i64,
    /// Directory of the node's seccomp profiles (`Localhost`).
    pub(crate) seccomp: PathBuf,
    /// Whether containers without a seccomp profile get the runtime's default.
    pub(crate) seccomp_default: bool,
    /// Id of the container whose PID namespace an ephemeral container joins.
    pub(crate) target: Option<String>,
}

/// This file exists only where the kernel enforces SELinux labels.
const SELINUX: &str = "/sys/fs/selinux/enforce";

/// The CRI configuration of a container; or why it cannot be started.
pub(crate) fn config(
    pod: &Pod,
    spec: &Spec,
    parts: ContainerInputs,
) -> Result<ContainerConfig, String> {
    check_user(pod, spec, &parts.image)?;
    let variables: HashMap<&str, &str> =
        parts.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expanded = |what: &str, list: &object::List<String>| {
        let words = expand_all(list.iter(), |name| variables.get(name).copied());
        words.map_err(|error| format!("{what}: {error}"))
    };
    if spec.termination_message_path().len() > LONGEST_PATH {
        return Err(format!("terminationMessagePath is longer than {LONGEST_PATH} bytes"));
    }
    let mut all_labels = sandbox::identity(pod);
    all_labels.insert(labels::CONTAINER.into(), spec.name().into());
    let restarts = parts.restarts;
    let annotations = [
        (labels::HASH, hash(spec)),
        (labels::RESTARTS, restarts.to_string()),
        ("io.kubernetes.container.terminationMessagePath", spec.termination_message_path().into()),
        (
            "io.kubernetes.container.terminationMessagePolicy",
            spec.termination_message_policy().into(),
        ),
        (
            "io.kubernetes.pod.terminationGracePeriod",
            pod.spec().termination_grace_period_seconds().to_string(),
        ),
    ];
    Ok(ContainerConfig {
        metadata: Some(ContainerMetadata {
            name: spec.name().into(),
            attempt: restarts.try_into().unwrap_or_default(),
        }),
        image: Some(ImageSpec {
            image: parts.image.id.clone(),
            user_specified_image: spec.image().into(),
            ..ImageSpec::default()
        }),
        command: expanded("command", spec.command())?,
        args: expanded("args", spec.args())?,
        working_dir: spec.working_dir().into(),
        envs: parts
            .env
            .iter()
            .map(|(key, value)| KeyValue { key: key.clone(), value: value.clone().into() })
            .collect(),
        mounts: parts.mounts,
        labels: all_labels,
        annotations: annotations.map(|(name, value)| (name.to_owned(), value)).into(),
        log_path: format!("{}/{restarts}.log", spec.name()),
        stdin: spec.stdin(),
        stdin_once: spec.stdin_once(),
        tty: spec.tty(),
        linux: Some(LinuxContainerConfig {
            resources: Some(cgroup::resources(pod, spec, parts.machine_memory)),
            security_context: Some(security(
                pod,
                spec,
                parts.target,
                (&parts.seccomp, parts.seccomp_default),
            )?),
        }),
        stop_signal: stop_signal(spec)?.into(),
        ..ContainerConfig::default()
    })
}

fn stop_signal(spec: &Spec) -> Result<Signal, String> {
    match spec.lifecycle().and_then(|lifecycle| lifecycle.stop_signal()) {
        None => Ok(Signal::RuntimeDefault),
        Some(name) => Signal::from_str_name(&format!(
            "SIGNAL_{}",
            name.replace('+', "PLUS").replace("MAX-", "MAXMINUS")
        ))
        .ok_or_else(|| format!("the signal {name:?} is not known")),
    }
}

/// Enforces `runAsNonRoot`.
fn check_user(pod: &Pod, spec: &Spec, image: &Image) -> Result<(), String> {
    let (own, all) = (spec.security_context(), pod.spec().security_context());
    let must = own.and_then(api::core::SecurityContext::run_as_non_root);
    let must = must.or(all.and_then(api::core::PodSecurityContext::run_as_non_root));
    if must != Some(true) {
        return Ok(());
    }
    let user = own
        .and_then(api::core::SecurityContext::run_as_user)
        .or(all.and_then(api::core::PodSecurityContext::run_as_user));
    let place = format!(
        "(pod: \"{}_{}({})\", container: {})",
        pod.metadata().name(),
        pod.metadata().namespace(),
        pod.metadata().uid(),
        spec.name()
    );
    match (user, &image.uid, &*image.username) {
        (Some(0), ..) => Err(format!("container's runAsUser breaks non-root policy {place}")),
        (Some(_), ..) => Ok(()),
        (None, Some(uid), _) if uid.value != 0 => Ok(()),
        (None, None, name) if !name.is_empty() => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root {place}"
        )),
        (None, ..) => Err(format!("container has runAsNonRoot and image will run as root {place}")),
    }
}

fn security(
    pod: &Pod,
    spec: &Spec,
    target: Option<String>,
    (profiles, confine): (&Path, bool),
) -> Result<LinuxContainerSecurityContext, String> {
    let (own, all) = (spec.security_context(), pod.spec().security_context());
    let armor = own.and_then(|own| own.app_armor_profile());
    let armor = armor.or(all.and_then(|all| all.app_armor_profile()));
    if armor.is_some_and(|profile| profile.type_() == "Localhost") {
        return Err("Cannot enforce AppArmor: profiles of the host are not supported".into());
    }
    let labels = own.and_then(|own| own.se_linux_options());
    if labels.or(all.and_then(|all| all.se_linux_options())).is_some()
        && Path::new(SELINUX).exists()
    {
        return Err("SELinux labels are not supported, and this machine enforces them".into());
    }
    let privileged = own.and_then(api::core::SecurityContext::privileged) == Some(true);
    let id = |own: Option<i64>, all: Option<i64>| own.or(all).map(|value| Int64Value { value });
    let run_as_user = id(
        own.and_then(api::core::SecurityContext::run_as_user),
        all.and_then(api::core::PodSecurityContext::run_as_user),
    );
    let run_as_group = id(
        own.and_then(api::core::SecurityContext::run_as_group),
        all.and_then(api::core::PodSecurityContext::run_as_group),
    );
    let mut namespaces = sandbox::namespaces(pod);
    if let Some(target) = target {
        namespaces.pid = NamespaceMode::Target.into();
        namespaces.target_id = target;
    }
    let unmasked = own.and_then(|own| own.proc_mount()) == Some("Unmasked");
    let paths = |list: &[&str]| -> Vec<String> {
        if privileged || unmasked { Vec::new() } else { list.iter().map(|p| (*p).into()).collect() }
    };
    let mut masked_paths = paths(&MASKED);
    if !masked_paths.is_empty() {
        masked_paths.extend(thermal_throttle(Path::new("/sys/devices/system/cpu")));
    }
    let capabilities = own.and_then(|own| own.capabilities()).map(|capabilities| Capability {
        add_capabilities: capabilities.add().iter().map(str::to_owned).collect(),
        drop_capabilities: capabilities.drop().iter().map(str::to_owned).collect(),
        ..Capability::default()
    });
    let profile =
        own.and_then(|own| own.seccomp_profile()).or(all.and_then(|all| all.seccomp_profile()));
    let mut groups: Vec<i64> =
        all.map(|all| all.supplemental_groups().iter().collect()).unwrap_or_default();
    groups.extend(all.and_then(api::core::PodSecurityContext::fs_group));
    let strict = all.and_then(|all| all.supplemental_groups_policy()) == Some("Strict");
    Ok(LinuxContainerSecurityContext {
        capabilities,
        privileged,
        namespace_options: Some(namespaces),
        run_as_user,
        run_as_group,
        readonly_rootfs: own.and_then(api::core::SecurityContext::read_only_root_filesystem)
            == Some(true),
        supplemental_groups: groups,
        supplemental_groups_policy: if strict {
            SupplementalGroupsPolicy::Strict.into()
        } else {
            SupplementalGroupsPolicy::Merge.into()
        },
        no_new_privs: own.and_then(api::core::SecurityContext::allow_privilege_escalation)
            == Some(false),
        masked_paths,
        readonly_paths: paths(&READ_ONLY),
        seccomp: Some(if privileged { unconfined() } else { seccomp(profile, profiles, confine)? }),
        ..LinuxContainerSecurityContext::default()
    })
}

/// The files by which each CPU counts how often it was too hot: they show what others on the node do.
fn thermal_throttle(cpus: &Path) -> Vec<String> {
    let number =
        |name: &str| name.strip_prefix("cpu").and_then(|number| number.parse::<u32>().ok());
    let entries = std::fs::read_dir(cpus).into_iter().flatten().flatten();
    let cpus = entries.filter(|entry| entry.file_name().to_str().and_then(number).is_some());
    let folders = cpus.map(|cpu| cpu.path().join("thermal_throttle")).filter(|path| path.exists());
    folders.map(|path| path.to_string_lossy().into_owned()).collect()
}

fn unconfined() -> SecurityProfile {
    SecurityProfile { profile_type: ProfileType::Unconfined.into(), localhost_ref: String::new() }
}

/// The seccomp profile of a container. With `confine`, a container that names none gets the runtime's default.
fn seccomp(
    profile: Option<&SeccompProfile>,
    folder: &Path,
    confine: bool,
) -> Result<SecurityProfile, String> {
    let kind = match profile.map(api::core::SeccompProfile::type_) {
        None if confine => ProfileType::RuntimeDefault,
        None | Some("Unconfined") => return Ok(unconfined()),
        Some("RuntimeDefault") => ProfileType::RuntimeDefault,
        Some("Localhost") => ProfileType::Localhost,
        Some(other) => return Err(format!("the seccomp profile type {other:?} is not known")),
    };
    let file = profile.and_then(|profile| profile.localhost_profile()).unwrap_or_default();
    let file = match kind {
        ProfileType::Localhost if file.is_empty() => {
            return Err("localhostProfile must be set if seccompProfile type is Localhost.".into());
        }
        ProfileType::Localhost => {
            let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
            if !Path::new(file).components().all(plain) {
                return Err(format!("the seccomp profile {file:?} is not below the node's"));
            }
            folder.join(file).to_string_lossy().into_owned()
        }
        _ => String::new(),
    };
    Ok(SecurityProfile { profile_type: kind.into(), localhost_ref: file })
}

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::*;

    fn made(spec: &str, image: Image) -> Result<ContainerConfig, String> {
        let pod = Pod::from(from_yaml(&format!("spec: {{containers: [{spec}]}}")).unwrap());
        let container = pod.spec().containers().iter().next().unwrap().clone();
        let env = vec![("A".to_owned(), "1".to_owned())];
        let seccomp = "/node/seccomp".into();
        config(
            &pod,
            &container,
            ContainerInputs { env, image, seccomp, ..ContainerInputs::default() },
        )
    }

    /// CVE-2023-2431: a Localhost profile without a name must not mean Unconfined.
    #[test]
    fn a_seccomp_profile_of_the_node_has_a_name_and_is_one_of_its_own() {
        let with = |file: &str| {
            let profile = format!("{{type: Localhost, localhostProfile: {file}}}");
            made(
                &format!("{{name: a, securityContext: {{seccompProfile: {profile}}}}}"),
                Image::default(),
            )
        };
        for bad in ["''", "null", "/etc/profile", "../x", "a/../../x"] {
            assert!(with(bad).is_err(), "{bad}");
        }
        let security = with("mine/a.json").unwrap().linux.unwrap().security_context.unwrap();
        assert_eq!(security.seccomp.unwrap().localhost_ref, "/node/seccomp/mine/a.json");
    }

    /// CVE-2019-11245: a restarted container runs as the same user as the first.
    #[test]
    fn the_user_is_the_same_at_every_start() {
        let spec = "{name: a, securityContext: {runAsUser: 7, runAsGroup: 8, runAsNonRoot: true}}";
        let pod = Pod::from(from_yaml(&format!("spec: {{containers: [{spec}]}}")).unwrap());
        let container = pod.spec().containers().iter().next().unwrap().clone();
        for restarts in 0..3 {
            let image = Image { uid: Some(Int64Value { value: 0 }), ..Image::default() };
            let parts = ContainerInputs { image, restarts, ..ContainerInputs::default() };
            let made = config(&pod, &container, parts).unwrap();
            let security = made.linux.unwrap().security_context.unwrap();
            let value = |id: Option<Int64Value>| id.map(|id| id.value);
            assert_eq!(
                (value(security.run_as_user), value(security.run_as_group)),
                (Some(7), Some(8))
            );
        }
    }

    #[test]
    fn root_is_refused_where_it_must_not_be() {
        let uid = |value| Image { uid: Some(Int64Value { value }), ..Image::default() };
        let named = Image { username: "web".into(), ..Image::default() };
        let must = "{name: a, securityContext: {runAsNonRoot: true}}";
        assert!(made(must, uid(0)).unwrap_err().contains("image will run as root"));
        assert!(made(must, named.clone()).unwrap_err().contains("non-numeric user (web)"));
        made(must, uid(7)).unwrap();
        made("{name: a, securityContext: {runAsNonRoot: true, runAsUser: 7}}", named).unwrap();
    }

    #[test]
    fn counters_of_hot_processors_are_masked() {
        let folder = tempfile::tempdir().unwrap();
        for name in
            ["cpu0/thermal_throttle", "cpu12/thermal_throttle", "cpu3", "cpufreq/thermal_throttle"]
        {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let mut found = thermal_throttle(folder.path());
        found.sort();
        let path =
            |cpu: &str| folder.path().join(cpu).join("thermal_throttle").display().to_string();
        assert_eq!(found, [path("cpu0"), path("cpu12")]);
        assert!(thermal_throttle(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn what_cannot_be_enforced_is_refused() {
        let with = |kind: &str| {
            format!("{{name: a, securityContext: {{appArmorProfile: {{type: {kind}}}}}}}")
        };
        assert!(made(&with("Localhost"), Image::default()).unwrap_err().contains("AppArmor"));
        made(&with("RuntimeDefault"), Image::default()).unwrap();
    }

    #[test]
    fn words_expand_and_rights_are_passed_on() {
        let text = "{name: a, command: [x, '$(A)'], securityContext: {capabilities: {add: [NET_ADMIN]}, allowPrivilegeEscalation: false, seccompProfile: {type: RuntimeDefault}}}";
        let got = made(text, Image::default()).unwrap();
        assert_eq!(got.command, ["x", "1"]);
        let security = got.linux.unwrap().security_context.unwrap();
        assert_eq!(security.capabilities.unwrap().add_capabilities, ["NET_ADMIN"]);
        assert!(security.no_new_privs && !security.masked_paths.is_empty());
        let profile = security.seccomp.unwrap().profile_type();
        assert_eq!(profile, ProfileType::RuntimeDefault);
    }
}
