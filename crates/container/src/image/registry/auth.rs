//! Registry authentication: answers a `WWW-Authenticate` challenge with basic credentials, or with a token from the
//! token service that it names.

use std::{collections::BTreeMap, fmt::Write};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use serde::Deserialize;

use super::{
    super::{Error, Result},
    RegistryAuth,
    http::{HttpClient, Reach, between, is_loopback},
};

const LARGEST_TOKEN: u64 = 1 << 20;

/// The value of an Authorization header.
#[derive(Clone)]
pub(super) struct Authorization(pub(super) String);

/// A parsed `WWW-Authenticate` challenge.
#[derive(Debug, PartialEq, Eq)]
struct Challenge {
    scheme: String,
    parameters: BTreeMap<String, String>,
}

/// Answers the challenges; `None` without suitable credentials.
pub(super) async fn authorize(
    http: &HttpClient,
    challenges: &[String],
    auth: Option<&RegistryAuth>,
    url: &str,
) -> Result<Option<Authorization>> {
    for challenge in challenges.iter().filter_map(|text| parse(text)) {
        match challenge.scheme.as_str() {
            "bearer" => return token(http, &challenge, auth, url).await.map(Some),
            "basic" => return Ok(auth.filter(|auth| !auth.username.is_empty()).map(basic)),
            _ => {}
        }
    }
    Ok(None)
}

/// Fetches a bearer token from the token service.
async fn token(
    http: &HttpClient,
    challenge: &Challenge,
    auth: Option<&RegistryAuth>,
    url: &str,
) -> Result<Authorization> {
    if let Some(auth) = auth.filter(|auth| !auth.registry_token.is_empty()) {
        return Ok(Authorization(format!("Bearer {}", auth.registry_token)));
    }
    let realm = challenge.parameters.get("realm").map(String::as_str).unwrap_or_default();
    let auth = auth.filter(|auth| !auth.username.is_empty() || !auth.identity_token.is_empty());
    if auth.is_some() && !is_trusted_realm(realm, url) {
        return Err(unauthorized(format!("will not send credentials to {realm} unencrypted")));
    }
    // The registry chooses the realm, so where it may lead is restricted.
    let reach = match url.parse::<Uri>() {
        Ok(url) => between(&url, Reach::Anywhere),
        Err(_) => Reach::Public,
    };
    let mut query = String::new();
    for key in ["service", "scope"] {
        if let Some(value) = challenge.parameters.get(key) {
            for value in value.split(' ').filter(|value| !value.is_empty()) {
                write!(query, "&{key}={}", escape(value)).expect("writing to a string cannot fail");
            }
        }
    }
    let request = match auth {
        Some(auth) if !auth.identity_token.is_empty() => {
            let token = escape(&auth.identity_token);
            let body =
                format!("grant_type=refresh_token&client_id=tiphys&refresh_token={token}{query}");
            let post = Request::post(realm)
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            http.send_with(post, Bytes::from(body), reach).await?
        }
        _ => {
            let separator = if realm.contains('?') { "&" } else { "?" };
            let mut get =
                Request::get(format!("{realm}{separator}{}", query.trim_start_matches('&')));
            if let Some(auth) = auth {
                get = get.header(header::AUTHORIZATION, basic(auth).0);
            }
            http.send(get, reach).await?
        }
    };
    let status = request.status();
    match status {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(unauthorized(format!("failed to fetch oauth token: {realm}: {status}")));
        }
        _ => {
            return Err(Error::Registry(format!("failed to fetch oauth token: {realm}: {status}")));
        }
    }
    read_token(&request.bytes(LARGEST_TOKEN).await?)
}

fn read_token(bytes: &[u8]) -> Result<Authorization> {
    #[derive(Deserialize)]
    struct Token {
        #[serde(default)]
        token: String,
        #[serde(default)]
        access_token: String,
    }
    let answer: Token =
        serde_json::from_slice(bytes).map_err(|_| Error::malformed("invalid token response"))?;
    let token = if answer.token.is_empty() { answer.access_token } else { answer.token };
    if token.is_empty() {
        Err(Error::malformed("the token response contains no token"))
    } else {
        Ok(Authorization(format!("Bearer {token}")))
    }
}

/// Whether credentials may be sent to this token service. It must use TLS, be on loopback, or be on the host of a
/// registry that itself is contacted without TLS.
fn is_trusted_realm(realm: &str, url: &str) -> bool {
    let (Ok(realm), Ok(url)) = (realm.parse::<Uri>(), url.parse::<Uri>()) else { return false };
    realm.scheme_str() == Some("https")
        || realm.host().is_some_and(is_loopback)
        || (url.scheme_str() == Some("http") && url.host() == realm.host())
}

fn basic(auth: &RegistryAuth) -> Authorization {
    Authorization(format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("{}:{}", auth.username, auth.password))
    ))
}

fn unauthorized(reason: String) -> Error {
    Error::Unauthorized { reference: String::new(), reason }
}

/// Parses a challenge such as `Bearer realm="https://…",service="…",scope="repository:a:pull"`.
fn parse(text: &str) -> Option<Challenge> {
    let (scheme, mut rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let mut parameters = BTreeMap::new();
    while let Some((key, after)) = rest.split_once('=') {
        let key = key.trim_matches([' ', ',']).to_ascii_lowercase();
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        parameters.insert(key, value.trim().to_owned());
        rest = after;
    }
    Some(Challenge { scheme: scheme.to_ascii_lowercase(), parameters })
}

/// Percent-encodes a query value.
fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a string cannot fail");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges() {
        let text = r#"Bearer realm="https://t.example/token",service="r",scope="repository:a/b:pull,push""#;
        let challenge = parse(text).expect("valid");
        assert_eq!(challenge.scheme, "bearer");
        assert_eq!(challenge.parameters["realm"], "https://t.example/token");
        assert_eq!(challenge.parameters["scope"], "repository:a/b:pull,push");
        assert_eq!(parse("Basic realm=x").expect("valid").parameters["realm"], "x");
        assert_eq!(parse(r#"Bearer realm="open"#), None);
    }

    #[test]
    fn secrets_need_encryption() {
        assert!(is_trusted_realm("https://t.example/token", "https://r.example/v2/"));
        assert!(!is_trusted_realm("http://t.example/token", "https://r.example/v2/"));
        assert!(is_trusted_realm("http://127.0.0.1:1/token", "http://127.0.0.1:2/v2/"));
        assert_eq!(escape("a b:c"), "a%20b%3Ac");
    }
}
