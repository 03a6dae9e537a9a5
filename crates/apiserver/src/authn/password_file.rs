//! `--basic-auth-file`: one user a line, `password,name,uid,"group1,group2"`.

use std::collections::HashMap;

use anyhow::Result;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{header::AUTHORIZATION, request::Parts};
use object::Status;
use ring::digest::{SHA256, digest};
use server::{AuthenticateFuture, Authenticator, Peer, UserInfo};

use super::user_file;

/// Users by name, each with the digest of their password.
pub(crate) struct PasswordFile {
    users: HashMap<String, (Vec<u8>, UserInfo)>,
}

impl std::fmt::Debug for PasswordFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PasswordFile({} users)", self.users.len())
    }
}

impl PasswordFile {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let users = user_file::parse(text, "password")?.into_iter();
        Ok(Self {
            users: users.map(|(hash, user)| (user.name.to_string(), (hash, user))).collect(),
        })
    }
}

impl Authenticator for PasswordFile {
    fn authenticate<'a>(&'a self, _: &'a Peer, request: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            let Some((name, password)) = basic(request) else { return Ok(None) };
            let hash = digest(&SHA256, password.as_bytes());
            match self.users.get(&name) {
                Some((known, user)) if known.as_slice() == hash.as_ref() => Ok(Some(user.clone())),
                _ => Err(Status::unauthorized()),
            }
        })
    }
}

/// User name and password of HTTP basic authentication.
fn basic(request: &Parts) -> Option<(String, String)> {
    let value = request.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, text) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(text.trim()).ok()?).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}
