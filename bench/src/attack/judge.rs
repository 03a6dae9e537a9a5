//! Decides which responses are faults. Every response that only looks like a fault is in a list with its reason.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{request::Request, send::Answer};

/// Something that the server must not do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// Identifies the cause; equal for faults with the same cause, as far as that can be known.
    pub(crate) key: String,
    /// Description for people.
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(key: impl Into<String>, text: impl Into<String>) -> Self {
        Self { key: key.into(), text: text.into() }
    }
}

/// Responses with status 500 and above that upstream sends too: a part of the message, a part of the path, and the
/// reason.
const EXPECTED: &[(&str, &str, &str)] = &[
    (
        "strconv.ParseUint: parsing",
        "",
        "upstream's storage passes on that a resourceVersion in a body is no number, as 500",
    ),
    (
        "failed to create typed patch object",
        "",
        "upstream's apply passes on what its merge library says of the object, as 500",
    ),
    (
        "",
        "/proxy",
        "what is behind a proxy answers for itself, or does not answer at all: 502, 503",
    ),
    ("", "/exec", "the node cannot be reached: upstream passes the error of the dial on as 500"),
    ("", "/attach", "as exec"),
    ("", "/portforward", "as exec"),
    ("", "/log", "as exec"),
    (
        "",
        ".example.com/",
        "an aggregated server or a conversion webhook that is hostile answers for itself: 500, 503",
    ),
    ("failed calling webhook", "", "upstream makes an internal error of a webhook that fails"),
    ("conversion webhook for", "", "upstream makes an internal error of a conversion that fails"),
    ("no endpoints available for service", "", "503 as upstream"),
    ("error trying to reach service", "", "503 as upstream"),
    ("failed to configure", "", "upstream: policies that do not compile deny with 500"),
    ("", "/readyz", "a check that fails is a 500"),
    ("", "/healthz", "as readyz"),
    ("", "/livez", "as readyz"),
    ("", "timeout=", "504: the client asked for less time than it takes"),
    (
        "the server was unable to return a response in the time allotted",
        "",
        "504: the client asked for less time than it takes",
    ),
    ("Timeout: request did not complete", "", "504: the client asked for less time than it takes"),
    ("Too large resource version", "", "504 with a cause, as upstream"),
    (
        "failed to allocate requested HealthCheck NodePort",
        "",
        "upstream's allocator says so before validation, as an internal error",
    ),
    (
        "unsupported role reference kind",
        "",
        "upstream resolves the role before it validates the binding, and passes the plain error on",
    ),
    ("unable to generate a unique name", "", "upstream gives up with 500 after eight names"),
];

/// The fault that a response reveals, if any.
pub(crate) fn judge(request: &Request, answer: &Answer) -> Option<Fault> {
    let (method, path) = (&request.method, request.bare_path());
    if answer.silent {
        let text = format!(
            "{method} {path}: no answer, the connection ended after {:?} with code {}",
            answer.took, answer.code
        );
        return Some(Fault::new(format!("no answer: {method} {}", pattern(path)), text));
    }
    if answer.code < 500 {
        return None;
    }
    let message = message(answer);
    let expected =
        EXPECTED.iter().any(|(said, at, _)| message.contains(said) && request.path.contains(at));
    if expected {
        return None;
    }
    let key = format!("{} {}", answer.code, digest(&message));
    Some(Fault::new(key, format!("{method} {path}: {} {message}", answer.code)))
}

/// The message of a Status, or the beginning of the body.
pub(crate) fn message(answer: &Answer) -> String {
    let status: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let said = status.as_ref().and_then(|status| status["message"].as_str());
    let text =
        said.map_or_else(|| String::from_utf8_lossy(&answer.body).into_owned(), str::to_owned);
    text.chars().filter(|c| !c.is_control()).take(400).collect()
}

/// A path without object names.
fn pattern(path: &str) -> String {
    path.split('/')
        .map(|part| {
            if part.contains(|c: char| c.is_ascii_digit() && c > '2') || part.len() > 40 {
                "…"
            } else {
                part
            }
        })
        .collect::<Vec<_>>()
        .join("/")
}

/// A message without quoted words and numbers, which differ between requests.
pub(crate) fn digest(message: &str) -> String {
    let mut out = String::new();
    let mut quoted = false;
    for c in message.chars() {
        match c {
            '"' | '\'' | '`' => quoted = !quoted,
            _ if quoted => {}
            '0'..='9' => out.push('#'),
            c => out.push(c),
        }
        if out.len() > 120 {
            break;
        }
    }
    while out.contains("##") {
        out = out.replace("##", "#");
    }
    out
}

#[test]
fn messages_of_the_same_cause_are_one() {
    assert_eq!(digest(r#"pods "a-5" at 17:30 failed"#), digest(r#"pods "b" at 1:2 failed"#));
}
