//! Where a webhook is: an address, or a service.

use object::Bytes;
use schema::{ErrorList, FieldPath};

use super::ServiceReference;
use crate::{
    admissionregistration::webhooks::{URL_FORMAT_HINT, check_path, check_port, is_scheme},
    rules::ValidateField,
};

/// An address that is called over TLS and says nothing but where that is.
pub(super) fn check_url(url: &str, at: &FieldPath, errs: &mut ErrorList) {
    let parts = match Parts::of(url) {
        Ok(parts) => parts,
        Err(why) => {
            let why = format!(
                "url must be a valid URL: parse {}: {why}{URL_FORMAT_HINT}",
                object::quote::quote(url)
            );
            return errs.required(at, why);
        }
    };
    if parts.scheme != "https" {
        errs.invalid(
            at,
            parts.scheme.as_str(),
            format!("'https' is the only allowed URL scheme{URL_FORMAT_HINT}"),
        );
    }
    if parts.host.is_empty() {
        errs.invalid(at, "", format!("host must be specified{URL_FORMAT_HINT}"));
    }
    for (part, why) in [
        (parts.user, "user information is not permitted in the URL"),
        (parts.fragment, "fragments are not permitted in the URL"),
        (parts.query, "query parameters are not permitted in the URL"),
    ] {
        if let Some(part) = part.filter(|part| !part.is_empty()) {
            errs.invalid(at, part, why);
        }
    }
}

pub(super) fn check_service(service: &ServiceReference, at: &FieldPath, errs: &mut ErrorList) {
    // Upstream mistakes the one for the other.
    errs.required_field(at, "name", service.namespace());
    errs.required_field(at, "namespace", service.name());
    check_port(service.port().unwrap_or_default(), &at.field("port"), errs);
    check_path(service.path().unwrap_or_default(), &at.field("path"), errs);
}

/// Certificates by which a webhook is known; empty: by those of the machine.
pub(super) fn check_ca_bundle(bundle: &str, at: &FieldPath, errs: &mut ErrorList) {
    if !is_ca_bundle(bundle) {
        let why = "unable to load root certificates: unable to parse bytes as PEM block";
        errs.invalid(at, bundle, why);
    }
}

/// Whether there is a certificate in it.
pub(super) fn is_ca_bundle(bundle: &str) -> bool {
    let bytes = Bytes::decode(bundle).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.contains("-----BEGIN CERTIFICATE-----") && text.contains("-----END CERTIFICATE-----")
}

struct Parts {
    scheme: String,
    user: Option<String>,
    host: String,
    query: Option<String>,
    fragment: Option<String>,
}

impl Parts {
    /// The error is Go's.
    fn of(url: &str) -> Result<Self, String> {
        if url.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (url, fragment) = split(url, '#');
        let (scheme, rest) = match url.split_once(':') {
            Some(("", _)) => return Err("missing protocol scheme".to_owned()),
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_lowercase(), rest),
            Some((first, _)) if first.starts_with(|c: char| c.is_ascii_digit()) => {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
            _ => (String::new(), url),
        };
        let (rest, query) = split(rest, '?');
        let authority =
            rest.strip_prefix("//").map(|rest| rest.split('/').next().unwrap_or_default());
        let (user, host) = match authority.unwrap_or_default().rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, authority.unwrap_or_default()),
        };
        if let Some(odd) = host.chars().find(|c| matches!(c, ' ' | '<' | '>' | '"')) {
            return Err(format!("invalid character {:?} in host name", odd.to_string()));
        }
        let owned = |part: Option<&str>| part.map(str::to_owned);
        Ok(Self {
            scheme,
            user,
            host: host.to_owned(),
            query: owned(query),
            fragment: owned(fragment),
        })
    }
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(head, tail)| (head, Some(tail)))
}
