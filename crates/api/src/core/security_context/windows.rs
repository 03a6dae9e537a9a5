//! The rules for what only pods on Windows have.

use schema::{ErrorList, FieldPath};

use super::WindowsSecurityContextOptions;
use crate::rules::ValidateField;

const MAX_SPEC: usize = 64 * 1024;
const MAX_DOMAIN: usize = 256;
const MAX_USER: usize = 104;

impl WindowsSecurityContextOptions {
    pub(super) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        if let Some(name) = self.gmsa_credential_spec_name() {
            errs.subdomain(&at.field("gmsaCredentialSpecName"), name);
        }
        let spec = at.field("gmsaCredentialSpec");
        match self.gmsa_credential_spec() {
            Some("") => errs.invalid(&spec, "", "gmsaCredentialSpec cannot be an empty string"),
            Some(text) if text.len() > MAX_SPEC => {
                errs.invalid(&spec, text, "gmsaCredentialSpec size must be under 64 KiB");
            }
            _ => {}
        }
        at.if_present("runAsUserName", self.run_as_user_name(), |it, at| {
            check_user_name(it, at, errs);
        });
    }
}

/// `DOMAIN\user`, or only the user.
fn check_user_name(name: &str, at: &FieldPath, errs: &mut ErrorList) {
    let mut wrong = |why: String| errs.invalid(at, name, format!("runAsUserName{why}"));
    if name.is_empty() {
        return wrong(" cannot be an empty string".into());
    }
    if name.bytes().any(|b| b.is_ascii_control()) {
        return wrong(" cannot contain control characters".into());
    }
    let parts: Vec<_> = name.split('\\').collect();
    let (domain, user) = match parts[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return wrong(" cannot contain more than one backslash".into()),
    };
    if domain.is_some_and(|domain| domain.len() >= MAX_DOMAIN) {
        wrong(format!("'s Domain length must be under {MAX_DOMAIN} characters"));
    }
    if domain.is_some_and(|domain| !is_netbios(domain) && !is_dns(domain)) {
        wrong("'s Domain doesn't match the NetBios nor the DNS format".into());
    }
    if user.is_empty() {
        wrong("'s User cannot be empty".into());
    } else if user.len() > MAX_USER {
        wrong(format!("'s User length must not be longer than {MAX_USER} characters"));
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        wrong("'s User cannot contain only periods or spaces".into());
    }
    if user
        .contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']'])
    {
        wrong("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]".into());
    }
}

fn is_netbios(domain: &str) -> bool {
    let barred = ['\\', '/', ':', '*', '?', '"', '<', '>', '|'];
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(barred)
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
        label.len() <= 63
            && ends(label.bytes().next())
            && ends(label.bytes().next_back())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    })
}
