//! The checks of the Pod Security Standards. Each reports its violations in upstream's words.

use std::collections::BTreeSet;

use object::{ObjectMeta, Value};

use super::{
    policy::{Level, LevelVersion},
    violation::{Violation, containers, describe_setters, list, plural, quoted},
};

/// A pod as the checks see it; `minor` is the version of the policy.
struct Pod<'a> {
    meta: &'a ObjectMeta,
    spec: &'a Value,
    containers: Vec<&'a Value>,
    minor: u32,
}

/// A check; `None` if the pod passes it.
type Check = fn(&Pod) -> Option<Violation>;

/// The baseline checks in the order in which they are reported, each with the first minor version
/// that has it.
const BASELINE: &[(u32, Check)] = &[
    (0, app_armor),
    (0, capabilities),
    (0, host_namespaces),
    (0, host_path),
    (0, host_ports),
    (34, hosts),
    (0, privileged),
    (0, proc_mount),
    (0, se_linux),
    (0, seccomp),
    (0, sysctls),
    (0, windows_host_process),
];
/// Baseline checks that a stricter check replaces at the restricted level, from this minor version
/// on.
const OVERRIDDEN_BASELINE: &[(u32, Check)] =
    &[(22, capabilities), (0, host_path), (35, proc_mount), (19, seccomp)];
const RESTRICTED: &[(u32, Check)] = &[
    (8, escalation),
    (22, unrestricted_capabilities),
    (35, any_proc_mount),
    (0, volume_types),
    (0, non_root),
    (23, root_user),
    (19, seccomp_needed),
];

/// The checks of the level and version that the pod violates.
pub(super) fn violations(rules: LevelVersion, meta: &ObjectMeta, spec: &Value) -> Vec<Violation> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let containers = lists.iter().flat_map(|list| spec.get(list).items()).collect();
    let pod = Pod { meta, spec, containers, minor: rules.version() };
    let since = |entry: &&(u32, Check)| entry.0 <= pod.minor;
    let replaced = |check: &Check| {
        rules.level == Level::Restricted
            && OVERRIDDEN_BASELINE
                .iter()
                .filter(since)
                .any(|(_, own)| std::ptr::fn_addr_eq(*own, *check))
    };
    let mut checks: Vec<Check> = Vec::new();
    if rules.level >= Level::Baseline {
        let all = BASELINE.iter().filter(since).map(|(_, check)| *check);
        checks.extend(all.filter(|check| !replaced(check)));
    }
    if rules.level == Level::Restricted {
        checks.extend(RESTRICTED.iter().filter(since).map(|(_, check)| *check));
    }
    checks.iter().filter_map(|check| check(&pod)).collect()
}

impl Pod<'_> {
    fn security(&self) -> &Value {
        self.spec.get("securityContext")
    }

    /// The names of the containers for which `bad` is true.
    fn containers_where(&self, bad: impl Fn(&Value) -> bool) -> Vec<&str> {
        let bad = self.containers.iter().filter(|container| bad(container));
        bad.map(|container| text(container, "name")).collect()
    }

    fn is_windows(&self) -> bool {
        text(self.spec.get("os"), "name") == "windows"
    }

    /// Whether the pod has its own user namespace, in which root has no rights on the host.
    fn has_own_users(&self) -> bool {
        self.minor >= 35 && self.spec.get("hostUsers").as_bool() == Some(false)
    }
}

fn text<'a>(tree: &'a Value, name: &str) -> &'a str {
    tree.get(name).as_str().unwrap_or_default()
}

fn security(container: &Value) -> &Value {
    container.get("securityContext")
}

fn strings(tree: &Value) -> impl Iterator<Item = &str> {
    tree.items().iter().filter_map(Value::as_str)
}

fn app_armor(pod: &Pod) -> Option<Violation> {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let mut values = BTreeSet::new();
    let mut bad = |security: &Value| {
        let profile = security.get("appArmorProfile");
        let ty = text(profile, "type");
        let bad = profile.is_object() && !matches!(ty, "RuntimeDefault" | "Localhost");
        if bad {
            values.insert(ty.to_owned());
        }
        bad
    };
    let by_pod = bad(pod.security());
    let mut by = Vec::new();
    for container in &pod.containers {
        if bad(security(container)) {
            by.push(text(container, "name"));
        }
    }
    let allowed = |value: &str| {
        value.is_empty() || value == "runtime/default" || value.starts_with("localhost/")
    };
    let annotations: BTreeSet<String> = pod
        .meta
        .annotations()
        .iter()
        .filter(|(key, value)| key.starts_with(PREFIX) && !allowed(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    let mut setters = describe_setters(by_pod, &by);
    if !annotations.is_empty() {
        let word = plural(annotations.len(), "annotation", "annotations");
        setters =
            if setters.is_empty() { word.to_owned() } else { format!("{setters} and {word}") };
    }
    if setters.is_empty() {
        return None;
    }
    let values: Vec<String> = values.into_iter().chain(annotations).collect();
    let reason = plural(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles");
    let values = quoted(values.iter().map(String::as_str));
    Violation::new(reason, format!("{setters} must not set AppArmor profile type to {values}"))
}

fn added(pod: &Pod, allowed: &[&str]) -> (Vec<String>, BTreeSet<String>) {
    let mut found = BTreeSet::new();
    let mut names = Vec::new();
    for container in &pod.containers {
        let add = strings(security(container).get("capabilities").get("add"));
        let bad: Vec<_> = add.filter(|name| !allowed.contains(name)).collect();
        if !bad.is_empty() {
            names.push(text(container, "name").to_owned());
        }
        found.extend(bad.into_iter().map(str::to_owned));
    }
    (names, found)
}

fn capabilities(pod: &Pod) -> Option<Violation> {
    const DEFAULT: &[&str] = &[
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    let (names, found) = added(pod, DEFAULT);
    if names.is_empty() {
        return None;
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (who, what) = (containers(&names), list(&found));
    let detail = format!("{who} must not include {what} in securityContext.capabilities.add");
    Violation::new("non-default capabilities", detail)
}

fn host_namespaces(pod: &Pod) -> Option<Violation> {
    let all = ["hostNetwork", "hostPID", "hostIPC"].iter();
    let set = all.filter(|name| pod.spec.get(name).as_bool() == Some(true));
    let set: Vec<_> = set.map(|name| format!("{name}=true")).collect();
    if set.is_empty() { None } else { Violation::new("host namespaces", set.join(", ")) }
}

fn host_path(pod: &Pod) -> Option<Violation> {
    let volumes = pod.spec.get("volumes").items().iter();
    let bad = volumes.filter(|volume| volume.get("hostPath").is_object());
    let bad: Vec<_> = bad.map(|volume| text(volume, "name")).collect();
    if bad.is_empty() {
        return None;
    }
    let word = plural(bad.len(), "volume", "volumes");
    Violation::new("hostPath volumes", format!("{word} {}", quoted(bad)))
}

fn host_ports(pod: &Pod) -> Option<Violation> {
    let ports = |container: &Value| -> Vec<i64> {
        let ports = container.get("ports").items().iter();
        ports.filter_map(|port| port.get("hostPort").as_i64()).filter(|port| *port != 0).collect()
    };
    let bad = pod.containers_where(|container| !ports(container).is_empty());
    if bad.is_empty() {
        return None;
    }
    let found: BTreeSet<String> = pod
        .containers
        .iter()
        .flat_map(|container| ports(container))
        .map(|port| port.to_string())
        .collect();
    let (uses, word) =
        (plural(bad.len(), "uses", "use"), plural(found.len(), "hostPort", "hostPorts"));
    let found = found.into_iter().collect::<Vec<_>>().join(", ");
    Violation::new("hostPort", format!("{} {uses} {word} {found}", containers(&bad)))
}

fn hosts(pod: &Pod) -> Option<Violation> {
    let named = |container: &Value| -> Vec<String> {
        let lifecycle = container.get("lifecycle");
        let handlers = [
            container.get("livenessProbe"),
            container.get("readinessProbe"),
            container.get("startupProbe"),
            lifecycle.get("postStart"),
            lifecycle.get("preStop"),
        ];
        let hosts = handlers.iter().flat_map(|handler| {
            ["httpGet", "tcpSocket"].map(|way| text(handler.get(way), "host").to_owned())
        });
        hosts.filter(|host| !host.is_empty()).collect()
    };
    let mut bad = pod.containers_where(|container| !named(container).is_empty());
    if bad.is_empty() {
        return None;
    }
    bad.sort_unstable();
    bad.dedup();
    let found: BTreeSet<String> =
        pod.containers.iter().flat_map(|container| named(container)).collect();
    let (who, uses) = (containers(&bad), plural(bad.len(), "uses", "use"));
    let word = plural(found.len(), "probe or lifecycle host", "probe or lifecycle hosts");
    Violation::new("probe or lifecycle host", format!("{who} {uses} {word} {}", list(&found)))
}

fn privileged(pod: &Pod) -> Option<Violation> {
    let bad = pod.containers_where(|c| security(c).get("privileged").as_bool() == Some(true));
    if bad.is_empty() {
        return None;
    }
    let who = containers(&bad);
    Violation::new("privileged", format!("{who} must not set securityContext.privileged=true"))
}

fn proc_mount(pod: &Pod) -> Option<Violation> {
    if pod.has_own_users() { None } else { any_proc_mount(pod) }
}

fn any_proc_mount(pod: &Pod) -> Option<Violation> {
    let mount = |container: &Value| {
        let mount = security(container).get("procMount").as_str().map(str::to_owned);
        mount.filter(|mount| mount != "Default")
    };
    let bad = pod.containers_where(|container| mount(container).is_some());
    if bad.is_empty() {
        return None;
    }
    let found: BTreeSet<String> = pod.containers.iter().filter_map(|c| mount(c)).collect();
    let (who, found) = (containers(&bad), list(&found));
    Violation::new("procMount", format!("{who} must not set securityContext.procMount to {found}"))
}

fn se_linux(pod: &Pod) -> Option<Violation> {
    let allowed = |ty: &str| {
        matches!(ty, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || (ty == "container_engine_t" && pod.minor >= 31)
    };
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let mut bad = |security: &Value| {
        let options = security.get("seLinuxOptions");
        let ty = text(options, "type");
        let other = !allowed(ty);
        if other {
            types.insert(ty.to_owned());
        }
        let (has_user, has_role) =
            (!text(options, "user").is_empty(), !text(options, "role").is_empty());
        user |= has_user;
        role |= has_role;
        other || has_user || has_role
    };
    let by_pod = bad(pod.security());
    let mut by = Vec::new();
    for container in &pod.containers {
        if bad(security(container)) {
            by.push(text(container, "name"));
        }
    }
    if !by_pod && by.is_empty() {
        return None;
    }
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", plural(types.len(), "type", "types"), list(&types)));
    }
    if user {
        data.push("user may not be set".to_owned());
    }
    if role {
        data.push("role may not be set".to_owned());
    }
    let (who, data) = (describe_setters(by_pod, &by), data.join("; "));
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {data}");
    Violation::new("seLinuxOptions", detail)
}

/// The type of the seccomp profile; `None` if there is no profile.
fn profile(security: &Value) -> Option<&str> {
    let profile = security.get("seccompProfile");
    profile.is_object().then(|| text(profile, "type"))
}

fn seccomp(pod: &Pod) -> Option<Violation> {
    if pod.minor < 19 {
        return seccomp_annotations(pod);
    }
    let bad = |security: &Value| {
        profile(security).is_some_and(|ty| !matches!(ty, "Localhost" | "RuntimeDefault"))
    };
    let by_pod = bad(pod.security());
    let by = pod.containers_where(|container| bad(security(container)));
    if !by_pod && by.is_empty() {
        return None;
    }
    let all = std::iter::once(pod.security())
        .chain(pod.containers.iter().map(|container| security(container)));
    let values: BTreeSet<String> =
        all.filter(|one| bad(one)).filter_map(profile).map(str::to_owned).collect();
    let (who, values) = (describe_setters(by_pod, &by), list(&values));
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {values}");
    Violation::new("seccompProfile", detail)
}

fn seccomp_annotations(pod: &Pod) -> Option<Violation> {
    let allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let of = |container: &&Value| {
        format!("container.seccomp.security.alpha.kubernetes.io/{}", text(container, "name"))
    };
    let keys = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_owned())
        .chain(pod.containers.iter().map(of));
    let bad: BTreeSet<String> = keys
        .filter_map(|key| {
            let value = pod.meta.annotations().get(&key)?;
            (!allowed(value)).then(|| format!("{key}={value:?}"))
        })
        .collect();
    if bad.is_empty() {
        return None;
    }
    let word = plural(bad.len(), "annotation", "annotations");
    let bad = bad.into_iter().collect::<Vec<_>>().join(", ");
    Violation::new("seccompProfile", format!("forbidden {word} {bad}"))
}

fn sysctls(pod: &Pod) -> Option<Violation> {
    const SAFE: &[(u32, &str)] = &[
        (0, "kernel.shm_rmid_forced"),
        (0, "net.ipv4.ip_local_port_range"),
        (0, "net.ipv4.tcp_syncookies"),
        (0, "net.ipv4.ping_group_range"),
        (0, "net.ipv4.ip_unprivileged_port_start"),
        (27, "net.ipv4.ip_local_reserved_ports"),
        (29, "net.ipv4.tcp_keepalive_time"),
        (29, "net.ipv4.tcp_fin_timeout"),
        (29, "net.ipv4.tcp_keepalive_intvl"),
        (29, "net.ipv4.tcp_keepalive_probes"),
        (32, "net.ipv4.tcp_rmem"),
        (32, "net.ipv4.tcp_wmem"),
        (37, "net.ipv4.tcp_slow_start_after_idle"),
        (37, "net.ipv4.tcp_notsent_lowat"),
    ];
    let safe = |name: &str| SAFE.iter().any(|(since, own)| *own == name && *since <= pod.minor);
    let all = pod.security().get("sysctls").items().iter().map(|sysctl| text(sysctl, "name"));
    let bad: Vec<_> = all.filter(|name| !safe(name)).collect();
    if bad.is_empty() { None } else { Violation::new("forbidden sysctls", bad.join(", ")) }
}

fn windows_host_process(pod: &Pod) -> Option<Violation> {
    let bad = |security: &Value| {
        security.get("windowsOptions").get("hostProcess").as_bool() == Some(true)
    };
    let by_pod = bad(pod.security());
    let by = pod.containers_where(|container| bad(security(container)));
    if !by_pod && by.is_empty() {
        return None;
    }
    let who = describe_setters(by_pod, &by);
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    Violation::new("hostProcess", detail)
}

fn escalation(pod: &Pod) -> Option<Violation> {
    if pod.minor >= 25 && pod.is_windows() {
        return None;
    }
    let bad = pod
        .containers_where(|c| security(c).get("allowPrivilegeEscalation").as_bool() != Some(false));
    if bad.is_empty() {
        return None;
    }
    let detail =
        format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&bad));
    Violation::new("allowPrivilegeEscalation != false", detail)
}

fn unrestricted_capabilities(pod: &Pod) -> Option<Violation> {
    if pod.minor >= 25 && pod.is_windows() {
        return None;
    }
    let keeps = pod.containers_where(|container| {
        !strings(security(container).get("capabilities").get("drop")).any(|name| name == "ALL")
    });
    let (adds, found) = added(pod, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeps.is_empty() {
        let who = containers(&keeps);
        details.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adds.is_empty() {
        let who = containers(&adds.iter().map(String::as_str).collect::<Vec<_>>());
        let found = list(&found);
        details.push(format!("{who} must not include {found} in securityContext.capabilities.add"));
    }
    if details.is_empty() {
        return None;
    }
    Violation::new("unrestricted capabilities", details.join("; "))
}

fn volume_types(pod: &Pod) -> Option<Violation> {
    const ALLOWED: &[&str] = &[
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    let ty = |volume: &Value| -> Option<String> {
        let mut types =
            volume.entries().filter(|(name, value)| *name != "name" && value.is_object());
        let types: Vec<&str> = types.by_ref().map(|(name, _)| name).collect();
        if types.iter().any(|name| ALLOWED.contains(name)) {
            return None;
        }
        Some(types.first().copied().unwrap_or("unknown").to_owned())
    };
    let volumes = pod.spec.get("volumes").items();
    let bad: Vec<&str> =
        volumes.iter().filter(|v| ty(v).is_some()).map(|v| text(v, "name")).collect();
    if bad.is_empty() {
        return None;
    }
    let types: BTreeSet<String> = volumes.iter().filter_map(ty).collect();
    let detail = format!(
        "{} {} {} {} {}",
        plural(bad.len(), "volume", "volumes"),
        quoted(bad.iter().copied()),
        plural(bad.len(), "uses", "use"),
        plural(types.len(), "restricted volume type", "restricted volume types"),
        list(&types)
    );
    Violation::new("restricted volume types", detail)
}

fn non_root(pod: &Pod) -> Option<Violation> {
    if pod.has_own_users() {
        return None;
    }
    let said = |security: &Value| security.get("runAsNonRoot").as_bool();
    let reason = "runAsNonRoot != true";
    let of_pod = said(pod.security());
    let no = pod.containers_where(|container| said(security(container)) == Some(false));
    if of_pod == Some(false) || !no.is_empty() {
        let who = describe_setters(of_pod == Some(false), &no);
        return Violation::new(
            reason,
            format!("{who} must not set securityContext.runAsNonRoot=false"),
        );
    }
    let silent = pod.containers_where(|container| said(security(container)).is_none());
    if of_pod == Some(true) || silent.is_empty() {
        return None;
    }
    let who = containers(&silent);
    Violation::new(reason, format!("pod or {who} must set securityContext.runAsNonRoot=true"))
}

fn root_user(pod: &Pod) -> Option<Violation> {
    if pod.has_own_users() {
        return None;
    }
    let is_root = |security: &Value| security.get("runAsUser").as_i64() == Some(0);
    let by_pod = is_root(pod.security());
    let by = pod.containers_where(|container| is_root(security(container)));
    if !by_pod && by.is_empty() {
        return None;
    }
    Violation::new(
        "runAsUser=0",
        format!("{} must not set runAsUser=0", describe_setters(by_pod, &by)),
    )
}

fn seccomp_needed(pod: &Pod) -> Option<Violation> {
    if pod.minor >= 25 && pod.is_windows() {
        return None;
    }
    if let Some(broken) = seccomp(pod) {
        return Some(broken);
    }
    if profile(pod.security()).is_some() {
        return None;
    }
    let silent = pod.containers_where(|container| profile(security(container)).is_none());
    if silent.is_empty() {
        return None;
    }
    let who = containers(&silent);
    let detail = format!(
        "pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
         \"Localhost\""
    );
    Violation::new("seccompProfile", detail)
}

#[cfg(test)]
mod tests {
    use object::{Object, View, from_json};

    use super::{
        super::violation::{detailed, plain},
        *,
    };

    fn broken(level: Level, minor: Option<u32>, pod: &str) -> String {
        let pod = from_json(pod.as_bytes()).unwrap();
        let meta = Object::view(&pod).metadata();
        detailed(&violations(LevelVersion { level, minor }, meta, pod.get("spec")))
    }

    #[test]
    fn a_bare_pod_is_baseline_but_not_restricted() {
        let pod = r#"{"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
        assert_eq!(broken(Level::Baseline, None, pod), "");
        assert_eq!(
            broken(Level::Restricted, None, pod),
            "allowPrivilegeEscalation != false (container \"c\" must set \
             securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \
             \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod \
             or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or \
             container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
             \"Localhost\")"
        );
        assert_eq!(broken(Level::Privileged, None, pod), "");
    }

    #[test]
    fn versions_have_the_rules_of_their_time() {
        let pod = r#"{"spec":{"containers":[{"name":"c"}],"securityContext":{"sysctls":[
            {"name":"net.ipv4.tcp_rmem","value":"1"}]}}}"#;
        assert_eq!(broken(Level::Baseline, None, pod), "");
        assert_eq!(broken(Level::Baseline, Some(31), pod), "forbidden sysctls (net.ipv4.tcp_rmem)");
    }

    #[test]
    fn a_stricter_rule_stands_for_the_laxer() {
        let pod = r#"{"spec":{"containers":[],"volumes":[{"name":"v","hostPath":{"path":"/"}}]}}"#;
        assert_eq!(broken(Level::Baseline, None, pod), "hostPath volumes (volume \"v\")");
        assert_eq!(
            broken(Level::Restricted, None, pod),
            "restricted volume types (volume \"v\" uses restricted volume type \"hostPath\")"
        );
        assert_eq!(plain(&[]), "");
    }
}
