//! Validation of an issuer and of its claim mappings, with upstream's messages.

use std::collections::HashSet;

use cel::Url;
use object::{Value, names};
use schema::{ErrorList, FieldPath};

use super::mapping::{ClaimSource, Expression, JwtValidationRule};
use crate::structured::{text, texts};

/// Validates the `issuer` of a JWT authenticator; `own` are the issuers of this server itself.
pub(super) fn check_issuer(
    issuer: &Value,
    path: &FieldPath<'_>,
    own: &[String],
    errors: &mut ErrorList,
) {
    let (url, discovery) = (text(issuer, "url"), text(issuer, "discoveryURL"));
    match url {
        "" => errors.required(&path.field("url"), ""),
        url => check_url(url, own, &path.field("url"), errors),
    }
    if !discovery.is_empty() {
        let place = path.field("discoveryURL");
        if url.trim_end_matches('/') == discovery.trim_end_matches('/') {
            errors.invalid(&place, discovery, "discoveryURL must be different from URL");
        }
        check_url(discovery, &[], &place, errors);
    }
    let (place, audiences) = (path.field("audiences"), texts(issuer.get("audiences")));
    let mut seen = HashSet::new();
    for (at, audience) in audiences.iter().enumerate() {
        if audience.is_empty() {
            errors.required(&place.index(at), "");
        }
        if !seen.insert(audience) {
            errors.duplicate(&place.index(at), audience.as_str());
        }
    }
    let (policy, at) = (text(issuer, "audienceMatchPolicy"), path.field("audienceMatchPolicy"));
    match audiences.len() {
        0 => errors.required(&place, format!("at least one {place} is required")),
        1 if !matches!(policy, "" | "MatchAny") => {
            let why = "audienceMatchPolicy must be empty or MatchAny for single audience";
            errors.invalid(&at, policy, why);
        }
        2.. if policy != "MatchAny" => {
            let why = "audienceMatchPolicy must be MatchAny for multiple audiences";
            errors.invalid(&at, policy, why);
        }
        _ => {}
    }
    let authorities = text(issuer, "certificateAuthority");
    if !authorities.is_empty()
        && let Some(why) = unreadable(authorities)
    {
        errors.invalid(&path.field("certificateAuthority"), "<omitted>", why);
    }
    let egress = text(issuer, "egressSelectorType");
    if !["", "controlplane", "cluster"].contains(&egress) {
        let why = "egress selector must be either controlplane or cluster";
        errors.invalid(&path.field("egressSelectorType"), egress, why);
    }
}

/// Why a text is not a valid CA bundle; `None` if it is.
fn unreadable(authorities: &str) -> Option<&'static str> {
    match pki::certificates(authorities.as_bytes()) {
        Err(_) => Some("data does not contain any valid RSA or ECDSA certificates"),
        Ok(all) if all.iter().any(|one| pki::CertificateIdentity::of(one).is_err()) => {
            Some("x509: malformed certificate")
        }
        Ok(_) => None,
    }
}

fn check_url(url: &str, own: &[String], path: &FieldPath<'_>, errors: &mut ErrorList) {
    if own.iter().any(|own| own == url) {
        let why = format!("URL must not overlap with disallowed issuers: [{}]", own.join(" "));
        errors.invalid(path, url, why);
    }
    let parsed = match Url::parse_reference(url) {
        Ok(parsed) => parsed,
        Err(why) => return errors.invalid(path, url, why),
    };
    if parsed.scheme != "https" {
        errors.invalid(path, url, "URL scheme must be https");
    }
    if parsed.user.is_some() {
        errors.invalid(path, url, "URL must not contain a username or password");
    }
    if parsed.query.is_some_and(|query| !query.is_empty()) {
        errors.invalid(path, url, "URL must not contain a query");
    }
    if !parsed.fragment.is_empty() {
        errors.invalid(path, url, "URL must not contain a fragment");
    }
}

/// Validates the key of an `extra` mapping.
pub(super) fn check_key(key: &str, path: &FieldPath<'_>, errors: &mut ErrorList) {
    match key.split_once('/') {
        _ if key.is_empty() => errors.required(path, ""),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            errors.invalid_each(path, domain, names::dns1123_subdomain(domain));
            let allowed = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
            if !rest.chars().all(allowed) {
                let why = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
                errors.invalid(path, rest, why);
            }
            let reserved = |suffix: &str| {
                domain
                    .strip_suffix(suffix)
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            if reserved("kubernetes.io") || reserved("k8s.io") {
                let why =
                    "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
                errors.invalid(path, key, why);
            }
        }
        _ => {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.invalid(path, key, why);
        }
    }
    if key != key.to_lowercase() {
        errors.invalid(path, key, "must be lowercase");
    }
}

/// Requires that an expression that uses `claims.email` as the username also checks
/// `claims.email_verified`.
pub(super) fn check_email(
    username: Option<&ClaimSource>,
    rules: &[JwtValidationRule],
    extra: &[(String, Expression)],
    path: &FieldPath<'_>,
    errors: &mut ErrorList,
) {
    let Some(ClaimSource::Expression(username)) = username else { return };
    let reads = |of: &Expression, claim: &str| of.program.fields_of("claims").contains(&claim);
    let mut all = [username]
        .into_iter()
        .chain(rules.iter().map(|rule| &rule.expression))
        .chain(extra.iter().map(|(_, expression)| expression));
    if reads(username, "email") && !all.any(|one| reads(one, "email_verified")) {
        let why = "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression";
        let username_path = path.field("username");
        errors.invalid(&username_path.field("expression"), username.source.as_str(), why);
    }
}
