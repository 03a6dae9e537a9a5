//! `--token-auth-file`: one user a line, `token,name,uid,"group1,group2"`.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use http::request::Parts;
use object::Text;
use ring::digest::{SHA256, digest};
use server::{Authenticate, Authenticating, Peer, User};

/// Users by the digest of their token, so that looking one up takes as long
/// whatever was guessed.
pub(crate) struct TokenFile {
    users: HashMap<Vec<u8>, User>,
}

impl std::fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenFile({} users)", self.users.len())
    }
}

impl TokenFile {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut users = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fields = fields(line).with_context(|| format!("line {}", at + 1))?;
            let [token, name, uid, rest @ ..] = &*fields else {
                bail!("line {}: expected at least 3 columns (token, user name, user uid)", at + 1);
            };
            let groups = rest.first().map(String::as_str).unwrap_or_default();
            let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
            let groups: Vec<&str> = groups.collect();
            let user = User { uid: Text::from(uid.as_str()), ..User::new(name, &groups) };
            if token.is_empty() || name.is_empty() {
                bail!("line {}: token and user name must not be empty", at + 1);
            }
            users.insert(digest(&SHA256, token.as_bytes()).as_ref().to_vec(), user);
        }
        Ok(Self { users })
    }
}

/// The columns of a line; quotes keep commas together.
pub(super) fn fields(line: &str) -> Result<Vec<String>> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field).trim().to_owned()),
            c => field.push(c),
        }
    }
    if quoted {
        bail!("a quote is not closed");
    }
    fields.push(field.trim().to_owned());
    Ok(fields)
}

impl Authenticate for TokenFile {
    fn authenticate<'a>(&'a self, _: &'a Peer, request: &'a Parts) -> Authenticating<'a> {
        Box::pin(async move {
            let Some(token) = super::bearer(request) else { return Ok(None) };
            Ok(self.users.get(digest(&SHA256, token.as_bytes()).as_ref()).cloned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_users_and_groups() {
        let file = TokenFile::parse("# admins\nt1,alice,1,\"a,b\"\nt2,bob,2\n").unwrap();
        let alice = &file.users[digest(&SHA256, b"t1").as_ref()];
        assert_eq!((&*alice.name, alice.groups.len()), ("alice", 2));
        assert!(TokenFile::parse("t1,alice").is_err());
        assert!(TokenFile::parse("t1,alice,1,\"a").is_err());
    }
}
