//! Proxies from the environment variables `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, in upper or lower case.

use std::{net::IpAddr, sync::LazyLock};

use object::names::sloppy_cidr;

use crate::{Error, Proxy};

/// The environment of this process.
static OURS: LazyLock<ProxyEnv> = LazyLock::new(|| {
    #[expect(clippy::disallowed_methods, reason = "read once for the whole process")]
    let read = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let either = |name: &str| read(name).or_else(|| read(&name.to_lowercase()));
    ProxyEnv {
        https: either("HTTPS_PROXY").unwrap_or_default(),
        http: either("HTTP_PROXY").unwrap_or_default(),
        no_proxy: either("NO_PROXY").unwrap_or_default(),
    }
});

/// The proxy variables of an environment.
#[derive(Debug, Default)]
pub(crate) struct ProxyEnv {
    https: String,
    http: String,
    /// The servers that are reached without a proxy, separated by commas.
    no_proxy: String,
}

impl ProxyEnv {
    pub(crate) fn from_process() -> &'static Self {
        &OURS
    }

    /// The proxy for a server, if any.
    pub(crate) fn proxy(&self, tls: bool, host: &str, port: u16) -> Result<Option<Proxy>, Error> {
        let url = if tls { &self.https } else { &self.http };
        if url.is_empty() || self.bypasses(&host.to_lowercase(), port) {
            return Ok(None);
        }
        let whole = if url.contains("://") { url.clone() } else { format!("http://{url}") };
        Proxy::parse(&whole).map(Some)
    }

    /// Whether a server is reached directly; loopback addresses always are.
    fn bypasses(&self, host: &str, port: u16) -> bool {
        let address: Option<IpAddr> = host.parse().ok();
        host == "localhost"
            || address.is_some_and(|address| address.is_loopback())
            || self.no_proxy.split(',').any(|one| covers(one.trim(), host, address, port))
    }
}

/// Whether an entry of `NO_PROXY` matches a server: `*`, an IP, a CIDR, or a domain with its subdomains (`.name`: only
/// the subdomains), optionally with a port.
fn covers(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if let Some(range) = sloppy_cidr(entry) {
        return address.is_some_and(|address| holds(range, address));
    }
    let entry = entry.to_lowercase();
    let (name, wanted) = match entry.rsplit_once(':') {
        Some((name, digits)) if !name.contains(':') || name.ends_with(']') => {
            (name, digits.parse().ok())
        }
        _ => (&*entry, None),
    };
    let name = name.trim_matches(['[', ']']);
    if name.is_empty() || wanted.is_some_and(|wanted: u16| wanted != port) {
        return false;
    }
    let below = name.trim_start_matches('*');
    match (name, name.parse::<IpAddr>()) {
        ("*", _) => true,
        (_, Ok(one)) => address == Some(one),
        _ if below.starts_with('.') => host.ends_with(below),
        _ => host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')),
    }
}

/// Whether a CIDR contains an address.
fn holds((first, length): (IpAddr, u8), address: IpAddr) -> bool {
    let alike = match (first, address) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => return false,
    };
    alike >= u32::from(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_proxies() {
        let around = ProxyEnv {
            https: "proxy:3128".into(),
            http: String::new(),
            no_proxy: "10.96.0.0/12, .inside, example.com,*.wild, [fd00::1]:6443, one:1".into(),
        };
        let through = |host: &str| around.proxy(true, host, 6443).unwrap().is_some();
        for host in ["api", "inside", "notexample.com", "wild", "10.112.0.1", "fd00::2", "one"] {
            assert!(through(host), "{host}");
        }
        let direct = ["localhost", "127.0.0.9", "::1", "10.96.0.1", "a.inside", "example.com"];
        for host in direct.into_iter().chain(["API.Example.com", "a.wild", "fd00::1"]) {
            assert!(!through(host), "{host}");
        }
        assert!(around.proxy(false, "api", 80).unwrap().is_none());
        let all = ProxyEnv { no_proxy: "*".into(), ..around };
        assert!(all.proxy(true, "api", 443).unwrap().is_none());
        let wrong = ProxyEnv { https: "ftp://x".into(), ..ProxyEnv::default() };
        assert!(wrong.proxy(true, "api", 443).is_err());
    }
}
