//! Sysctls that pods may set: the safe ones, and those of `--allowed-unsafe-sysctls`.

use api::core::Pod;

/// Safe sysctls: namespaced, and without effect on other pods or the node.
const SAFE: [&str; 14] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
];
/// Sysctls of the IPC namespace: names, and prefixes of names.
const OF_IPC: [&str; 10] = [
    "kernel.sem",
    "kernel.shm",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
];
const LONGEST: usize = 253;
const PATTERN: &str = "([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]";

/// The kernel namespace that isolates a sysctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    Ipc,
    Net,
    Uts,
    User,
}

/// The sysctls that pods may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowlist(Vec<Allowed>);

/// An allowed sysctl, or a prefix of allowed ones.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Allowed {
    name: String,
    /// Whether `name` is a prefix: all sysctls that begin with it are allowed.
    is_prefix: bool,
    namespace: Namespace,
}

impl Allowlist {
    /// The safe sysctls and the given ones: names, or prefixes followed by `*`.
    pub fn new<S: AsRef<str>>(unsafe_patterns: &[S]) -> Result<Self, String> {
        let patterns = SAFE.into_iter().chain(unsafe_patterns.iter().map(AsRef::as_ref));
        patterns.map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Why the pod may not set one of its sysctls; the first violation.
    pub(crate) fn refusal(&self, pod: &Pod) -> Option<String> {
        let spec = pod.spec();
        let context = spec.security_context()?;
        context.sysctls().iter().find_map(|sysctl| {
            let name = normalize(sysctl.name());
            let fits = |one: &&Allowed| match one.is_prefix {
                true => name.starts_with(&one.name),
                false => name == one.name,
            };
            let exact = |one: &&Allowed| !one.is_prefix;
            let all = || self.0.iter().filter(fits);
            let Some(allowed) = all().find(exact).or_else(|| all().next()) else {
                return Some(format!("{name:?} not allowlisted"));
            };
            let shared = match allowed.namespace {
                Namespace::Net if spec.host_network() => "Net",
                Namespace::Ipc if spec.host_ipc() => "IPC",
                Namespace::User if spec.host_users() != Some(false) => "User",
                _ => return None,
            };
            Some(format!("{name:?} not allowed with host {shared} enabled"))
        })
    }
}

impl Default for Allowlist {
    #[expect(clippy::expect_used, reason = "the safe settings are constants, and tests use them")]
    fn default() -> Self {
        Self::new::<&str>(&[]).expect("the safe settings are namespaced")
    }
}

fn parse(pattern: &str) -> Result<Allowed, String> {
    if !is_pattern(pattern) {
        return Err(format!(
            "sysctl {pattern:?} must have at most {LONGEST} characters and match regex {PATTERN}"
        ));
    }
    let name = normalize(pattern);
    let (name, is_prefix) = match name.split_once('*') {
        Some((prefix, _)) => (prefix.to_owned(), true),
        None => (name, false),
    };
    let namespace = match &*name {
        "kernel.domainname" => Some(Namespace::Uts),
        own if OF_IPC.contains(&own) || own.starts_with("fs.mqueue.") => Some(Namespace::Ipc),
        own if own.starts_with("net.") => Some(Namespace::Net),
        own if own.starts_with("user.") => Some(Namespace::User),
        _ => None,
    };
    match namespace {
        Some(namespace) => Ok(Allowed { name, is_prefix, namespace }),
        None => Err(format!("the sysctls {name:?} are not known to be namespaced")),
    }
}

/// Whether a pattern has the form of a sysctl name; the last segment may end with `*`.
fn is_pattern(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.into_iter().all(|end| end.is_some_and(|byte| inner(*byte)))
            && bytes.iter().all(|byte| inner(*byte) || b"-_".contains(byte))
    };
    let (before, last) = text.rsplit_once(['.', '/']).unwrap_or(("", text));
    let is_last = match last.strip_suffix('*') {
        Some("") => true,
        Some(start) => {
            start.bytes().next().is_some_and(inner)
                && start.bytes().all(|byte| inner(byte) || b"-_".contains(&byte))
        }
        None => is_segment(last),
    };
    let first = text.len() == last.len() || before.split(['.', '/']).all(is_segment);
    text.len() <= LONGEST && first && is_last
}

/// The name with dots as separators. Where slashes are the separators, dots stand for slashes in a segment:
/// `net/ipv4/conf/eth0.100/forwarding`.
fn normalize(name: &str) -> String {
    if name.chars().find(|letter| matches!(letter, '.' | '/')) != Some('/') {
        return name.to_owned();
    }
    let swap = |letter| match letter {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(swap).collect()
}

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::*;

    fn refusal(allowed: &[&str], spec: &str, name: &str) -> Option<String> {
        let spec = format!(
            "{{spec: {{{spec} securityContext: {{sysctls: [{{name: {name}, value: '1'}}]}}}}}}"
        );
        Allowlist::new(allowed).unwrap().refusal(&Pod::from(from_yaml(&spec).unwrap()))
    }

    #[test]
    fn only_allowed_settings_pass() {
        assert_eq!(refusal(&[], "", "net.ipv4.tcp_rmem"), None);
        assert_eq!(refusal(&[], "", "net/ipv4/tcp_rmem"), None);
        let not_listed = |name: &str| Some(format!("{name:?} not allowlisted"));
        assert_eq!(refusal(&[], "", "kernel.msgmax"), not_listed("kernel.msgmax"));
        let allowed = ["kernel.msg*", "net.core.somaxconn", "net/ipv4/conf/eth0.5/*"];
        for name in ["kernel.msgmax", "net/core/somaxconn", "net.ipv4.conf.eth0/5.forwarding"] {
            assert_eq!(refusal(&allowed, "", name), None, "{name}");
        }
        for name in ["net.core.somaxconn2", "kernel.sem", "net.ipv4.conf.eth1/5.forwarding"] {
            assert_eq!(refusal(&allowed, "", name), not_listed(name));
        }
    }

    #[test]
    fn settings_of_the_hosts_own_namespaces_are_refused() {
        let with_host =
            |name: &str, shared| Some(format!("{name:?} not allowed with host {shared} enabled"));
        let allowed = ["kernel.msg*", "net.core.*", "user.*", "kernel.domainname"];
        let net = "net.core.somaxconn";
        assert_eq!(refusal(&allowed, "hostNetwork: true,", net), with_host(net, "Net"));
        assert_eq!(refusal(&allowed, "hostIPC: true,", net), None);
        let ipc = "kernel.msgmax";
        assert_eq!(refusal(&allowed, "hostIPC: true,", ipc), with_host(ipc, "IPC"));
        let user = "user.max_user_namespaces";
        assert_eq!(refusal(&allowed, "", user), with_host(user, "User"));
        assert_eq!(refusal(&allowed, "hostUsers: false,", user), None);
        assert_eq!(refusal(&allowed, "hostNetwork: true,", "kernel.domainname"), None);
    }

    #[test]
    fn patterns_that_are_no_names_or_concern_the_machine_are_refused() {
        let refused = |pattern: &str| Allowlist::new(&[pattern]).unwrap_err();
        for pattern in ["", ".", "net..a", "net.*.a", "Net.a", "net.a*b", "net.-a", "-*", "net.a-"]
        {
            let error = refused(pattern);
            assert!(error.contains("must have at most 253 characters"), "{pattern}: {error}");
        }
        assert!(refused(&format!("net.{}", "a".repeat(250))).contains("at most 253"));
        for pattern in ["vm.swappiness", "kernel.*", "*", "net*", "fs.file-max", "kernel.panic"] {
            let error = refused(pattern);
            assert!(error.ends_with("are not known to be namespaced"), "{pattern}: {error}");
        }
    }
}
