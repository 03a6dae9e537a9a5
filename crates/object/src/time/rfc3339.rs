//! Parser for RFC 3339 timestamps, with Go's error messages.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use super::civil::days;

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Parses to microseconds since 1970. With `fraction` there must be exactly six fractional digits.
pub(super) fn parse(text: &str, fraction: bool) -> Result<i64, String> {
    let mut reader = Reader { text, rest: text, layout: if fraction { MICROS } else { SECONDS } };
    let (year, month, day) = reader.date()?;
    reader.sign("T")?;
    let (hour, minute, second) = reader.clock()?;
    let micros = reader.fraction(fraction)?;
    let offset = reader.zone()?;
    if !reader.rest.is_empty() {
        return Err(reader.wrong(&format!("extra text: {}", quote(reader.rest))));
    }
    let days = days(year, month, day).ok_or_else(|| reader.wrong("day out of range"))?;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    Ok(seconds * 1_000_000 + micros)
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Reader<'_> {
    fn date(&mut self) -> Result<(i64, i64, i64), String> {
        let year = self.digits(4, "2006")?;
        self.sign("-")?;
        let month = self.digits(2, "01")?;
        if !(1..=12).contains(&month) {
            return Err(self.wrong("month out of range"));
        }
        self.sign("-")?;
        let day = self.digits(2, "02")?;
        Ok((year, month, day))
    }

    fn clock(&mut self) -> Result<(i64, i64, i64), String> {
        let second_digit = self.rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        let hour = self.digits(if second_digit { 2 } else { 1 }, "15")?;
        self.within(hour, 24, "hour")?;
        self.sign(":")?;
        let minute = self.digits(2, "04")?;
        self.within(minute, 60, "minute")?;
        self.sign(":")?;
        let second = self.digits(2, "05")?;
        self.within(second, 60, "second")?;
        Ok((hour, minute, second))
    }

    /// The fraction in microseconds.
    fn fraction(&mut self, needed: bool) -> Result<i64, String> {
        let bytes = self.rest.as_bytes();
        let begins = matches!(bytes.first(), Some(b'.' | b','))
            && bytes.get(1).is_some_and(u8::is_ascii_digit);
        let length = match (needed, begins) {
            (false, false) => return Ok(0),
            (false, true) => bytes.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count(),
            (true, _) => 6,
        };
        let digits = self.rest.get(1..=length).filter(|digits| is_number(digits));
        let Some(digits) = digits.filter(|_| begins) else {
            return Err(self.unreadable(self.rest, ".000000"));
        };
        self.rest = self.rest.get(1 + length..).unwrap_or_default();
        let micros = format!("{digits:0<6}");
        Ok(micros.get(..6).and_then(|micros| micros.parse().ok()).unwrap_or_default())
    }

    /// The zone offset in seconds east of UTC.
    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let whole = self.rest;
        let unreadable = |this: &Self| this.unreadable(whole, "Z07:00");
        let (Some(zone), Some(rest)) = (whole.get(..6), whole.get(6..)) else {
            return Err(unreadable(self));
        };
        let east = match zone.get(..1) {
            Some("+") => 1,
            Some("-") => -1,
            _ => return Err(unreadable(self)),
        };
        let number = |text: Option<&str>| {
            text.filter(|text| is_number(text)).and_then(|text| text.parse::<i64>().ok())
        };
        let (Some(hours), Some(":"), Some(minutes)) =
            (number(zone.get(1..3)), zone.get(3..4), number(zone.get(4..6)))
        else {
            return Err(unreadable(self));
        };
        self.within(hours, 25, "time zone offset hour")?;
        self.within(minutes, 61, "time zone offset minute")?;
        self.rest = rest;
        Ok(east * (hours * 60 + minutes) * 60)
    }

    fn sign(&mut self, sign: &str) -> Result<(), String> {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.unreadable(self.rest, sign)),
        }
    }

    fn digits(&mut self, count: usize, layout: &str) -> Result<i64, String> {
        let digit = |n, byte: &u8| byte.is_ascii_digit().then(|| n * 10 + i64::from(byte - b'0'));
        let found = self.rest.as_bytes().get(..count);
        let Some(n) = found.and_then(|text| text.iter().try_fold(0, digit)) else {
            return Err(self.unreadable(self.rest, layout));
        };
        self.rest = self.rest.get(count..).unwrap_or_default();
        Ok(n)
    }

    fn within(&self, n: i64, end: i64, what: &str) -> Result<(), String> {
        if n < end { Ok(()) } else { Err(self.wrong(&format!("{what} out of range"))) }
    }

    fn wrong(&self, why: &str) -> String {
        format!("parsing time {}: {why}", quote(self.text))
    }

    fn unreadable(&self, rest: &str, part: &str) -> String {
        let (text, rest, part) = (quote(self.text), quote(rest), quote(part));
        format!("parsing time {text} as {}: cannot parse {rest} as {part}", quote(self.layout))
    }
}

/// Quotes a string as Go's `time` package does: non-ASCII characters are escaped byte by byte.
fn quote(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=0x7f => char::from(byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use crate::{MicroTime, Time};

    #[test]
    fn every_moment_has_one_form() {
        for text in ["2024-01-02T03:04:05Z", "2024-01-02T05:04:05.9+02:00", "2024-01-02T3:04:05Z"] {
            assert_eq!(Time::canonicalize(text).as_deref(), Ok("2024-01-02T03:04:05Z"), "{text}");
        }
        let micro = MicroTime::canonicalize("2024-01-02T03:04:05.123456-01:00");
        assert_eq!(micro.as_deref(), Ok("2024-01-02T04:04:05.123456Z"));
    }

    #[test]
    fn what_is_wrong_is_said_as_go_does() {
        for (text, wrong) in [
            ("", " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"2006\""),
            ("2024-13-01T00:00:00Z", ": month out of range"),
            ("2024-02-30T00:00:00Z", ": day out of range"),
            ("2024-01-01T24:00:00Z", ": hour out of range"),
            (
                "é\n",
                " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\\xc3\\xa9\\x0a\" as \"2006\"",
            ),
            (
                "2024-01-01T00:00:00_3456",
                " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"_3456\" as \"Z07:00\"",
            ),
            ("2024-01-01T00:00:00Zx", ": extra text: \"x\""),
            ("2024-01-01", " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"T\""),
            (
                "2024-01-01T00:00:00",
                " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"Z07:00\"",
            ),
        ] {
            assert_eq!(
                Time::canonicalize(text),
                Err(format!("parsing time {}{wrong}", super::quote(text)))
            );
        }
        let error = MicroTime::canonicalize("2024-01-01T00:00:00Z").unwrap_err();
        assert!(error.ends_with("cannot parse \"Z\" as \".000000\""), "{error}");
    }
}
