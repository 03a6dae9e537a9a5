//! Authentication: client certificates, tokens of all kinds, password files and front proxies.

mod anonymous;
mod bootstrap_token;
mod certificate;
mod jwt;
mod password_file;
mod request_header;
mod secret_token;
mod service_account;
mod token_file;
mod user_file;
mod webhook;

use http::{header::AUTHORIZATION, request::Parts};

pub(crate) use self::{
    anonymous::Anonymous,
    bootstrap_token::BootstrapTokenAuthenticator,
    certificate::{CertExpirationMetrics, ClientCertAuthenticator},
    jwt::{AnonymousConfig, AuthenticationConfiguration, JwtAuthenticator},
    password_file::PasswordFile,
    request_header::RequestHeader,
    service_account::{ServiceAccountAuthenticator, TokenMetrics},
    token_file::TokenFile,
    webhook::TokenWebhook,
};
pub use self::{jwt::OidcFlags, request_header::ProxyHeaders};

/// The bearer token in the Authorization header.
fn bearer(request: &Parts) -> Option<&str> {
    let value = request.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
