//! Who calls: certificates, tokens of service accounts, tokens from a file.

mod certificate;
mod service_account;
mod token_file;

use http::{header::AUTHORIZATION, request::Parts};

pub(crate) use self::{
    certificate::Certificates, service_account::ServiceAccounts, token_file::TokenFile,
};

/// The bearer token of a request.
fn bearer(request: &Parts) -> Option<&str> {
    let value = request.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
