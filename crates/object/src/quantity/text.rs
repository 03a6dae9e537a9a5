//! Parsing and formatting of quantities, like upstream.

use std::{fmt, str::FromStr};

use num_bigint::BigInt;

use super::{Format, KEPT_DIGITS, MAX_DIGITS, Quantity, QuantityError, scale_mantissa};

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = split(text)?;
        let (exponent, format) = parse_suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
        let digits = parts.digits();
        let places = i32::try_from(parts.fraction.len()).map_err(|_| QuantityError::Numeric)?;
        let short = short(&digits, exponent, places, format);
        if digits.len() > MAX_DIGITS || short.is_none() && !parts.has_digits {
            return Err(QuantityError::Numeric);
        }
        let mut mantissa: BigInt = digits.parse().map_err(|_| QuantityError::Numeric)?;
        let binary = format == Format::BinarySi;
        if binary {
            mantissa <<= exponent;
        }
        let scale = if binary { -places } else { exponent.saturating_sub(places) };

        let mut quantity = Self { mantissa, scale, format, source_text: None };
        quantity.round_up(-9);
        quantity.shorten();
        let cap = Self::new(i64::MAX, format);
        if binary && quantity > cap {
            quantity = cap;
        }
        if binary && !quantity.is_zero() && quantity < Self::new(1, format) {
            quantity.format = Format::DecimalSi;
        }
        if parts.negative {
            quantity.mantissa = -quantity.mantissa;
        }
        quantity.source_text = (short == Some(FastPath::Canonical)).then(|| text.into());
        Ok(quantity)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.source_text {
            return f.write_str(text);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        let digits = self.mantissa.magnitude().to_string();
        let short = digits.trim_end_matches('0');
        let zeros = i32::try_from(digits.len() - short.len()).unwrap_or(i32::MAX);
        let scale = self.scale.saturating_add(zeros);
        // Zeros before the point that no suffix covers would have to be written out.
        let largest = if self.format == Format::BinarySi { 0 } else { 18 };
        let written = usize::try_from(scale.saturating_sub(largest)).unwrap_or(0);
        let fits = short.len().saturating_add(written) <= KEPT_DIGITS;
        let format = if fits { self.format } else { Format::DecimalExponent };
        if format == Format::BinarySi
            && let (mut whole, true) = scale_mantissa(&self.mantissa, self.scale)
            && whole.bits() > 10
        {
            let mut times = 0;
            while times + 1 < BINARY.len() && whole.trailing_zeros().is_some_and(|n| n >= 10) {
                whole >>= 10;
                times += 1;
            }
            return write!(f, "{whole}{}", BINARY.get(times).unwrap_or(&""));
        }
        let mut exponent = scale.div_euclid(3).saturating_mul(3);
        if format != Format::DecimalExponent {
            exponent = exponent.clamp(-9, 18);
        }
        let zeros = usize::try_from(scale.saturating_sub(exponent)).unwrap_or(0);
        let sign = if self.sign() < 0 { "-" } else { "" };
        write!(f, "{sign}{short}{:0<zeros$}", "")?;
        match (format, usize::try_from(exponent / 3 + 3)) {
            (Format::DecimalExponent, _) if exponent == 0 => Ok(()),
            (Format::DecimalExponent, _) => write!(f, "e{exponent}"),
            (_, name) => f.write_str(name.ok().and_then(|at| DECIMAL.get(at)).unwrap_or(&"")),
        }
    }
}

struct Parts<'a> {
    negative: bool,
    /// Whether a digit precedes the suffix.
    has_digits: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

/// Whether upstream parses the number without its decimal library.
#[derive(PartialEq)]
enum FastPath {
    /// Printed as it was written.
    Canonical,
    Other,
}

impl Parts<'_> {
    /// All digits, with a zero if there is none before the point.
    fn digits(&self) -> String {
        let whole = if self.whole.is_empty() { "0" } else { self.whole };
        format!("{whole}{}", self.fraction)
    }
}

fn short(digits: &str, exponent: i32, places: i32, format: Format) -> Option<FastPath> {
    let length = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let scale = exponent.saturating_sub(places);
    let (short, canonical) = if format == Format::BinarySi {
        let short = places == 0 && 14 - exponent * 3 / 10 >= length;
        (short, short && digits.parse::<u64>().is_ok_and(|read| read & 7 != 0))
    } else {
        let plain = !digits.ends_with("000") && !digits.starts_with('0');
        (length <= 18 && scale >= -9, scale % 3 == 0 && plain)
    };
    short.then_some(if canonical { FastPath::Canonical } else { FastPath::Other })
}

/// Splits `text` like upstream's scanner, which also reads `-` and `.` as zero.
fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let negative = text.starts_with('-');
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let stripped = rest.trim_start_matches('0');
    let (whole, after) = digits(stripped);
    let (fraction, suffix) = after.strip_prefix('.').map_or(("", after), digits);
    let has_digits = stripped.len() < rest.len() || !whole.is_empty() || !fraction.is_empty();
    let number = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let number = number.strip_prefix(['-', '+']).unwrap_or(number);
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    Ok(Parts { negative, has_digits, whole, fraction, suffix })
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn parse_suffix(suffix: &str) -> Option<(i32, Format)> {
    let place = |names: &[&str]| names.iter().position(|name| *name == suffix);
    if let Some(at) = place(&DECIMAL) {
        return Some((3 * i32::try_from(at).ok()? - 9, Format::DecimalSi));
    }
    if let Some(at) = place(&BINARY) {
        return Some((10 * i32::try_from(at).ok()?, Format::BinarySi));
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "upstream keeps the lower half")]
    Some((exponent as i32, Format::DecimalExponent))
}
