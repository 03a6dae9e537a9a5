//! The anonymous authenticator, for requests without credentials.

use http::{header::AUTHORIZATION, request::Parts};
use server::{AuthenticateFuture, Authenticator, Peer, UserInfo};

use super::jwt::AnonymousConfig;

/// The last authenticator: a request without credentials is `system:anonymous`, if anonymous
/// requests are enabled for its path.
#[derive(Debug)]
pub(crate) struct Anonymous(pub(crate) AnonymousConfig);

impl Authenticator for Anonymous {
    fn authenticate<'a>(&'a self, _: &'a Peer, request: &'a Parts) -> AuthenticateFuture<'a> {
        let AnonymousConfig { enabled, paths } = &self.0;
        let here = paths.is_empty() || paths.iter().any(|path| path == request.uri.path());
        let open = *enabled && here && !request.headers.contains_key(AUTHORIZATION);
        Box::pin(async move { Ok(open.then(UserInfo::anonymous)) })
    }
}
