//! The files `resolv.conf`, `hostname` and `hosts` of a sandbox.

use std::{fmt::Write as _, fs, io, path::Path};

use crate::cri::DnsConfig;

/// Writes `resolv.conf`, `hostname` and `hosts` into the directory of a sandbox.
pub(crate) fn write(
    folder: &Path,
    hostname: &str,
    dns: Option<&DnsConfig>,
    host_network: bool,
) -> io::Result<()> {
    let resolv = match dns {
        Some(dns) => resolv_conf(dns),
        None => fs::read_to_string("/etc/resolv.conf").unwrap_or_default(),
    };
    fs::write(folder.join("resolv.conf"), resolv)?;
    fs::write(folder.join("hostname"), format!("{hostname}\n"))?;
    let hosts = if host_network { fs::read_to_string("/etc/hosts").ok() } else { None };
    fs::write(folder.join("hosts"), hosts.unwrap_or_else(|| HOSTS.to_owned()))
}

const HOSTS: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

fn resolv_conf(dns: &DnsConfig) -> String {
    let mut text = String::new();
    if !dns.searches.is_empty() {
        let _ = writeln!(text, "search {}", dns.searches.join(" ")); // strings take everything
    }
    for server in &dns.servers {
        let _ = writeln!(text, "nameserver {server}");
    }
    if !dns.options.is_empty() {
        let _ = writeln!(text, "options {}", dns.options.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolv_conf_in_order() {
        let dns = DnsConfig {
            servers: vec!["10.0.0.10".into()],
            searches: vec!["a".into(), "b".into()],
            options: vec!["ndots:5".into()],
        };
        assert_eq!(resolv_conf(&dns), "search a b\nnameserver 10.0.0.10\noptions ndots:5\n");
    }
}
