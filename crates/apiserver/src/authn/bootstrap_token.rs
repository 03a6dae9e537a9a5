//! The bootstrap token authenticator: Secrets in kube-system with which new nodes join the cluster.

use std::sync::{Arc, OnceLock};

use http::request::Parts;
use object::{Bytes, Clock, Object, Time, Value, View};
use server::{AuthenticateFuture, Authenticator, Peer, Registry, UserInfo};

const TYPE: &str = "bootstrap.kubernetes.io/token";

#[derive(Debug)]
pub(crate) struct BootstrapTokenAuthenticator {
    pub(crate) registry: Arc<OnceLock<Arc<Registry>>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Authenticator for BootstrapTokenAuthenticator {
    fn authenticate<'a>(&'a self, _: &'a Peer, request: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(async move { Ok(super::bearer(request).and_then(|token| self.identify(token))) })
    }
}

impl BootstrapTokenAuthenticator {
    fn identify(&self, token: &str) -> Option<UserInfo> {
        let (id, secret) = parts(token)?;
        let registry = self.registry.get()?;
        let kind = registry.kind("", "secrets").ok()?;
        let found = registry.get(&kind, "kube-system", &format!("bootstrap-token-{id}")).ok()?;
        let object = &found.object;
        let going = Object::view(object).metadata().is_terminating();
        let data = |name: &str| decoded(object, name);
        let right = object.get("type").as_str() == Some(TYPE)
            && data("token-id") == id
            && same(data("token-secret").as_bytes(), secret.as_bytes())
            && data("usage-bootstrap-authentication") == "true";
        let expiration = data("expiration");
        let late = !expiration.is_empty()
            && Time::parse_seconds(&expiration).is_none_or(|moment| moment <= self.clock.now());
        if going || late || !right {
            return None;
        }
        let extra = data("auth-extra-groups");
        let mut groups = vec!["system:bootstrappers"];
        let more = extra.split(',').filter(|group| group.starts_with("system:bootstrappers:"));
        groups.extend(more);
        Some(UserInfo::new(&format!("system:bootstrap:{id}"), &groups))
    }
}

/// Splits a token of the form `abcdef.0123456789abcdef` into id and secret.
fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str| text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    (id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret)).then_some((id, secret))
}

/// Compares in constant time, so that the time does not reveal where they differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

fn decoded(secret: &Value, name: &str) -> String {
    let bytes = secret.get("data").get(name).as_str().and_then(Bytes::decode);
    String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_two_parts_of_a_known_length() {
        assert_eq!(parts("abcdef.0123456789abcdef"), Some(("abcdef", "0123456789abcdef")));
        for bad in ["abcdef", "abcde.0123456789abcdef", "ABCDEF.0123456789abcdef", "abcdef.short"] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }
}
