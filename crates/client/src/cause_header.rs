//! The cause of a write as an HTTP header: JSON on one line, in ASCII.

use std::fmt::Write;

use http::HeaderValue;
use object::{NamespacedName, Value, WriteCause, from_json, to_json};

pub const CAUSE_HEADER: &str = "tiphys-cause";
const LARGEST: usize = 4096;

/// Encodes a cause; `None` if it is too long.
pub fn cause_to_header(cause: &WriteCause) -> Option<HeaderValue> {
    let mut tree = Value::object();
    tree["rule"] = cause.reason.clone().into();
    tree["kind"] = cause.kind.clone().into();
    tree["namespace"] = cause.key.namespace.clone().into();
    tree["name"] = cause.key.name.clone().into();
    tree["uid"] = cause.uid.clone().into();
    tree["revision"] = cause.revision.into();
    let json = String::from_utf8(to_json(&tree)).ok()?;
    let mut ascii = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                write!(ascii, "\\u{unit:04x}").ok()?;
            }
        }
    }
    if ascii.len() > LARGEST { None } else { HeaderValue::try_from(ascii).ok() }
}

pub fn cause_from_header(header: &HeaderValue) -> Option<WriteCause> {
    let tree = from_json(header.as_bytes().get(..LARGEST.min(header.len()))?).ok()?;
    let text = |name: &str| tree[name].as_str().unwrap_or_default();
    Some(WriteCause {
        reason: text("rule").into(),
        kind: text("kind").into(),
        key: NamespacedName::new(text("namespace"), text("name")),
        uid: text("uid").into(),
        revision: tree["revision"].as_i64().and_then(|n| n.try_into().ok()).unwrap_or_default(),
    })
}

#[test]
fn a_cause_survives_the_way() {
    let cause = WriteCause {
        reason: "too few pods – at \"noon\"\n𝄞".into(),
        kind: "ReplicaSet".into(),
        key: NamespacedName::new("default", "web"),
        uid: "1-2".into(),
        revision: 42,
    };
    let header = cause_to_header(&cause).unwrap();
    assert!(header.to_str().is_ok());
    assert_eq!(cause_from_header(&header), Some(cause));
}
