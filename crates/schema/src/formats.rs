//! The formats that declarative validation can require of strings.

use object::{Value, names};

use crate::{ErrorList, ErrorType, FieldPath};

/// Maximum length of a device attribute's name, and of the domain before it.
const IDENTIFIER: usize = 32;
const DOMAIN: usize = 63;
const POOL: usize = 253;

/// Reports the errors of `text` in this format.
pub(crate) fn validate_format(format: &str, text: &str, at: &FieldPath, errs: &mut ErrorList) {
    let wrong = match format {
        "short-name" => names::dns1123_label(text),
        "long-name" => names::dns1123_subdomain(text),
        "long-name-caseless" => caseless(text),
        "label-key" => names::qualified_name(text),
        "prefixed-label-key" => prefixed(text),
        "path-segment-name" => names::path_segment_name(text),
        "uuid" => uuid(text),
        "resource-pool-name" => return pool(text, at, errs),
        "resource-fully-qualified-name" => return fully_qualified(text, at, errs),
        "extended-resource-name" => extended(text),
        other => unreachable!("no field declares the format {other}"),
    };
    errs.invalid_each(at, text, in_bytes(wrong));
}

/// Declarative validation counts bytes, so its messages say bytes.
fn in_bytes(mut wrong: Vec<String>) -> Vec<String> {
    for message in &mut wrong {
        if message.starts_with("must be no more than") {
            *message = message.replace(" characters", " bytes");
        }
    }
    wrong
}

fn caseless(text: &str) -> Vec<String> {
    let mut wrong = names::dns1123_subdomain(&text.to_lowercase());
    for message in &mut wrong {
        *message = message
            .replace("a lowercase RFC 1123 subdomain", "an RFC 1123 subdomain")
            .replace("lower case alphanumeric", "alphanumeric")
            .replace("'example.com'", "'Example.com'");
    }
    wrong
}

fn prefixed(text: &str) -> Vec<String> {
    let mut wrong = names::qualified_name(text);
    if wrong.is_empty() && !text.contains('/') {
        wrong.push("must include a prefix (e.g. 'example.com/key')".to_owned());
    }
    wrong
}

fn uuid(text: &str) -> Vec<String> {
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    };
    match text.len() == 36 && text.bytes().enumerate().all(fits) {
        true => Vec::new(),
        false => vec![UUID.to_owned()],
    }
}

const UUID: &str = "must be a lowercase UUID in 8-4-4-4-12 format";

fn pool(text: &str, at: &FieldPath, errs: &mut ErrorList) {
    errs.max_bytes(at, text, POOL);
    for (i, part) in text.split('/').enumerate() {
        if part.is_empty() {
            errs.invalid(at, text, format!("segment {i}: must not be empty"));
        } else {
            prefix(&format!("segment {i}: "), part, names::dns1123_subdomain(part), at, errs);
        }
    }
}

/// Validates the name of a device attribute: a C identifier, optionally with a domain prefix.
fn check_property(text: &str, at: &FieldPath, errs: &mut ErrorList) {
    let identifier = |name: &str, errs: &mut ErrorList| {
        errs.max_bytes(at, name, IDENTIFIER);
        errs.invalid_each(at, name, names::c_identifier(name));
    };
    match text.split('/').collect::<Vec<_>>()[..] {
        [name] => identifier(name, errs),
        [domain, name] => {
            if domain.is_empty() {
                errs.invalid(at, "", "prefix must not be empty");
            } else {
                errs.max_bytes(at, domain, DOMAIN);
                prefix("prefix: ", domain, names::dns1123_subdomain(domain), at, errs);
            }
            if name.is_empty() {
                errs.invalid(at, "", "name must not be empty");
            } else {
                identifier(name, errs);
            }
        }
        _ => {}
    }
}

fn fully_qualified(text: &str, at: &FieldPath, errs: &mut ErrorList) {
    check_property(text, at, errs);
    if !text.contains('/') {
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        errs.invalid(at, text, why);
    }
}

fn extended(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if !text.contains('/') {
        let why = "a name must be a domain-prefixed path, such as 'example.com/my-prop'";
        wrong.push(why.to_owned());
    } else if text.contains("kubernetes.io/") {
        wrong.push("must not have \"kubernetes.io/\" domain".to_owned());
    }
    if text.starts_with("requests.") {
        wrong.push("must not have \"requests.\" prefix".to_owned());
    }
    wrong.extend(names::qualified_name(&format!("requests.{text}")));
    wrong
}

fn prefix(with: &str, bad: &str, wrong: Vec<String>, at: &FieldPath, errs: &mut ErrorList) {
    for wrong in in_bytes(wrong) {
        errs.push(ErrorType::Invalid, at, Value::from(bad), format!("{with}{wrong}"));
    }
}
