//! Interfaces of authentication and authorization.

use std::{collections::BTreeMap, fmt, future::Future, net::SocketAddr, pin::Pin, sync::Arc};

use http::request::Parts;
use object::{Status, Text};
use rustls::pki_types::CertificateDer;

/// An authenticated or impersonated user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    pub name: Text,
    pub uid: Text,
    pub groups: Vec<Text>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| Text::from(*group)).collect();
        Self { name: name.into(), groups, ..Self::default() }
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self::new("system:anonymous", &["system:unauthenticated"])
    }

    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// The other end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    pub address: Option<SocketAddr>,
    /// The client certificate, DER. The TLS handshake proved possession of its key and checked
    /// whether the client CA signed it.
    pub certificate: Option<Arc<Vec<u8>>>,
    /// The intermediate certificates that the client sent, DER.
    pub intermediates: Arc<Vec<Vec<u8>>>,
    /// The user at the other end of an in-process pipe or local socket, which needs no credentials.
    pub identity: Option<Arc<UserInfo>>,
}

impl Peer {
    /// The client's certificate chain, leaf first; empty if it presented none.
    pub fn chain(&self) -> Vec<CertificateDer<'_>> {
        let own = self.certificate.as_deref();
        let others = self.intermediates.iter().filter(|_| own.is_some());
        own.into_iter().chain(others).map(|one| CertificateDer::from(one.as_slice())).collect()
    }
}

/// The result of an authenticator.
pub type AuthenticateFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<UserInfo>, Status>> + Send + 'a>>;

/// One method of authentication. `None` means that the request has no credentials of this kind; an
/// error means that it has some, and they are invalid.
pub trait Authenticator: fmt::Debug + Send + Sync {
    fn authenticate<'a>(&'a self, peer: &'a Peer, request: &'a Parts) -> AuthenticateFuture<'a>;
}

/// What a request wants to do, for authorization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub verb: Text,
    pub group: Text,
    pub version: Text,
    pub resource: Text,
    pub subresource: Text,
    pub namespace: Text,
    pub name: Text,
    /// The path of a non-resource request.
    pub path: Text,
    pub is_resource: bool,
    pub field_selector: Text,
    pub label_selector: Text,
}

/// The decision of one authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow(String),
    /// Denied; later authorizers are not consulted.
    Deny(String),
    NoOpinion(String),
}

/// The result of an authorizer.
pub type AuthorizeFuture<'a> = Pin<Box<dyn Future<Output = Decision> + Send + 'a>>;

/// An authorizer. The first of the chain that does not return `NoOpinion` decides.
pub trait Authorizer: fmt::Debug + Send + Sync {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a Attributes,
    ) -> AuthorizeFuture<'a>;

    /// Whether it may send a request to another process, and so block.
    fn asks_elsewhere(&self) -> bool {
        false
    }

    /// Why the rules of a user cannot be listed completely (SelfSubjectRulesReview).
    fn incomplete_rules_reason(&self, _user: &UserInfo) -> Option<&'static str> {
        None
    }
}
