//! The requests of an attack: sequences that can be written to a file and replayed.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// Requests that are sent one after another, or concurrently.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sequence {
    pub(crate) requests: Vec<Request>,
    #[serde(default)]
    pub(crate) at_once: bool,
}

/// A request. Nothing is escaped: it is sent unchanged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) user: Caller,
    pub(crate) method: String,
    /// Path and query.
    pub(crate) path: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Body::is_none")]
    pub(crate) body: Body,
}

/// The user that sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Caller {
    /// Member of `system:masters`.
    Admin,
    /// Has the role `admin` in the namespaces of the attack, and no other.
    Tenant,
    /// `system:node:n1`.
    Node,
    /// Has no credentials except those in the headers.
    Anonymous,
}

/// The body of a request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Body {
    #[default]
    None,
    /// Text with placeholders for [`super::expand`].
    Text(String),
    /// Base64 of the bytes that are sent.
    Bytes(String),
}

impl Sequence {
    /// What is nested in the bodies, regardless of the depth: `deep object, nest parentheses`; `bytes` if that is
    /// unknown.
    pub(crate) fn nesting(&self) -> String {
        let mut found = BTreeSet::new();
        for request in &self.requests {
            let Body::Text(text) = &request.body else {
                found.extend(matches!(request.body, Body::Bytes(_)).then_some("bytes".to_owned()));
                continue;
            };
            for placeholder in text.split('⟦').skip(1) {
                let mut words = placeholder.split(['⟧', ' ']);
                if let (Some(word @ ("deep" | "nest")), _, Some(what)) =
                    (words.next(), words.next(), words.next())
                {
                    found.insert(format!("{word} {what}"));
                }
            }
        }
        found.into_iter().collect::<Vec<_>>().join(", ")
    }
}

impl Body {
    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes(STANDARD.encode(bytes))
    }

    fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

impl Request {
    pub(crate) fn new(user: Caller, method: &str, path: impl Into<String>) -> Self {
        let (method, path) = (method.to_owned(), path.into());
        Self { user, method, path, headers: Vec::new(), body: Body::None }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    pub(crate) fn json(self, text: impl Into<String>) -> Self {
        self.header("content-type", "application/json").body(Body::Text(text.into()))
    }

    /// The path without its query.
    pub(crate) fn bare_path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// Whether the response may be endless.
    pub(crate) fn is_stream(&self) -> bool {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        let upgrade = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("upgrade"));
        upgrade
            || self.path.contains("/watch/")
            || self.path.contains("/proxy")
            || query.contains("watch")
            || query.contains("follow")
            || query.contains("seconds=")
    }
}

/// Reads a file of sequences, one per line.
pub(crate) fn read(file: &Path) -> Result<Vec<Sequence>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Writes sequences to a file, one per line, after a comment.
pub(crate) fn write(file: &Path, comment: &str, sequences: &[Sequence]) -> Result<()> {
    let mut text: String = comment.lines().map(|line| format!("# {line}\n")).collect();
    for sequence in sequences {
        text.push_str(&serde_json::to_string(sequence)?);
        text.push('\n');
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text).with_context(|| file.display().to_string())
}
