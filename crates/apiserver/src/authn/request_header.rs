//! The request header authenticator, for an authenticating front proxy: the proxy presents its own
//! client certificate, and names the user in headers.

use std::sync::Arc;

use http::{HeaderMap, request::Parts};
use object::{Clock, Status, Text};
use pki::{ClientCaVerifier, Reloadable};
use server::{
    AuthenticateFuture, Authenticator, Peer, UserInfo,
    identity_headers::{Unusable, extra, single, values},
};
use tracing::debug;

/// Authenticates users by the headers of a front proxy.
#[derive(Debug)]
pub(crate) struct RequestHeader {
    pub(crate) trust: Arc<Reloadable<ClientCaVerifier>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Common names of the proxies that are trusted; empty means any.
    pub(crate) allowed: Vec<String>,
    pub(crate) headers: ProxyHeaders,
}

/// Names of the headers in which a proxy sends user, uid, groups and extra.
#[derive(Clone, Debug)]
pub struct ProxyHeaders {
    pub names: Vec<String>,
    pub uids: Vec<String>,
    pub groups: Vec<String>,
    pub extra_prefixes: Vec<String>,
}

impl Authenticator for RequestHeader {
    fn authenticate<'a>(&'a self, peer: &'a Peer, request: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            if peer.certificate.is_none() {
                return Ok(None);
            }
            let user = self.headers.user(&request.headers);
            if user == Ok(None) {
                return Ok(None);
            }
            let proxy = self.trust.current().identify(&peer.chain(), self.clock.now());
            let Ok(proxy) = proxy else { return Ok(None) };
            if !self.allowed.is_empty() && !self.allowed.contains(&proxy.common_name) {
                return Ok(None);
            }
            // Headers that cannot be decoded are an error: the proxy itself must not be taken for
            // the user.
            user.map_err(|why| {
                debug!(%why, proxy = proxy.common_name, "invalid user headers of a front proxy");
                Status::unauthorized()
            })
        })
    }
}

impl ProxyHeaders {
    /// The user that the headers name. Headers about a user without a user name are an error.
    pub fn user(&self, headers: &HeaderMap) -> Result<Option<UserInfo>, Unusable> {
        let (name, named) = first(headers, &self.names)?;
        let (uid, _) = first(headers, &self.uids)?;
        let mut groups = Vec::new();
        for header in &self.groups {
            groups.extend(values(headers, header)?.into_iter().filter(|group| !group.is_empty()));
        }
        let mut user = UserInfo { uid: Text::from(uid), ..UserInfo::new(name, &groups) };
        for prefix in &self.extra_prefixes {
            extra(headers, &prefix.to_lowercase(), &mut user.extra)?;
        }
        if !name.is_empty() {
            return Ok(Some(user));
        }
        let says = named || !(uid.is_empty() && groups.is_empty() && user.extra.is_empty());
        if says { Err(Unusable::Empty(self.names.join(", "))) } else { Ok(None) }
    }
}

/// The first value that is not empty, and whether any of the headers is present.
fn first<'a>(headers: &'a HeaderMap, names: &[String]) -> Result<(&'a str, bool), Unusable> {
    let (mut found, mut any) = ("", false);
    for name in names {
        let value = single(headers, name)?;
        any |= value.is_some();
        if found.is_empty() {
            found = value.unwrap_or_default();
        }
    }
    Ok((found, any))
}
