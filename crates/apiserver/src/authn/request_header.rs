//! A proxy in front that has asked for the password already: it shows a certificate of
//! its own, and says in headers who calls.

use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderMap, request::Parts};
use object::{Clock, Text};
use pki::{Rotating, Trust};
use rustls::pki_types::CertificateDer;
use server::{Authenticate, Authenticating, Peer, User};

#[derive(Debug)]
pub(crate) struct RequestHeader {
    pub(crate) trust: Arc<Rotating<Trust>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Common names that are believed; empty: any.
    pub(crate) allowed: Vec<String>,
    pub(crate) headers: ProxyHeaders,
}

/// In which headers a proxy says what.
#[derive(Clone, Debug)]
pub struct ProxyHeaders {
    pub names: Vec<String>,
    pub uids: Vec<String>,
    pub groups: Vec<String>,
    pub extra_prefixes: Vec<String>,
}

impl Authenticate for RequestHeader {
    fn authenticate<'a>(&'a self, peer: &'a Peer, request: &'a Parts) -> Authenticating<'a> {
        Box::pin(async move {
            let Some(certificate) = &peer.certificate else { return Ok(None) };
            let Some(user) = self.headers.user(&request.headers) else { return Ok(None) };
            let chain = [CertificateDer::from(certificate.as_slice())];
            let proxy = self.trust.current().identify(&chain, self.clock.now());
            let Ok(proxy) = proxy else { return Ok(None) };
            if !self.allowed.is_empty() && !self.allowed.contains(&proxy.common_name) {
                return Ok(None);
            }
            Ok(Some(user))
        })
    }
}

impl ProxyHeaders {
    /// Who calls, if a proxy says so.
    pub fn user(&self, headers: &HeaderMap) -> Option<User> {
        let name = first(headers, &self.names)?;
        let groups = all(headers, &self.groups);
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let uid = first(headers, &self.uids).unwrap_or_default();
        Some(User { uid: Text::from(uid), extra: self.extra(headers), ..User::new(&name, &groups) })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            let key = self
                .extra_prefixes
                .iter()
                .find_map(|prefix| name.as_str().strip_prefix(prefix.to_lowercase().as_str()));
            if let (Some(key), Ok(value)) = (key, value.to_str()) {
                let key = server::unescaped(key, false).to_string();
                extra.entry(key).or_default().push(value.to_owned());
            }
        }
        extra
    }
}

fn all(headers: &HeaderMap, names: &[String]) -> Vec<String> {
    let values = names.iter().flat_map(|name| headers.get_all(name.as_str()));
    values.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
}

fn first(headers: &HeaderMap, names: &[String]) -> Option<String> {
    all(headers, names).into_iter().find(|value| !value.is_empty())
}
