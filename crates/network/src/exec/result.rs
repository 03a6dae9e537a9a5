//! Validation of plugin results, which become part of pod status, routes and rules.

use crate::{Cidr, Error, Result};
use serde_json::Value;
use std::net::IpAddr;
use std::path::Path;

/// Maximum number of interfaces and addresses; no pod has more.
const MOST: usize = 64;
/// Maximum length of an interface name in the kernel, without the terminating byte.
const LONGEST_NAME: usize = 15;

/// The IP addresses of a result, without prefix lengths, in its order. `netns` is the pod's network namespace.
pub(super) fn addresses(result: &Value, netns: &Path) -> Result<Vec<IpAddr>> {
    let read = || -> Result<Vec<IpAddr>, String> {
        let interfaces = list(result, "interfaces")?;
        for interface in interfaces {
            check_interface(interface, netns)?;
        }
        let ips = list(result, "ips")?;
        if ips.is_empty() {
            return Err("no ips".to_owned());
        }
        ips.iter().map(|ip| address(ip, interfaces.len())).collect()
    };
    read().map_err(|why| Error::Configuration(format!("plugin result: {why}")))
}

/// An optional list.
fn list<'a>(result: &'a Value, name: &str) -> Result<&'a [Value], String> {
    match &result[name] {
        Value::Null => Ok(&[]),
        Value::Array(items) if items.len() <= MOST => Ok(items),
        Value::Array(items) => Err(format!("{} {name}", items.len())),
        _ => Err(format!("{name} is not a list")),
    }
}

fn check_interface(interface: &Value, netns: &Path) -> Result<(), String> {
    let name = interface["name"].as_str().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
        return Err(format!("{:?} is no name of an interface", cut(name)));
    }
    let sandbox = interface["sandbox"].as_str().unwrap_or_default();
    if !sandbox.is_empty() && Path::new(sandbox) != netns {
        return Err(format!("interface {name} is in {:?}, not in the pod", cut(sandbox)));
    }
    Ok(())
}

fn address(ip: &Value, interfaces: usize) -> Result<IpAddr, String> {
    let text = ip["address"].as_str().unwrap_or_default();
    let cidr: Cidr = text.parse().map_err(|_| format!("{:?} is no address", cut(text)))?;
    let wrong = match cidr.ip {
        IpAddr::V4(ip) => ip.is_broadcast() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    if wrong || cidr.ip.is_unspecified() || cidr.ip.is_loopback() || cidr.ip.is_multicast() {
        return Err(format!("{} cannot be the address of a pod", cidr.ip));
    }
    match &ip["interface"] {
        Value::Null => Ok(cidr.ip),
        number if number.as_u64().is_some_and(|at| at < interfaces as u64) => Ok(cidr.ip),
        _ => Err(format!("{} is at an interface that is not listed", cidr.ip)),
    }
}

fn cut(text: &str) -> &str {
    text.split_at(text.floor_char_boundary(64)).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn absurd_results_are_refused() {
        let netns = Path::new("/proc/7/ns/net");
        let of = |result: Value| addresses(&result, netns).map_err(|error| error.to_string());
        let good = json!({
            "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/proc/7/ns/net"}],
            "ips": [{"address": "10.1.2.3/24", "interface": 1}, {"address": "fd00::3/64"}]
        });
        assert_eq!(of(good).expect("fine").len(), 2);
        for (result, why) in [
            (json!(null), "no ips"),
            (json!([1, 2]), "no ips"),
            (json!({"ips": []}), "no ips"),
            (json!({"ips": "10.0.0.1"}), "not a list"),
            (json!({"ips": [{"address": "10.1.2.3/33"}]}), "no address"),
            (json!({"ips": [{"address": "x".repeat(100_000)}]}), "no address"),
            (json!({"ips": [{"address": 7}]}), "no address"),
            (json!({"ips": [{"address": "127.0.0.1/8"}]}), "cannot be"),
            (json!({"ips": [{"address": "0.0.0.0/0"}]}), "cannot be"),
            (json!({"ips": [{"address": "255.255.255.255/32"}]}), "cannot be"),
            (json!({"ips": [{"address": "169.254.169.254/32"}]}), "cannot be"),
            (json!({"ips": [{"address": "ff02::1/128"}]}), "cannot be"),
            (json!({"ips": [{"address": "10.0.0.1/8", "interface": 3}]}), "not listed"),
            (json!({"ips": [{"address": "10.0.0.1/8", "interface": -1}]}), "not listed"),
            (json!({"ips": vec![json!({"address": "10.0.0.1/8"}); 1000]}), "1000 ips"),
            (json!({"interfaces": [{"name": "../../etc"}]}), "no name"),
            (json!({"interfaces": [{"name": "a".repeat(16)}]}), "no name"),
            (json!({"interfaces": [{"name": "e", "sandbox": "/proc/1/ns/net"}]}), "not in the pod"),
        ] {
            let error = of(result.clone()).expect_err(why);
            assert!(error.contains(why) && error.len() < 300, "{error}");
        }
    }
}
