//! `--token-auth-file`: one user a line, `token,name,uid,"group1,group2"`.

use std::collections::HashMap;

use anyhow::Result;
use http::request::Parts;
use ring::digest::{SHA256, digest};
use server::{AuthenticateFuture, Authenticator, Peer, UserInfo};

use super::user_file;

/// Users by the digest of their token, so that the time of a lookup does not depend on how much of
/// a token was guessed.
pub(crate) struct TokenFile {
    users: HashMap<Vec<u8>, UserInfo>,
}

impl std::fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenFile({} users)", self.users.len())
    }
}

impl TokenFile {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        Ok(Self { users: user_file::parse(text, "token")?.into_iter().collect() })
    }
}

impl Authenticator for TokenFile {
    fn authenticate<'a>(&'a self, _: &'a Peer, request: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            let Some(token) = super::bearer(request) else { return Ok(None) };
            Ok(self.users.get(digest(&SHA256, token.as_bytes()).as_ref()).cloned())
        })
    }
}
