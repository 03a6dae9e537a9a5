//! Reads headers that name a user: those of authenticating proxies and of impersonation. Values may
//! be any UTF-8 text, as in Go. An unreadable value is an error, and never treated like a missing
//! header: a request must not run as another user because the intended name cannot be read.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};

use crate::query::extra_key;

/// Why a header cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("the header {0:?} is not valid UTF-8 or has control characters")]
    NoText(String),
    #[error("the header {0:?} is set more than once")]
    Repeated(String),
    #[error("the header {0:?} contains no user name")]
    Empty(String),
}

/// The value of a header that may occur once.
pub fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Unusable> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| text(name, value)).transpose()?;
    match values.next() {
        Some(_) => Err(Unusable::Repeated(name.to_owned())),
        None => Ok(first),
    }
}

/// All values of a header.
pub fn values<'a>(headers: &'a HeaderMap, name: &str) -> Result<Vec<&'a str>, Unusable> {
    headers.get_all(name).iter().map(|value| text(name, value)).collect()
}

/// Collects the values of all headers whose names begin with `prefix` (in lower case), by the rest
/// of the name.
pub fn extra(
    headers: &HeaderMap,
    prefix: &str,
    extra: &mut BTreeMap<String, Vec<String>>,
) -> Result<(), Unusable> {
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(prefix) else { continue };
        let key = extra_key(key).filter(|key| !key.contains(char::is_control));
        let key = key.ok_or_else(|| Unusable::NoText(name.to_string()))?;
        let value = text(name.as_str(), value)?.to_owned();
        extra.entry(key).or_default().push(value);
    }
    Ok(())
}

fn text<'a>(name: &str, value: &'a HeaderValue) -> Result<&'a str, Unusable> {
    let text = std::str::from_utf8(value.as_bytes()).ok();
    let text = text.filter(|text| !text.contains(char::is_control));
    text.ok_or_else(|| Unusable::NoText(name.to_owned()))
}

/// The headers in which authenticating proxies name the user. They are removed after
/// authentication, because a server behind this one would trust them as sent by this server.
#[derive(Clone, Debug)]
pub struct IdentityHeaders {
    pub names: Vec<String>,
    pub prefixes: Vec<String>,
}

impl Default for IdentityHeaders {
    fn default() -> Self {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            names: own(&["x-remote-user", "x-remote-uid", "x-remote-group"]),
            prefixes: own(&["x-remote-extra-"]),
        }
    }
}

impl IdentityHeaders {
    /// Adds the headers that the administrator configured.
    #[must_use]
    pub fn and(mut self, names: &[&[String]], prefixes: &[String]) -> Self {
        let lower = |name: &String| name.to_ascii_lowercase();
        self.names.extend(names.iter().flat_map(|names| names.iter().map(lower)));
        self.prefixes.extend(prefixes.iter().map(lower));
        self
    }

    /// Removes all credentials, impersonation and proxy headers from a request.
    pub(crate) fn strip(&self, headers: &mut HeaderMap) {
        let is_one = |name: &HeaderName| {
            *name == AUTHORIZATION
                || name.as_str().starts_with("impersonate-")
                || self.names.iter().any(|own| own == name.as_str())
                || self.prefixes.iter().any(|prefix| name.as_str().starts_with(prefix.as_str()))
        };
        for name in headers.keys().filter(|name| is_one(name)).cloned().collect::<Vec<_>>() {
            headers.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&str, &[u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in all {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        map
    }

    #[test]
    fn what_cannot_be_read_is_not_absent() {
        let map = headers(&[("a", "ü".as_bytes()), ("b", b"\xff"), ("c", b"1"), ("c", b"2")]);
        assert_eq!(single(&map, "a"), Ok(Some("ü")));
        assert_eq!(single(&map, "none"), Ok(None));
        assert_eq!(single(&map, "b"), Err(Unusable::NoText("b".into())));
        assert_eq!(single(&map, "c"), Err(Unusable::Repeated("c".into())));
        assert_eq!(values(&map, "c"), Ok(vec!["1", "2"]));
        assert!(values(&headers(&[("a", b"1"), ("a", b"\xff")]), "a").is_err());
        assert!(single(&headers(&[("a", "\u{85}".as_bytes())]), "a").is_err());
        assert!(single(&headers(&[("a", b"x\ty")]), "a").is_err());
    }

    #[test]
    fn keys_are_decoded_whole_or_not_at_all() {
        let read = |name: &str| {
            let mut found = BTreeMap::new();
            let map = headers(&[(name, b"v")]);
            extra(&map, "x-", &mut found).map(|()| found.into_keys().next())
        };
        assert_eq!(read("x-a%2fb"), Ok(Some("a/b".into())));
        assert_eq!(read("x-%c3%bc"), Ok(Some("ü".into())));
        assert_eq!(read("x-a%2fb%zz"), Ok(Some("a%2fb%zz".into())), "as upstream leaves it");
        assert_eq!(read("y-a"), Ok(None));
        assert!(read("x-%ff").is_err() && read("x-%0a").is_err());
    }

    #[test]
    fn no_credentials_are_left() {
        let more = ["X-User".to_owned()];
        let own = IdentityHeaders::default().and(&[&more], &["X-More-".to_owned()]);
        let mut map = headers(&[
            ("authorization", b"Bearer a"),
            ("x-remote-user", b"a"),
            ("x-remote-extra-b", b"a"),
            ("impersonate-extra-b", b"a"),
            ("x-user", b"a"),
            ("x-more-a", b"a"),
            ("accept", b"a"),
        ]);
        own.strip(&mut map);
        assert_eq!(map.keys().collect::<Vec<_>>(), ["accept"]);
    }
}
