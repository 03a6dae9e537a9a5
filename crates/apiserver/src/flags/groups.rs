//! The sections in which `--help` lists the flags: upstream's, in its order.

use clap::{Arg, Command};

/// A section and its flags; a name that ends with `-` is a prefix.
type Group = (&'static str, &'static [&'static str]);

/// The first section that matches counts; all other flags are in `Generic flags`.
const GROUPS: &[Group] = &[
    ("Generic flags", &[]),
    (
        "Etcd flags",
        &[
            "delete-collection-workers",
            "enable-garbage-collector",
            "encryption-",
            "etcd-",
            "lease-reuse-",
            "storage-backend",
            "storage-media-type",
            "watch-cache",
            "watch-cache-",
        ],
    ),
    (
        "Secure serving flags",
        &["bind-address", "cert-dir", "disable-http2-", "http2-", "permit-", "secure-port", "tls-"],
    ),
    ("Auditing flags", &["audit-"]),
    (
        "Features flags",
        &["contention-profiling", "debug-socket-", "enable-priority-and-fairness", "profiling"],
    ),
    (
        "Authentication flags",
        &[
            "anonymous-auth",
            "api-audiences",
            "authentication-",
            "basic-auth-file",
            "client-ca-file",
            "enable-bootstrap-token-auth",
            "oidc-",
            "requestheader-",
            "service-account-extend-",
            "service-account-issuer",
            "service-account-jwks-",
            "service-account-key-",
            "service-account-lookup",
            "service-account-max-",
            "token-auth-file",
        ],
    ),
    ("Authorization flags", &["authorization-"]),
    ("API enablement flags", &["runtime-config"]),
    ("Egress selector flags", &["egress-"]),
    ("Admission flags", &["admission-", "default-", "disable-admission-", "enable-admission-"]),
    ("Metrics flags", &["allow-metric-", "disabled-metrics", "show-hidden-metrics-"]),
    ("Logs flags", &["log-", "logging-", "v", "vmodule"]),
    ("Traces flags", &["tracing-"]),
    (
        "Misc flags",
        &[
            "aggregator-",
            "allow-privileged",
            "coordinated-",
            "data-dir",
            "enable-aggregator-",
            "enable-logs-",
            "endpoint-",
            "event-ttl",
            "kubelet-",
            "kubernetes-",
            "max-connection-",
            "peer-",
            "proxy-client-",
            "service-account-signing-",
            "service-cluster-",
            "service-node-",
        ],
    ),
    ("Global flags", &["version"]),
];

/// A copy of the command whose help lists the flags in sections.
pub fn grouped(command: &Command) -> Command {
    let mut flags: Vec<(usize, Arg)> =
        command.get_arguments().map(|flag| (group(&long(flag)), flag.clone())).collect();
    flags.sort_by_key(|(group, flag)| (*group, long(flag)));
    let flags = flags.into_iter().map(|(group, flag)| flag.help_heading(GROUPS[group].0));
    Command::new("kube-apiserver").args(flags.enumerate().map(|(at, flag)| flag.display_order(at)))
}

fn long(flag: &Arg) -> String {
    flag.get_long().unwrap_or_default().to_owned()
}

fn group(name: &str) -> usize {
    let fits = |begin: &&str| match begin.ends_with('-') {
        true => name.starts_with(begin),
        false => name == *begin,
    };
    GROUPS.iter().position(|(_, begins)| begins.iter().any(fits)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;
    use crate::Flags;

    #[test]
    fn flags_are_where_upstream_shows_them() {
        for (name, wanted) in [
            ("advertise-address", "Generic"),
            ("runtime-config-emulation-forward-compatible", "Generic"),
            ("runtime-config", "API enablement"),
            ("etcd-count-metric-poll-period", "Etcd"),
            ("watch-cache-sizes", "Etcd"),
            ("storage-initialization-timeout", "Generic"),
            ("service-account-signing-key-file", "Misc"),
            ("service-account-key-file", "Authentication"),
            ("vmodule", "Logs"),
            ("version", "Global"),
            ("disable-http2-serving", "Secure serving"),
        ] {
            assert_eq!(GROUPS[group(name)].0, format!("{wanted} flags"), "{name}");
        }
        let help = grouped(&Flags::augment_args(Command::new("kube-apiserver"))).render_help();
        let help = help.to_string();
        let at = |heading: &str| help.find(&format!("{heading} flags:")).expect("it has flags");
        assert!(at("Generic") < at("Etcd") && at("Etcd") < at("Auditing"));
        assert!(at("Auditing") < at("Misc") && at("Misc") < at("Global"));
    }
}
