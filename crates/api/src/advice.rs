//! What is said about values that are taken, but should not be as they are.

use std::net::IpAddr;

use object::{Map, ObjectMeta, Quantity, names};
use schema::{FieldPath, WarningList};

use crate::generation::changed;

/// Labels of nodes that have been given up, and what to do instead.
const OLD_NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

pub(crate) trait CommonWarnings {
    /// An address that is not in its one right form.
    fn ip(&mut self, at: &FieldPath, text: &str);
    /// The same, of a range of addresses.
    fn cidr(&mut self, at: &FieldPath, text: &str);
    /// The amount of what is counted in bytes, which come whole.
    fn fractional_bytes(&mut self, at: &FieldPath, amounts: &Map<Quantity>, name: &str);
    /// A name that pods are made from must be a DNS label, since they are hosts.
    fn hostname(&mut self, name: &str, used_in: &str);
    /// The same of a new object that pods are named by; and whether it is looked at further,
    /// since its pods are others.
    fn pod_owner_name(&mut self, meta: &ObjectMeta, old: Option<&ObjectMeta>) -> bool;
}

impl CommonWarnings for WarningList {
    fn pod_owner_name(&mut self, meta: &ObjectMeta, old: Option<&ObjectMeta>) -> bool {
        if old.is_none() {
            self.hostname(meta.name(), "Pod names and hostnames");
        }
        changed(meta, old)
    }

    fn ip(&mut self, at: &FieldPath, text: &str) {
        let Some(address) = names::sloppy_ip(text) else { return };
        match text.parse::<IpAddr>() {
            Ok(IpAddr::V6(strict)) if strict.to_ipv4_mapped().is_none() => {
                if strict.to_string() != text {
                    let right = strict.to_string();
                    self.push_at(
                        at,
                        format!(
                            "IPv6 address {text:?} should be in RFC 5952 canonical format \
                             ({right:?})"
                        ),
                    );
                }
            }
            Ok(IpAddr::V4(_)) => {}
            _ => {
                let right = address.to_string();
                self.push_at(
                    at,
                    format!("non-standard IP address {text:?} is invalid: use {right:?}"),
                );
            }
        }
    }

    fn cidr(&mut self, at: &FieldPath, text: &str) {
        let Some((address, length)) = names::sloppy_cidr(text) else { return };
        let mapped = text.contains(':') && address.is_ipv4();
        let length = if mapped { length.saturating_sub(96) } else { length };
        let range = names::network_address(address, length);
        let right = format!("{range}/{length}");
        let mut odd = false;
        if range != address {
            let whole = if address.is_ipv4() { 32 } else { 128 };
            let single = format!("{address}/{whole}");
            self.push_at(
                at,
                format!(
                    "CIDR value {text:?} is ambiguous in this context (should be {right:?} or \
                     {single:?}?)"
                ),
            );
            odd = true;
        }
        let (left, bits) = text.split_once('/').unwrap_or((text, ""));
        let strict =
            left.parse::<IpAddr>().ok().filter(|_| bits.len() < 2 || !bits.starts_with('0'));
        match strict.filter(|_| !mapped) {
            None => {
                self.push_at(
                    at,
                    format!("non-standard CIDR value {text:?} is invalid: use {right:?}"),
                );
            }
            Some(IpAddr::V6(_)) if !odd && right != text => self.push_at(
                at,
                format!(
                    "IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({right:?})"
                ),
            ),
            Some(_) => {}
        }
    }

    fn fractional_bytes(&mut self, at: &FieldPath, amounts: &Map<Quantity>, name: &str) {
        if let Some(amount) = amounts.get(name)
            && !amount.is_integer()
        {
            let amount = amount.to_string();
            self.push_at(
                &at.key(name),
                format!("fractional byte value {amount:?} is invalid, must be an integer"),
            );
        }
    }

    fn hostname(&mut self, name: &str, used_in: &str) {
        let wrong = names::dns1123_label(name);
        if !wrong.is_empty() {
            self.push(format!(
                "metadata.name: this is used in {used_in}, which can result in surprising \
                 behavior; a DNS label is recommended: [{}]",
                wrong.join(" ")
            ));
        }
    }
}

/// What to do instead of using this label of nodes.
pub(crate) fn deprecated_node_label(label: &str) -> Option<&'static str> {
    OLD_NODE_LABELS.iter().find(|(old, _)| *old == label).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(say: impl FnOnce(&mut WarningList)) -> Vec<String> {
        let mut warnings = WarningList::default();
        say(&mut warnings);
        warnings.0
    }

    #[test]
    fn odd_addresses_are_told() {
        let at = FieldPath::Root.field("ip");
        let ip = |text: &str| said(|w| w.ip(&at, text));
        assert!(ip("10.0.0.1").is_empty() && ip("::1").is_empty() && ip("x").is_empty());
        assert_eq!(
            ip("010.0.0.1"),
            ["ip: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\""]
        );
        let found = ip("2001:DB8::1");
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with("canonical format (\"2001:db8::1\")"), "{found:?}");
    }

    #[test]
    fn odd_ranges_are_told() {
        let at = FieldPath::Root.field("cidr");
        let cidr = |text: &str| said(|w| w.cidr(&at, text));
        assert!(cidr("10.0.0.0/8").is_empty());
        let found = cidr("10.0.0.1/8");
        assert!(found[0].ends_with("(should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)"), "{found:?}");
        assert_eq!(cidr("010.0.0.0/8").len(), 1);
    }
}
