//! Image references: parsing of short forms, and the full form in which they are compared and stored.

use std::fmt;

use super::{Digest, Error, Result};

/// The registry of a reference without a host.
const DEFAULT_HOST: &str = "docker.io";
/// Host name under which that registry is reached.
const DEFAULT_ENDPOINT: &str = "index.docker.io";

/// An image reference: `host/path:tag` or `host/path@digest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub host: String,
    pub path: String,
    pub version: TagOrDigest,
}

/// The version of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagOrDigest {
    Tag(String),
    Digest(Digest),
}

impl Reference {
    /// Parses a reference: `busybox` is `docker.io/library/busybox:latest`. If it has both a tag and a digest, the tag
    /// is ignored.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = || Error::Reference(text.to_owned());
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => {
                (name, Some(Digest::try_from(digest.to_owned()).map_err(|_| invalid())?))
            }
            None => (text, None),
        };
        let (name, tag) = match name.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (name, None),
        };
        let (host, path) = split_host(name);
        let valid = is_host(&host)
            && path.split('/').all(is_component)
            && host.len() + path.len() < 255
            && tag.is_none_or(is_tag)
            && !(digest.is_none() && is_hex_id(name));
        if !valid {
            return Err(invalid());
        }
        let version = match digest {
            Some(digest) => TagOrDigest::Digest(digest),
            None => TagOrDigest::Tag(tag.unwrap_or("latest").to_owned()),
        };
        Ok(Self { host, path, version })
    }

    /// The name without tag or digest.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.host, self.path)
    }

    /// The same repository with a digest instead of the tag.
    pub fn with_digest(&self, digest: &Digest) -> Self {
        Self { version: TagOrDigest::Digest(digest.clone()), ..self.clone() }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            TagOrDigest::Tag(tag) => write!(f, "{}/{}:{tag}", self.host, self.path),
            TagOrDigest::Digest(digest) => write!(f, "{}/{}@{digest}", self.host, self.path),
        }
    }
}

impl TagOrDigest {
    pub(super) fn as_text(&self) -> String {
        match self {
            Self::Tag(tag) => tag.clone(),
            Self::Digest(digest) => digest.to_string(),
        }
    }
}

/// URL of a registry, unless the configuration has another one.
pub(super) fn endpoint(host: &str) -> String {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    let loopback =
        name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let scheme = if loopback { "http" } else { "https" };
    format!("{scheme}://{}", if host == DEFAULT_HOST { DEFAULT_ENDPOINT } else { host })
}

fn split_host(name: &str) -> (String, String) {
    let (host, path) = match name.split_once('/') {
        Some((host, path)) if looks_like_host(host) => (host, path),
        _ => (DEFAULT_HOST, name),
    };
    let host = if host == DEFAULT_ENDPOINT { DEFAULT_HOST } else { host };
    if host == DEFAULT_HOST && !path.contains('/') {
        (host.to_owned(), format!("library/{path}"))
    } else {
        (host.to_owned(), path.to_owned())
    }
}

fn looks_like_host(text: &str) -> bool {
    text == "localhost" || text.contains(['.', ':']) || text.bytes().any(|b| b.is_ascii_uppercase())
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let named = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => name.split('.').all(label),
    };
    named && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Whether a path component is valid: lower-case words, joined by one `.`, one or two `_`, or any number of `-`.
fn is_component(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = text.bytes().next().is_some_and(word) && text.bytes().next_back().is_some_and(word);
    let mut separators = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    ends && separators.all(|s| matches!(s, "" | "." | "_" | "__") || s.bytes().all(|b| b == b'-'))
}

fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

/// Whether a name could be mistaken for an image id.
fn is_hex_id(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_forms() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for (text, full) in [
            ("busybox", "docker.io/library/busybox:latest".to_owned()),
            ("index.docker.io/busybox:1", "docker.io/library/busybox:1".to_owned()),
            ("a/b", "docker.io/a/b:latest".to_owned()),
            ("localhost/a", "localhost/a:latest".to_owned()),
            ("127.0.0.1:5000/a/b__c:v1.2-x", "127.0.0.1:5000/a/b__c:v1.2-x".to_owned()),
            ("[::1]:5000/a", "[::1]:5000/a:latest".to_owned()),
            (&format!("r.example/a:tag@{digest}"), format!("r.example/a@{digest}")),
        ] {
            assert_eq!(Reference::parse(text).expect(text).to_string(), full);
        }
    }

    #[test]
    fn refused() {
        let id = "0".repeat(64);
        for text in [
            "",
            "Busy",
            "a//b",
            "a:",
            "a@sha256:12",
            "a/../b",
            "a b",
            "-a",
            "r.example/A",
            "h:99999/a",
            &id,
        ] {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
    }
}
