//! CEL timestamps (years 1 to 9999) and durations, in nanoseconds.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;

use crate::error::Error;

/// Nanoseconds in a second.
pub(crate) const NANOS: i64 = 1_000_000_000;
/// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

/// A timestamp: seconds since 1970, and nanoseconds of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
}

impl Default for Timestamp {
    /// Go's zero time: 1 January of year 1.
    fn default() -> Self {
        Self { seconds: FIRST, nanos: 0 }
    }
}

/// The date and time of a timestamp in some time zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: i64,
    pub(crate) day: i64,
    /// From 0.
    pub(crate) day_of_year: i64,
    pub(crate) day_of_week: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
}

impl Timestamp {
    pub(crate) fn new(seconds: i64, nanos: u32) -> Result<Self, Error> {
        if (FIRST..=LAST).contains(&seconds) {
            Ok(Self { seconds, nanos })
        } else {
            Err(Error::new("timestamp overflow"))
        }
    }

    /// Parses RFC 3339 like Go.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.split_at_checked(10)?;
        let midnight = Self::parse_date(date)?;
        let time = time.strip_prefix('T')?;
        let (clock, rest) = time.split_at_checked(8)?;
        let mut parts = clock.split(':').map(two_digits);
        let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
        let (fraction, zone) = match rest.strip_prefix(['.', ',']) {
            Some(rest) => {
                let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                let (fraction, zone) = rest.split_at(end);
                (Some(fraction), zone)
            }
            None => (None, rest),
        };
        let nanos = match fraction {
            Some("") => return None,
            Some(digits) => format!("{digits:0<9}").get(..9)?.parse().ok()?,
            None => 0,
        };
        let offset = match zone.as_bytes() {
            b"Z" => 0,
            [sign @ (b'+' | b'-'), ..] => {
                let (hours, minutes) = zone.get(1..)?.split_once(':')?;
                let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
                let minutes = (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)?;
                if *sign == b'-' { -minutes * 60 } else { minutes * 60 }
            }
            _ => return None,
        };
        let valid = hour < 24 && minute < 60 && second < 60;
        let seconds = midnight.seconds + hour * 3600 + minute * 60 + second - offset;
        valid.then_some(Self { seconds, nanos })
    }

    /// Parses `2006-01-02`.
    pub(crate) fn parse_date(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        if year.len() != 4 || !year.bytes().all(|b| b.is_ascii_digit()) || parts.next().is_some() {
            return None;
        }
        let (year, month, day): (i64, _, _) =
            (year.parse().ok()?, two_digits(month)?, two_digits(day)?);
        let valid = (1..=12).contains(&month) && day >= 1 && day <= days_in(year, month);
        valid.then(|| Self { seconds: days_before(year, month, day) * 86_400, nanos: 0 })
    }

    /// The date and time at `offset` seconds ahead of UTC.
    pub(crate) fn civil(self, offset: i64) -> Civil {
        let seconds = self.seconds + offset;
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = date_of(days);
        Civil {
            year,
            month,
            day,
            day_of_year: days - days_before(year, 1, 1),
            day_of_week: (days + 4).rem_euclid(7),
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }

    pub(crate) fn plus(self, nanos: i64) -> Result<Self, Error> {
        let total = i64::from(self.nanos) + nanos.rem_euclid(NANOS);
        let overflow = || Error::new("timestamp overflow");
        let seconds = self.seconds.checked_add(nanos.div_euclid(NANOS)).ok_or_else(overflow)?;
        let nanos = u32::try_from(total % NANOS).map_err(|_| overflow())?;
        Self::new(seconds + total / NANOS, nanos)
    }

    /// The duration since `other`.
    pub(crate) fn since(self, other: Self) -> Result<i64, Error> {
        let seconds = i128::from(self.seconds) - i128::from(other.seconds);
        let nanos = seconds * i128::from(NANOS) + i128::from(self.nanos) - i128::from(other.nanos);
        i64::try_from(nanos).map_err(|_| Error::new("duration overflow"))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.civil(0);
        let (year, month, day, hour, minute, second) =
            (at.year, at.month, at.day, at.hour, at.minute, at.second);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanos > 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// Formats a duration like CEL: in seconds.
pub(crate) fn duration_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let second = NANOS.unsigned_abs();
    let (whole, rest) = (nanos / second, nanos % second);
    if rest == 0 {
        return format!("{sign}{whole}s");
    }
    let rest = format!("{rest:09}");
    format!("{sign}{whole}.{}s", rest.trim_end_matches('0'))
}

/// Parses a duration like Go, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    } else if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (whole, after) = rest.split_at(end);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => {
                after.split_at(after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len()))
            }
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        rest = after;
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let digits = fraction.get(..18).unwrap_or(fraction);
        let part: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        let scale = 10_i128.pow(u32::try_from(digits.len()).ok()?);
        let part = part.checked_mul(unit)? / scale;
        total = total.checked_add(whole.checked_mul(unit)?)?.checked_add(part)?;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

fn two_digits(text: &str) -> Option<i64> {
    let digits = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && year % 100 != 0 || year % 400 == 0
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to a date, by eras of 400 years that begin in March.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let part = (5 * of_year + 2) / 153;
    let day = of_year - (153 * part + 2) / 5 + 1;
    let month = if part < 10 { part + 3 } else { part - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_beyond_all_numbers_is_none() {
        let most = i128::MAX / 1_000;
        for text in [format!("{most}.999us"), format!("{}h", "9".repeat(40)), "9e9h".to_owned()] {
            assert_eq!(parse_duration(&text), None, "{text}");
        }
    }

    #[test]
    fn moments_read_as_they_are_written() {
        for text in [
            "0001-01-01T00:00:00Z",
            "1970-01-01T00:00:00Z",
            "2024-02-29T23:59:59.5Z",
            "9999-12-31T23:59:59.999999999Z",
        ] {
            assert_eq!(Timestamp::parse(text).map(|at| at.to_string()).as_deref(), Some(text));
        }
        let east = Timestamp::parse("2024-01-02T03:04:05+01:30").map(|at| at.to_string());
        assert_eq!(east.as_deref(), Some("2024-01-02T01:34:05Z"));
        for text in ["", "2024-02-30T00:00:00Z", "2024-01-01 00:00:00Z", "2024-01-01T24:00:00Z"] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
        let at = Timestamp::parse("2024-01-02T03:04:05Z").expect("valid").civil(0);
        assert_eq!((at.day_of_week, at.day_of_year, at.hour), (2, 1, 3));
    }

    #[test]
    fn durations_are_gos() {
        for (text, nanos) in [
            ("1h30m", Some(5_400_000_000_000)),
            ("1.5s", Some(1_500_000_000)),
            ("-100ms", Some(-100_000_000)),
            ("0", Some(0)),
            ("9223372036s", Some(9_223_372_036_000_000_000)),
            ("9223372037s", None),
            ("1x", None),
            ("1", None),
            ("", None),
        ] {
            assert_eq!(parse_duration(text), nanos, "{text}");
        }
        assert_eq!(duration_text(5_400_000_000_000), "5400s");
        assert_eq!(duration_text(-1_500_000_000), "-1.5s");
    }
}
