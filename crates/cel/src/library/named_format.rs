//! The named formats library: `format.dns1123Label().validate(…)`.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use base64::{Engine as _, engine::general_purpose::STANDARD};
use object::names;

use super::{Opaque, text_of, url::Url};
use crate::{
    error::Error,
    function::Function,
    value::{Timestamp, Value, parse_duration},
};

/// A named format.
#[derive(Debug)]
pub struct NamedFormat {
    pub(crate) name: &'static str,
    key: &'static str,
    check: fn(&str) -> Vec<String>,
    /// The length of an equivalent regular expression, for the cost.
    pub(crate) pattern: u64,
}

macro_rules! formats {
    ($($key:literal, $name:literal, $pattern:literal, $check:expr;)*) => {
        static FORMATS: &[NamedFormat] =
            &[$(NamedFormat { name: $name, key: $key, check: $check, pattern: $pattern }),*];

        pub(crate) const FUNCTIONS: &[Function] = &[
            $(Function {
                name: concat!("format.", $key),
                overloads: &[(concat!("format.", $key), "() -> NamedFormat")],
                body: |_, _| Ok(named($key)),
            },)*
            Function {
                name: "format.named",
                overloads: &[("format-named", "(string) -> optional(NamedFormat)")],
                body: |_, args| {
                    let [name] = args else { return Err(Error::no_overload()) };
                    let name = text_of(name)?;
                    let known = FORMATS.iter().any(|format| format.key == &**name);
                    Ok(if known { Value::some(named(name)) } else { Value::NONE })
                },
            },
            Function {
                name: "validate",
                overloads: &[("format-validate", "NamedFormat.(string) -> optional(list(string))")],
                body: |_, args| {
                    let [Value::Opaque(Opaque::Format(format)), text] = args else {
                        return Err(Error::no_overload());
                    };
                    let wrong = (format.check)(text_of(text)?);
                    if wrong.is_empty() {
                        return Ok(Value::NONE);
                    }
                    Ok(Value::some(Value::list(wrong.into_iter().map(Value::text).collect())))
                },
            },
        ];
    };
}

formats! {
    "dns1123Label", "DNS1123Label", 30, names::dns1123_label;
    "dns1123Subdomain", "DNS1123Subdomain", 60, names::dns1123_subdomain;
    "dns1035Label", "DNS1035Label", 30, names::dns1035_label;
    "qualifiedName", "QualifiedName", 60, names::qualified_name;
    "dns1123LabelPrefix", "DNS1123LabelPrefix", 30, |text| names::dns1123_label(&names::mask_trailing_dash(text));
    "dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", 60, |text| names::dns1123_subdomain(&names::mask_trailing_dash(text));
    "dns1035LabelPrefix", "DNS1035LabelPrefix", 30, |text| names::dns1035_label(&names::mask_trailing_dash(text));
    "labelValue", "LabelValue", 40, names::label_value;
    "uri", "URI", 1103, |text| Url::parse_absolute(text).err().into_iter().collect();
    "uuid", "uuid", 70, |text| said(is_uuid(text), "does not match the UUID format");
    "byte", "byte", 84, |text| said(is_base64(text), "invalid base64");
    "date", "date", 71, |text| said(Timestamp::parse_date(text).is_some(), "invalid date");
    "datetime", "datetime", 71, |text| said(Timestamp::parse(text).is_some(), "invalid datetime");
}

/// Parses a duration in OpenAPI's `duration` format: also days, weeks, and unit names.
pub(crate) fn parse_openapi_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '-')?;
    let (count, unit) = text.split_at_checked(end)?;
    let count: i64 = count.parse().ok()?;
    let unit = match unit.trim() {
        "ns" | "nanosecond" | "nanoseconds" => 1,
        "us" | "µs" | "microsecond" | "microseconds" => 1_000,
        "ms" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hr" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        "w" | "wk" | "week" | "weeks" => 604_800_000_000_000,
        _ => return None,
    };
    count.checked_mul(unit)
}

fn named(key: &str) -> Value<'static> {
    let format = FORMATS.iter().find(|format| format.key == key);
    format.map_or(Value::Null, |format| Value::Opaque(Opaque::Format(format)))
}

fn said(holds: bool, otherwise: &str) -> Vec<String> {
    if holds { Vec::new() } else { vec![otherwise.to_owned()] }
}

fn is_uuid(text: &str) -> bool {
    let digits = text.replace('-', "");
    let hyphens = [8, 13, 18, 23].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
    let hex = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    hex && (hyphens && text.len() == 36 || text.len() == 32)
}

fn is_base64(text: &str) -> bool {
    !text.is_empty() && STANDARD.decode(text).is_ok()
}
