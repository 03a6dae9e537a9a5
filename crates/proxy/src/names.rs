//! Names of a service's chains and sets, the same as upstream's, so that users and tools recognize
//! them.

use crate::{Endpoint, Protocol, ServiceName};
use ring::digest::{SHA256, digest};

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const MAX_NAME_LENGTH: usize = 240;

/// The name of a service port: HASH-namespace/service/protocol/port
pub(crate) fn service_port_name(service: &ServiceName, protocol: Protocol, port: &str) -> String {
    hashed(&plain(service, protocol, port))
}

/// The name of an endpoint: HASH-namespace/service/protocol/port__ip/port
pub(crate) fn endpoint_name(
    service: &ServiceName,
    protocol: Protocol,
    port: &str,
    endpoint: &Endpoint,
) -> String {
    let ip = endpoint.ip.to_string().replace(':', ".");
    hashed(&format!("{}__{ip}/{}", plain(service, protocol, port), endpoint.port))
}

fn plain(service: &ServiceName, protocol: Protocol, port: &str) -> String {
    format!("{}/{}/{}/{port}", service.namespace, service.name, protocol.name())
}

/// Prefixes a name with a hash of it, so that it stays unique if it is truncated.
fn hashed(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 9);
    let hash = digest(&SHA256, name.as_bytes());
    let bits = hash.as_ref().iter().take(5).fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    for at in (0..8).rev() {
        let five = usize::from((bits >> (at * 5)).to_le_bytes()[0] & 31);
        text.extend(ALPHABET.get(five).copied().map(char::from));
    }
    text.push('-');
    text.push_str(name);
    if text.len() > MAX_NAME_LENGTH {
        text.truncate(text.floor_char_boundary(MAX_NAME_LENGTH - 3));
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_upstream() {
        let name = ServiceName { namespace: "ns1".to_owned(), name: "svc1".to_owned() };
        assert_eq!(service_port_name(&name, Protocol::Tcp, "p80"), "ULMVA6XW-ns1/svc1/tcp/p80");
        let name = ServiceName { namespace: "ns5".to_owned(), name: "svc5".to_owned() };
        let at = Endpoint::ready([10, 180, 0, 3].into(), 80, true);
        assert_eq!(
            endpoint_name(&name, Protocol::Tcp, "p80", &at),
            "GTK6MW7G-ns5/svc5/tcp/p80__10.180.0.3/80"
        );
    }

    #[test]
    fn long_names_fit() {
        let name = ServiceName { namespace: "n".repeat(200), name: "s".repeat(200) };
        assert_eq!(service_port_name(&name, Protocol::Tcp, "p").len(), MAX_NAME_LENGTH);
    }
}
