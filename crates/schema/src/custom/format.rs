//! The formats of strings and numbers in CRD schemas.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::{net::Ipv6Addr, sync::LazyLock};

use object::{Duration, names};
use regex::Regex;

use super::schema::JsonSchema;

/// The format of a schema if it is supported for its type; otherwise empty.
pub(super) fn supported_format(schema: &JsonSchema) -> &str {
    let format = schema.text("format");
    let counts = match &*schema.types() {
        [ty] => is_format_of(ty, format),
        _ => is_known(format),
    };
    if counts { format } else { "" }
}

/// The format of a schema if it is not supported for its declared type.
pub fn unknown_format(schema: &JsonSchema) -> Option<&str> {
    let format = schema.text("format");
    Some(format).filter(|format| !format.is_empty() && !is_format_of(schema.ty(), format))
}

fn is_format_of(ty: &str, format: &str) -> bool {
    match ty {
        "" | "string" => is_known(format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Whether the format is known for strings.
pub(super) fn is_known(format: &str) -> bool {
    check(format, "").is_some()
}

/// Whether a string has the format.
pub(super) fn matches_format(format: &str, text: &str) -> bool {
    check(format, text).unwrap_or(true)
}

/// Whether a string has the format; `None`: the format is unknown.
fn check(format: &str, text: &str) -> Option<bool> {
    Some(match &*format.replace('-', "") {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => {
            HOST.is_match(text) && text.len() <= 255 && text.split('.').all(|part| part.len() <= 63)
        }
        "ipv4" => text.contains('.') && names::sloppy_ip(text).is_some(),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => names::sloppy_cidr(text).is_some(),
        "mac" => is_mac(text),
        "uuid" => UUID.is_match(text),
        "uuid3" => UUID3.is_match(text),
        "uuid4" => UUID4.is_match(text),
        "uuid5" => UUID5.is_match(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => text.len() == 11 && SSN.is_match(text),
        "hexcolor" => HEX.is_match(text),
        "rgbcolor" => RGB.is_match(text),
        "byte" => BASE64.is_match(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "datetime" => is_date_time(text),
        "k8sshortname" => text.len() <= 63 && LABEL.is_match(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(|part| LABEL.is_match(part)),
        "password" => true,
        _ => return None,
    })
}

static HOST: LazyLock<Regex> = LazyLock::new(|| {
    compile_static(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$",
    )
});
static UUID: LazyLock<Regex> = LazyLock::new(|| {
    compile_static(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
});
static UUID3: LazyLock<Regex> = LazyLock::new(|| {
    compile_static(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
});
static UUID4: LazyLock<Regex> = LazyLock::new(|| {
    compile_static(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$")
});
static UUID5: LazyLock<Regex> = LazyLock::new(|| {
    compile_static(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$")
});
static CARD: LazyLock<Regex> = LazyLock::new(|| {
    compile_static(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});
static SSN: LazyLock<Regex> =
    LazyLock::new(|| compile_static(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static HEX: LazyLock<Regex> =
    LazyLock::new(|| compile_static(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB: LazyLock<Regex> = LazyLock::new(|| {
    compile_static(
        r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*\)$",
    )
});
static BASE64: LazyLock<Regex> = LazyLock::new(|| {
    compile_static(
        r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$",
    )
});
static LABEL: LazyLock<Regex> =
    LazyLock::new(|| compile_static(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"));
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    compile_static(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
});
static SPAN: LazyLock<Regex> = LazyLock::new(|| compile_static(r"([0-9]+)\s*([A-Za-zµ]+)"));
static SCHEME: LazyLock<Regex> = LazyLock::new(|| compile_static(r"^[a-zA-Z][a-zA-Z0-9+.-]*$"));

#[expect(clippy::expect_used, reason = "no input: a test compiles each")]
fn compile_static(pattern: &str) -> Regex {
    Regex::new(pattern).expect("written in this file")
}

/// Whether the text is a request URI: a path, or a URL with a scheme.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return false;
    } else if text == "*" {
        return true;
    }
    let (scheme, rest) = match text.split_once(':') {
        Some(("", _)) => return false,
        Some((scheme, rest)) if SCHEME.is_match(scheme) => (scheme, rest),
        _ => ("", text),
    };
    let (rest, _) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        None => escapes(rest),
        Some(rest) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            is_host(host) && escapes(path)
        }
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((_, port)) => ("", port),
            None => return false,
        },
        None => host.split_at(host.rfind(':').unwrap_or(host.len())),
    };
    let port = port.strip_prefix(':').unwrap_or(port);
    let odd = |c: char| c == ' ' || c.is_control() || "\"<>\\^`{|}#".contains(c);
    port.bytes().all(|b| b.is_ascii_digit()) && !name.contains(odd) && escapes(name)
}

/// Whether every `%` starts a valid escape.
fn escapes(text: &str) -> bool {
    let bytes = text.as_bytes();
    let escape = |at: usize| {
        bytes.get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    };
    bytes.iter().enumerate().all(|(at, b)| *b != b'%' || escape(at))
}

/// Whether the text is an email address, with or without a display name: `a@b`, `A <a@b>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(head) => match head.rsplit_once('<') {
            Some((_, address)) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| {
                c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
            })
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']');
    (quoted || local.split('.').all(atom)) && (literal || domain.split('.').all(atom))
}

fn is_mac(text: &str) -> bool {
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let of = |separator: char, length: usize, counts: &[usize]| {
        let parts: Vec<_> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, length))
    };
    of(':', 2, &[6, 8, 20]) || of('-', 2, &[6, 8, 20]) || of('.', 4, &[3, 4, 10])
}

fn digits(text: &str, odd: impl Fn(char) -> bool) -> Vec<u32> {
    let kept = text.chars().filter(|c| !odd(*c));
    kept.map(|c| if c == 'X' { 10 } else { c.to_digit(10).unwrap_or(99) }).collect()
}

fn separates(c: char) -> bool {
    c == '-' || c.is_ascii_whitespace()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits(text, separates);
    let Some((last, first)) = digits.split_last() else { return false };
    let right = first.len() == 9 && first.iter().all(|d| *d < 10) && *last <= 10;
    right && (1..).zip(&digits).map(|(n, d)| n * d).sum::<u32>() % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits(text, separates);
    let right = digits.len() == 13 && digits.iter().all(|d| *d < 10);
    right && digits.iter().zip([1, 3].iter().cycle()).map(|(d, n)| n * d).sum::<u32>() % 10 == 0
}

fn is_credit_card(text: &str) -> bool {
    let number: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum = digits(&number, |_| false).iter().rev().enumerate().fold(0, |sum, (at, digit)| {
        let digit = if at % 2 == 1 { digit * 2 } else { *digit };
        sum + digit / 10 + digit % 10
    });
    CARD.is_match(&number) && sum % 10 == 0
}

fn is_date(text: &str) -> bool {
    let number = |from: usize, to: usize| {
        let part = text.get(from..to).filter(|part| part.bytes().all(|b| b.is_ascii_digit()))?;
        part.parse::<u32>().ok()
    };
    let dashes = matches!(text.as_bytes(), [_, _, _, _, b'-', _, _, b'-', _, _]);
    let (Some(year), Some(month), Some(day)) = (number(0, 4), number(5, 7), number(8, 10)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    dashes && (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = TIME.captures(time) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// Whether the text is a duration as Go writes it, or with other units: `3 days`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 18] = [
        "ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "nano", "micro", "milli",
        "sec", "min", "hour", "day",
    ];
    const PREFIXES: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let unit = |unit: &str| {
        let unit = unit.to_lowercase();
        UNITS.contains(&&*unit) || PREFIXES.iter().any(|prefix| unit.starts_with(prefix))
    };
    let number = |text: &str| text.parse::<i64>().is_ok();
    Duration::parse_nanos(text).is_ok()
        || SPAN.captures_iter(text).all(|found| number(&found[1]))
            && SPAN.captures_iter(text).any(|found| unit(&found[2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_take_what_they_are_for() {
        for (format, right, wrong) in [
            ("uri", "http://a.b:80/c?d", "a b"),
            ("uri", "mailto:a@b", "http://a b/"),
            ("email", "A <a@b.c>", "a@"),
            ("hostname", "a.bc", "a.b"),
            ("ipv4", "01.2.3.4", "1.2.3"),
            ("ipv6", "::1", "1.2.3.4"),
            ("cidr", "10.0.0.1/8", "10.0.0.0/33"),
            ("mac", "00:00:5e:00:53:01", "00:00"),
            ("isbn10", "0321751043", "0321751044"),
            ("isbn13", "978-0321751041", "978-0321751042"),
            ("creditcard", "4111-1111-1111-1111", "4111-1111-1111-1112"),
            ("byte", "YQ==", ""),
            ("date", "2024-02-29", "2023-02-29"),
            ("date-time", "2024-01-02t03:04:05z", "2024-01-02"),
            ("duration", "P1D", "5"),
            ("duration", "1h30m", ""),
            ("rgbcolor", "rgb(1,2,3)", "rgb(1,2)"),
            ("k8s-short-name", "a-b", "a.b"),
            ("k8s-long-name", "a.b", "A_"),
        ] {
            assert!(matches_format(format, right), "{format}: {right}");
            assert!(!matches_format(format, wrong), "{format}: {wrong}");
        }
    }
}
