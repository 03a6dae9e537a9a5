//! Validation of names. Each function returns upstream's error messages; an empty list means that the name is valid.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The segment of API paths before the name of a namespace: `/api/v1/namespaces/NAME/…`.
pub const NAMESPACES: &str = "namespaces";

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const KEY_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// Validates a DNS label: `my-name`.
pub fn dns1123_label(name: &str) -> Vec<String> {
    let mut wrong = max_length_error(name, 63, "characters");
    if !is_label(name) {
        wrong.push(if is_subdomain(name) {
            "must not contain dots".to_owned()
        } else {
            regex_error("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character", LABEL, &["my-name", "123-abc"])
        });
    }
    wrong
}

/// Validates a DNS subdomain, labels separated by dots: the name of most objects.
pub fn dns1123_subdomain(name: &str) -> Vec<String> {
    subdomain_within(name, "characters")
}

/// Validates a wildcard subdomain: `*.` and a subdomain.
pub fn wildcard_dns1123_subdomain(name: &str) -> Vec<String> {
    let mut wrong = max_length_error(name, 253, "characters");
    if !name.strip_prefix("*.").is_some_and(is_subdomain) {
        wrong.push(regex_error("a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character", &format!("\\*\\.{SUBDOMAIN}"), &["*.example.com"]));
    }
    wrong
}

/// Validates a DNS label that begins with a letter, such as the name of a Service.
pub fn dns1035_label(name: &str) -> Vec<String> {
    let mut wrong = max_length_error(name, 63, "characters");
    if !(is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase())) {
        wrong.push(regex_error("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character", "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    wrong
}

/// Validates a key of labels, annotations, resources or conditions: `example.com/name`.
pub fn qualified_name(name: &str) -> Vec<String> {
    let key = |wrong: &str| regex_error(wrong, KEY, &["MyName", "my.name", "123-abc"]);
    let mut wrong = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        ["", name] => {
            wrong.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            let prefix = subdomain_within(prefix, "bytes");
            wrong.extend(prefix.into_iter().map(|wrong| format!("prefix part {wrong}")));
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                key(KEY_RULE)
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    }
    wrong.extend(
        max_length_error(name, 63, "bytes").into_iter().map(|wrong| format!("name part {wrong}")),
    );
    if !is_key(name) {
        wrong.push(format!("name part {}", key(KEY_RULE)));
    }
    wrong
}

pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = max_length_error(value, 63, "bytes");
    if !(value.is_empty() || is_key(value)) {
        wrong.push(regex_error(
            &format!(
                "a valid label must be an empty string or {}",
                KEY_RULE.trim_start_matches("must ")
            ),
            &format!("({KEY})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// Validates a key of a ConfigMap or Secret, which becomes a file name.
pub fn config_map_key(key: &str) -> Vec<String> {
    let mut wrong = max_length_error(key, 253, "characters");
    if key.is_empty() || !key.bytes().all(is_key_byte) {
        wrong.push(regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    wrong.extend(dot_segment_error(key));
    wrong
}

/// Validates the name of an environment variable by kubectl's strict rules.
pub fn env_var_name(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let digit_first = name.starts_with(|c: char| c.is_ascii_digit());
    if name.is_empty() || digit_first || !name.bytes().all(is_key_byte) {
        wrong.push(regex_error("a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit", "[-._a-zA-Z][-._a-zA-Z0-9]*", &["my.env-name", "MY_ENV.NAME", "MyEnvName1"]));
    }
    wrong.extend(dot_segment_error(name));
    wrong
}

/// Validates the name of an environment variable of a container.
pub fn relaxed_env_var_name(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

pub fn c_identifier(name: &str) -> Vec<String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.bytes().next().is_some_and(|first| !first.is_ascii_digit()) && name.bytes().all(fits) {
        return Vec::new();
    }
    vec![regex_error(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

pub fn port_name(name: &str) -> Vec<String> {
    let mut wrong = max_length_error(name, 15, "characters");
    let fits = |b: u8| b == b'-' || b.is_ascii_digit() || b.is_ascii_lowercase();
    if name.is_empty() || !name.bytes().all(fits) {
        wrong.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

pub fn in_range(n: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&n) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

/// Validates a percentage such as `10%`.
pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    vec![regex_error(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

pub fn http_header_name(name: &str) -> Vec<String> {
    let fits = |b: u8| b == b'-' || b.is_ascii_alphanumeric();
    if !name.is_empty() && name.bytes().all(fits) {
        return Vec::new();
    }
    vec![regex_error(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// Validates a name that can be a path segment, such as that of a Role or of a stored version.
pub fn path_segment_name(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    path_segment_prefix(name)
}

/// Validates a `generateName` where names are path segments.
pub fn path_segment_prefix(name: &str) -> Vec<String> {
    let holds = |part: &&str| name.contains(*part);
    ["/", "%"]
        .iter()
        .filter(|part| holds(part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// A `generateName` may end in a dash: replaces it so that the functions above accept the prefix.
pub fn mask_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut kept = rest.to_owned();
            kept.pop();
            kept + "a"
        }
        _ => prefix.to_owned(),
    }
}

/// Validates an IP address in canonical form, for fields added after 1.33.
pub fn ip(text: &str) -> Vec<String> {
    let wrong = legacy_ip(text, &[]);
    match sloppy_ip(text) {
        Some(address) if wrong.is_empty() && address.to_string() != text => {
            vec![format!(
                "must be in canonical form ({})",
                crate::quote::quote(&address.to_string())
            )]
        }
        _ => wrong,
    }
}

/// Validates an IP address of an older field: a value in `before` may stay as it is.
pub fn legacy_ip(text: &str, before: &[&str]) -> Vec<String> {
    if before.contains(&text) {
        return Vec::new();
    } else if sloppy_ip(text).is_none() {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()];
    }
    match text.parse::<IpAddr>() {
        Err(_) => vec!["must not have leading 0s".to_owned()],
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            vec!["must not be an IPv4-mapped IPv6 address".to_owned()]
        }
        Ok(_) => Vec::new(),
    }
}

/// Validates a CIDR in canonical form.
pub fn cidr(text: &str) -> Vec<String> {
    let wrong = legacy_cidr(text, &[]);
    match sloppy_cidr(text) {
        Some((address, length)) if wrong.is_empty() && format!("{address}/{length}") != text => {
            let right = crate::quote::quote(&format!("{address}/{length}"));
            vec![format!("must be in canonical form ({right})")]
        }
        _ => wrong,
    }
}

/// Validates a CIDR of an older field: a value in `before` may stay as it is.
pub fn legacy_cidr(text: &str, before: &[&str]) -> Vec<String> {
    let wrong = |wrong: &str| vec![wrong.to_owned()];
    if before.contains(&text) {
        return Vec::new();
    }
    let Some((address, length)) = sloppy_cidr(text) else {
        return wrong("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    };
    let (left, right) = text.split_once('/').unwrap_or((text, ""));
    let Ok(written) = left
        .parse::<IpAddr>()
        .map_err(drop)
        .and_then(|ip| if right.len() > 1 && right.starts_with('0') { Err(()) } else { Ok(ip) })
    else {
        return wrong("must not have leading 0s in IP or prefix length");
    };
    match written {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            wrong("must not have an IPv4-mapped IPv6 address")
        }
        _ if network_address(address, length) != address => {
            wrong("must not have bits set beyond the prefix length")
        }
        _ => Vec::new(),
    }
}

/// Parses an IP address, allowing leading zeros in IPv4 ones.
pub fn sloppy_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let address: Ipv6Addr = match text.rsplit_once(':') {
            Some((left, right)) if right.contains('.') => {
                format!("{left}:{}", sloppy_ipv4(right)?).parse().ok()?
            }
            _ => text.parse().ok()?,
        };
        return Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4));
    }
    sloppy_ipv4(text).map(IpAddr::V4)
}

/// Parses a CIDR: an address and its prefix length.
pub fn sloppy_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let six = address.contains(':');
    let address = sloppy_ip(address)?;
    let most: u8 = if six { 128 } else { 32 };
    let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    let length: u8 = length.parse().ok().filter(|n| digits && *n <= most)?;
    Some((address, length))
}

/// Whether the CIDR `part` is a strict subnet of `whole`.
pub fn is_strict_subnet(part: (IpAddr, u8), whole: (IpAddr, u8)) -> bool {
    part.0.is_ipv4() == whole.0.is_ipv4()
        && part.1 > whole.1
        && network_address(part.0, whole.1) == network_address(whole.0, whole.1)
}

fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = [0; 4];
    let mut given = text.split('.');
    for part in &mut parts {
        let text = given.next().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
        *part = text.parse::<u8>().ok()?;
    }
    given.next().is_none().then_some(parts.into())
}

/// The address with all bits after the prefix cleared.
pub fn network_address(address: IpAddr, length: u8) -> IpAddr {
    let keep = u32::from(length);
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32u32.saturating_sub(keep)).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(keep)).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    }
}

fn subdomain_within(name: &str, unit: &str) -> Vec<String> {
    let mut wrong = max_length_error(name, 253, unit);
    if !is_subdomain(name) {
        wrong.push(regex_error(SUBDOMAIN_RULE, SUBDOMAIN, &["example.com"]));
    }
    wrong
}

fn max_length_error(name: &str, most: usize, unit: &str) -> Vec<String> {
    if name.len() <= most {
        return Vec::new();
    }
    vec![format!("must be no more than {most} {unit}")]
}

fn dot_segment_error(name: &str) -> Option<String> {
    match name {
        "." | ".." => Some(format!("must not be '{name}'")),
        _ => name.starts_with("..").then(|| "must not start with '..'".to_owned()),
    }
}

/// The error message for a name that does not match `regex`.
fn regex_error(says: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{says} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

fn is_label(name: &str) -> bool {
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_digit() || b.is_ascii_lowercase());
    ends(name.bytes().next())
        && ends(name.bytes().next_back())
        && name.bytes().all(|b| b == b'-' || b.is_ascii_digit() || b.is_ascii_lowercase())
}

fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

fn is_key(name: &str) -> bool {
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    ends(name.bytes().next()) && ends(name.bytes().next_back()) && name.bytes().all(is_key_byte)
}

fn is_key_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_upstream_says() {
        assert_eq!(
            dns1123_subdomain("A"),
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns1123_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(
            label_value("-"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name("a/").len(), 2);
        assert!(qualified_name("a/b/c")[0].ends_with("(e.g. 'example.com/MyName')"));
        assert_eq!(path_segment_name("a/b%"), ["may not contain '/'", "may not contain '%'"]);
        assert_eq!(path_segment_name(".."), ["may not be '..'"]);
        assert_eq!(port_name("80"), ["must contain at least one letter (a-z)"]);
        assert_eq!(config_map_key("..a"), ["must not start with '..'"]);
    }

    #[test]
    fn takes_what_is_right() {
        let right = [
            dns1123_label("a-1"),
            dns1123_subdomain("a.b-c.1"),
            dns1035_label("a1"),
            qualified_name("example.com/My_name.x"),
            label_value(""),
            config_map_key(".dockerconfigjson"),
            env_var_name("PATH"),
            relaxed_env_var_name("a b"),
            c_identifier("_a1"),
            port_name("http-2"),
            percent("10%"),
            http_header_name("X-A"),
            ip("10.0.0.1"),
            ip("2001:db8::1"),
            cidr("10.0.0.0/8"),
            cidr("::/0"),
            wildcard_dns1123_subdomain("*.a.b"),
        ];
        assert!(right.iter().all(Vec::is_empty), "{right:?}");
    }

    #[test]
    fn addresses_have_one_form() {
        assert_eq!(ip("2001:DB8::1"), ["must be in canonical form (\"2001:db8::1\")"]);
        assert_eq!(ip("010.0.0.1"), ["must not have leading 0s"]);
        assert!(legacy_ip("010.0.0.1", &["010.0.0.1"]).is_empty());
        assert_eq!(legacy_ip("010.0.0.1", &[]), ["must not have leading 0s"]);
        assert_eq!(ip("::ffff:1.2.3.4"), ["must not be an IPv4-mapped IPv6 address"]);
        assert_eq!(cidr("10.0.0.1/8"), ["must not have bits set beyond the prefix length"]);
        assert_eq!(cidr("10.0.0.0/08"), ["must not have leading 0s in IP or prefix length"]);
        assert_eq!(ip("x"), ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]);
        assert!(!cidr("10.0.0.0/33").is_empty() && !cidr("10.0.0.0").is_empty());
    }

    #[test]
    fn a_prefix_may_end_in_a_dash() {
        assert_eq!(mask_trailing_dash("web-"), "wea");
        assert_eq!(mask_trailing_dash("-"), "-");
    }
}
