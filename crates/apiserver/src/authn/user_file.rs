//! Files with one user a line: `secret,name,uid,"group1,group2"`.

use anyhow::{Context, Result, bail};
use object::Text;
use ring::digest::{SHA256, digest};
use server::UserInfo;

/// Parses the users, each with the digest of their token or password; `secret` is the name of that
/// column in messages.
pub(super) fn parse(text: &str, secret: &str) -> Result<Vec<(Vec<u8>, UserInfo)>> {
    let mut users = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        users.push(user(line, secret).with_context(|| format!("line {}", at + 1))?);
    }
    Ok(users)
}

fn user(line: &str, secret: &str) -> Result<(Vec<u8>, UserInfo)> {
    let fields = fields(line)?;
    let [own, name, uid, rest @ ..] = &*fields else {
        bail!("expected at least 3 columns ({secret}, user name, user uid)");
    };
    if own.is_empty() || name.is_empty() {
        bail!("{secret} and user name must not be empty");
    }
    let groups = rest.first().map(String::as_str).unwrap_or_default();
    let groups: Vec<&str> =
        groups.split(',').map(str::trim).filter(|group| !group.is_empty()).collect();
    let user = UserInfo { uid: Text::from(uid.as_str()), ..UserInfo::new(name, &groups) };
    Ok((digest(&SHA256, own.as_bytes()).as_ref().to_vec(), user))
}

/// Splits a line into columns; quoted columns may contain commas.
fn fields(line: &str) -> Result<Vec<String>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_users_and_groups() {
        let users = parse("# admins\nt1,alice,1,\"a,b\"\nt2,bob,2\n", "token").unwrap();
        let (hash, alice) = &users[0];
        assert_eq!(hash, digest(&SHA256, b"t1").as_ref());
        assert_eq!((&*alice.name, alice.groups.len(), users.len()), ("alice", 2, 2));
        for wrong in ["t1,alice", "t1,alice,1,\"a", ",alice,1"] {
            assert!(parse(wrong, "token").is_err(), "{wrong}");
        }
    }
}
