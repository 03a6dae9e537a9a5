//! Who calls, and what they may do.

use std::{collections::BTreeMap, fmt, future::Future, net::SocketAddr, pin::Pin, sync::Arc};

use http::request::Parts;
use object::{Status, Text};
use rustls::pki_types::CertificateDer;

/// Somebody who calls.
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
    /// The certificate that it has shown, DER; the handshake proved its key, and
    /// whether the client CA signed it.
    pub certificate: Option<Arc<Vec<u8>>>,
    /// The certificates that it has shown besides, DER: those between its own and the client CA.
    pub intermediates: Arc<Vec<Vec<u8>>>,
    /// Whoever is at the other end of a pipe or of a socket of ours.
    pub identity: Option<Arc<UserInfo>>,
}

impl Peer {
    /// All certificates that it has shown, its own first; none: it has shown none.
    pub fn chain(&self) -> Vec<CertificateDer<'_>> {
        let own = self.certificate.as_deref();
        let others = self.intermediates.iter().filter(|_| own.is_some());
        own.into_iter().chain(others).map(|one| CertificateDer::from(one.as_slice())).collect()
    }
}

pub type AuthenticateFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<UserInfo>, Status>> + Send + 'a>>;

/// One way to tell who calls. `None`: nothing here that it understands. An error:
/// something that it understands, and that is wrong.
pub trait Authenticator: fmt::Debug + Send + Sync {
    fn authenticate<'a>(&'a self, peer: &'a Peer, request: &'a Parts) -> AuthenticateFuture<'a>;
}

/// What somebody wants to do, to what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub verb: Text,
    pub group: Text,
    pub version: Text,
    pub resource: Text,
    pub subresource: Text,
    pub namespace: Text,
    pub name: Text,
    /// The path, for what is no resource.
    pub path: Text,
    pub is_resource: bool,
    pub field_selector: Text,
    pub label_selector: Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow(String),
    /// No, whatever others say.
    Deny(String),
    NoOpinion(String),
}

pub type AuthorizeFuture<'a> = Pin<Box<dyn Future<Output = Decision> + Send + 'a>>;

/// One opinion on what a user may do. The first that has one decides.
pub trait Authorizer: fmt::Debug + Send + Sync {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a Attributes,
    ) -> AuthorizeFuture<'a>;

    /// Whether it may have to ask somebody else, and so to wait.
    fn asks_elsewhere(&self) -> bool {
        false
    }

    /// Why it cannot say all that a user may do.
    fn incomplete_rules_reason(&self, _user: &UserInfo) -> Option<&'static str> {
        None
    }
}
