//! The semver library.

use std::{cmp::Ordering, fmt, sync::Arc};

use object::quote::quote;

use super::{Opaque, Outcome, text_of};
use crate::{error::Error, function::Function, value::Value};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "semver",
        overloads: &[
            ("string_to_semver", "(string) -> Semver"),
            ("string_bool_to_semver", "(string, bool) -> Semver"),
        ],
        body: |_, args| {
            let version = parse(args)?.map_err(Error::new)?;
            Ok(Value::Opaque(Opaque::Semver(Arc::new(version))))
        },
    },
    Function {
        name: "isSemver",
        overloads: &[
            ("is_semver_string", "(string) -> bool"),
            ("is_semver_string_bool", "(string, bool) -> bool"),
        ],
        body: |_, args| parse(args).map(|version| Value::Bool(version.is_ok())),
    },
    Function {
        name: "isGreaterThan",
        overloads: &[("semver_is_greater_than", "Semver.(Semver) -> bool")],
        body: |_, args| compare(args, |order| Value::Bool(order.is_gt())),
    },
    Function {
        name: "isLessThan",
        overloads: &[("semver_is_less_than", "Semver.(Semver) -> bool")],
        body: |_, args| compare(args, |order| Value::Bool(order.is_lt())),
    },
    Function {
        name: "compareTo",
        overloads: &[("semver_compare_to", "Semver.(Semver) -> int")],
        body: |_, args| compare(args, |order| Value::Int(order as i64)),
    },
    Function {
        name: "major",
        overloads: &[("semver_major", "Semver.() -> int")],
        body: |_, args| part(args, |version| version.major),
    },
    Function {
        name: "minor",
        overloads: &[("semver_minor", "Semver.() -> int")],
        body: |_, args| part(args, |version| version.minor),
    },
    Function {
        name: "patch",
        overloads: &[("semver_patch", "Semver.() -> int")],
        body: |_, args| part(args, |version| version.patch),
    },
];

/// A semantic version.
#[derive(Debug)]
pub struct Semver {
    text: String,
    major: u64,
    minor: u64,
    patch: u64,
    pre: Vec<String>,
}

impl Semver {
    /// The precedence of versions; build metadata is ignored.
    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| match (self.pre.len(), other.pre.len()) {
            (0, 0) => Ordering::Equal,
            (0, _) => Ordering::Greater,
            (_, 0) => Ordering::Less,
            (a, b) => {
                let parts = self.pre.iter().zip(&other.pre).map(|(a, b)| compare_parts(a, b));
                parts.fold(Ordering::Equal, Ordering::then).then(a.cmp(&b))
            }
        })
    }
}

impl Value<'_> {
    /// Parses a version.
    pub(crate) fn semver(text: &str) -> Result<Self, String> {
        read(text).map(|version| Self::Opaque(Opaque::Semver(Arc::new(version))))
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Numeric identifiers precede alphanumeric ones.
fn compare_parts(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

fn parse(args: &[Value<'_>]) -> Result<Result<Semver, String>, Error> {
    let (text, normalize) = match args {
        [text] => (text_of(text)?, false),
        [text, Value::Bool(normalize)] => (text_of(text)?, *normalize),
        _ => return Err(Error::no_overload()),
    };
    Ok(if normalize { normalized(text).and_then(|text| read(&text)) } else { read(text) })
}

/// Removes `v` and leading zeros, and adds missing numbers.
fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
    for part in parts.iter_mut().filter(|part| part.len() > 1) {
        let rest = part.trim_start_matches('0');
        let number = rest.starts_with(|c: char| c.is_ascii_digit());
        *part = if number { rest.to_owned() } else { format!("0{rest}") };
    }
    if parts.len() < 3 && parts.last().is_some_and(|part| part.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    while parts.len() < 3 {
        parts.push("0".to_owned());
    }
    Ok(parts.join("."))
}

fn read(text: &str) -> Result<Semver, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts[..] else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let major = number(major, "major", "Major")?;
    let minor = number(minor, "minor", "Minor")?;
    let (rest, build) =
        rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
    let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
    let patch = number(patch, "patch", "Patch")?;
    let allowed = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let pre: Vec<&str> = pre.map_or_else(Vec::new, |pre| pre.split('.').collect());
    for part in &pre {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if part.is_empty() {
            return Err("Prerelease is empty".to_owned());
        } else if digits && part.len() > 1 && part.starts_with('0') {
            let quoted = quote(part);
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {quoted}"
            ));
        } else if !allowed(part) {
            return Err(format!("Invalid character(s) found in prerelease {}", quote(part)));
        }
    }
    for part in build.map_or_else(Vec::new, |build| build.split('.').collect::<Vec<_>>()) {
        if part.is_empty() {
            return Err("Build meta data is empty".to_owned());
        } else if !allowed(part) {
            return Err(format!("Invalid character(s) found in build meta data {}", quote(part)));
        }
    }
    let pre = pre.into_iter().map(str::to_owned).collect();
    Ok(Semver { text: text.to_owned(), major, minor, patch, pre })
}

fn number(text: &str, name: &str, title: &str) -> Result<u64, String> {
    let quoted = quote(text);
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {quoted}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {quoted}"));
    }
    let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {quoted}: {why}"))
}

fn of<'v>(value: &'v Value<'_>) -> Result<&'v Semver, Error> {
    match value {
        Value::Opaque(Opaque::Semver(version)) => Ok(version),
        _ => Err(Error::no_overload()),
    }
}

fn compare<'a>(args: &[Value<'a>], result: fn(Ordering) -> Value<'static>) -> Outcome<'a> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    Ok(result(of(a)?.cmp(of(b)?)))
}

fn part<'a>(args: &[Value<'a>], which: fn(&Semver) -> u64) -> Outcome<'a> {
    let [version] = args else { return Err(Error::no_overload()) };
    Ok(Value::Int(i64::try_from(which(of(version)?)).unwrap_or(i64::MAX)))
}
