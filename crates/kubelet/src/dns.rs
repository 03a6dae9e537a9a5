//! DNS settings of pods: resolv.conf, host name and `/etc/hosts`.

use api::core::Pod;

use crate::Config;

const MOST_SERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;
const LONGEST_NAME: usize = 63;

/// The contents of a `resolv.conf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvConf {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// The resolv.conf of a pod, according to its `dnsPolicy` and `dnsConfig`.
pub fn config(config: &Config, pod: &Pod) -> Result<ResolvConf, String> {
    let spec = pod.spec();
    let host = || parse(&std::fs::read_to_string(&config.resolv_conf).unwrap_or_default());
    let first = !config.cluster_dns.is_empty();
    let mut resolver = match spec.dns_policy() {
        "None" => ResolvConf::default(),
        "ClusterFirstWithHostNet" if first => cluster(config, pod, &host()),
        "ClusterFirst" if first && !spec.host_network() => cluster(config, pod, &host()),
        "ClusterFirst" | "ClusterFirstWithHostNet" | "Default" => host(),
        other => return Err(format!("invalid DNSPolicy={other}")),
    };
    if let Some(own) = spec.dns_config() {
        add(&mut resolver.servers, own.nameservers().iter());
        add(&mut resolver.searches, own.searches().iter());
        for option in own.options().iter() {
            let plain = |known: &String| known.split(':').next() != Some(option.name());
            resolver.options.retain(plain);
            resolver.options.push(match option.value() {
                Some(value) if !value.is_empty() => format!("{}:{value}", option.name()),
                _ => option.name().to_owned(),
            });
        }
    }
    resolver.servers.truncate(MOST_SERVERS);
    resolver.searches.truncate(MOST_SEARCHES);
    Ok(resolver)
}

/// The host name that the processes of a pod see.
pub fn hostname(config: &Config, pod: &Pod) -> String {
    let spec = pod.spec();
    let name = match override_of(pod) {
        Some(name) => name,
        None if spec.hostname().is_empty() => pod.metadata().name(),
        None => spec.hostname(),
    };
    let mut name = name.to_owned();
    name.truncate(name.floor_char_boundary(LONGEST_NAME));
    let name = name.trim_end_matches(['-', '.']).to_owned();
    match domain(config, pod) {
        Some(domain) if spec.set_hostname_as_fqdn() == Some(true) => format!("{name}.{domain}"),
        _ => name,
    }
}

/// The contents of `/etc/hosts` of a pod's containers.
pub fn etc_hosts(config: &Config, pod: &Pod, ips: &[String]) -> String {
    let mut out = if pod.spec().host_network() {
        let machine = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        format!("# Kubernetes-managed hosts file (host network).\n{machine}")
    } else {
        let mut out = "# Kubernetes-managed hosts file.\n\
            127.0.0.1\tlocalhost\n\
            ::1\tlocalhost ip6-localhost ip6-loopback\n\
            fe00::0\tip6-localnet\n\
            fe00::0\tip6-mcastprefix\n\
            fe00::1\tip6-allnodes\n\
            fe00::2\tip6-allrouters\n"
            .to_owned();
        let name = hostname(config, pod);
        let short = name.split('.').next().unwrap_or(&name).to_owned();
        for ip in ips {
            match domain(config, pod) {
                Some(domain) => out += &format!("{ip}\t{short}.{domain}\t{short}\n"),
                None => out += &format!("{ip}\t{name}\n"),
            }
        }
        out
    };
    if !pod.spec().host_aliases().is_empty() {
        out += "\n# Entries added by HostAliases.\n";
        for alias in pod.spec().host_aliases().iter() {
            let names: Vec<&str> = alias.hostnames().iter().collect();
            out += &format!("{}\t{}\n", alias.ip(), names.join("\t"));
        }
    }
    out
}

/// `spec.hostnameOverride`, which takes precedence over every other host name.
fn override_of(pod: &Pod) -> Option<&str> {
    pod.spec().hostname_override().filter(|name| !name.is_empty())
}

/// The domain of a pod's FQDN; a pod with `hostnameOverride` has none.
fn domain(config: &Config, pod: &Pod) -> Option<String> {
    let (spec, namespace) = (pod.spec(), pod.metadata().namespace());
    (!spec.subdomain().is_empty() && override_of(pod).is_none())
        .then(|| format!("{}.{namespace}.svc.{}", spec.subdomain(), config.cluster_domain))
}

fn cluster(config: &Config, pod: &Pod, host: &ResolvConf) -> ResolvConf {
    let (namespace, domain) = (pod.metadata().namespace(), &config.cluster_domain);
    let mut searches =
        vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
    add(&mut searches, host.searches.iter().map(String::as_str));
    ResolvConf {
        servers: config.cluster_dns.iter().map(ToString::to_string).collect(),
        searches,
        options: vec!["ndots:5".into()],
    }
}

fn parse(text: &str) -> ResolvConf {
    let mut out = ResolvConf::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => out.servers.extend(words.next().map(str::to_owned)),
            Some("search") => out.searches = words.map(str::to_owned).collect(),
            Some("options") => out.options.extend(words.map(str::to_owned)),
            _ => {}
        }
    }
    out
}

fn add<'a>(list: &mut Vec<String>, more: impl Iterator<Item = &'a str>) {
    for one in more {
        if !list.iter().any(|known| known == one) {
            list.push(one.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::*;

    fn node() -> Config {
        let folder = std::path::Path::new("/nowhere");
        let mut config = Config::new("node", folder.join("socket"));
        config.cluster_dns = vec![[10, 96, 0, 10].into()];
        config.resolv_conf = folder.join("resolv.conf");
        config
    }

    fn pod(spec: &str) -> Pod {
        Pod::from(
            from_yaml(&format!("metadata: {{name: p, namespace: ns}}\nspec: {{{spec}}}")).unwrap(),
        )
    }

    /// A pod of a file or of another API server may have any name.
    #[test]
    fn a_long_host_name_is_cut_between_characters() {
        let long = format!("hostname: {}", "\u{e9}".repeat(LONGEST_NAME));
        assert_eq!(hostname(&node(), &pod(&long)), "\u{e9}".repeat(LONGEST_NAME / 2));
    }

    #[test]
    fn policies_choose_the_resolver() {
        let got = config(&node(), &pod("")).unwrap();
        assert_eq!(got.servers, ["10.96.0.10"]);
        assert_eq!(got.searches, ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local"]);
        assert_eq!(got.options, ["ndots:5"]);
        let none = "dnsPolicy: None, dnsConfig: {nameservers: [1.1.1.1], searches: [x], options: [{name: ndots, value: '2'}, {name: rotate}]}";
        let got = config(&node(), &pod(none)).unwrap();
        assert_eq!((got.servers, got.searches), (vec!["1.1.1.1".into()], vec!["x".into()]));
        assert_eq!(got.options, ["ndots:2", "rotate"]);
        assert_eq!(config(&node(), &pod("hostNetwork: true")).unwrap(), ResolvConf::default());
    }

    #[test]
    fn hosts_name_the_pod_and_its_aliases() {
        let pod = pod("hostname: h, subdomain: s, hostAliases: [{ip: 1.2.3.4, hostnames: [a, b]}]");
        let got = etc_hosts(&node(), &pod, &["10.0.0.9".into()]);
        assert!(got.contains("10.0.0.9\th.s.ns.svc.cluster.local\th\n"), "{got}");
        assert!(got.ends_with("# Entries added by HostAliases.\n1.2.3.4\ta\tb\n"), "{got}");
    }

    #[test]
    fn a_name_that_overrides_has_no_domain() {
        let pod = pod("hostname: h, subdomain: s, hostnameOverride: other.name");
        assert_eq!(hostname(&node(), &pod), "other.name");
        let got = etc_hosts(&node(), &pod, &["10.0.0.9".into()]);
        assert!(got.contains("10.0.0.9\tother.name\n"), "{got}");
    }
}
