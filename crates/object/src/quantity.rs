//! Amounts of a resource: `100m`, `1.5Gi`, `12e6`.
//!
//! A quantity is a decimal number (mantissa and power of ten) and the family of
//! suffixes it is written with. Nothing below a billionth is kept: it is rounded up,
//! so that who asks for something never gets nothing.

use std::{
    cmp::Ordering,
    fmt,
    ops::{Add, AddAssign, Neg, Sub, SubAssign},
    str::FromStr,
};

use crate::{Text, Type, Value, View};

/// A number with the way it is written.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    mantissa: i128,
    /// The power of ten.
    scale: i32,
    format: Format,
    /// The text it was read from, where upstream prints that again instead of a canonical one.
    kept: Option<Text>,
}

/// A family of suffixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `n u m k M G T P E`.
    #[default]
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`.
    BinarySi,
    /// `e3`.
    DecimalExponent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// `n` whole units.
    pub fn new(n: i64, format: Format) -> Self {
        Self { mantissa: n.into(), scale: 0, format, kept: None }
    }

    /// `n` thousandths.
    pub fn from_milli(n: i64, format: Format) -> Self {
        Self { mantissa: n.into(), scale: -3, format, kept: None }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is a number without a fraction.
    pub fn is_whole(&self) -> bool {
        let mut up = self.clone();
        up.round_up(0);
        up == *self
    }

    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        match self.mantissa.cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// In whole units; what is left over counts as one more, away from zero.
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// In thousandths, rounded as `value` is.
    pub fn milli_value(&self) -> i64 {
        self.scaled(-3)
    }

    /// In units of `10^scale`, rounded away from zero; at most what an `i64` holds.
    pub fn scaled(&self, scale: i32) -> i64 {
        let (mantissa, _) = shift(self.mantissa, self.scale.saturating_sub(scale));
        i64::try_from(mantissa).unwrap_or(if self.mantissa < 0 { i64::MIN } else { i64::MAX })
    }

    /// About the same number.
    #[expect(clippy::cast_precision_loss, reason = "that is what was asked for")]
    pub fn approximate(&self) -> f64 {
        self.mantissa as f64 * 10f64.powi(self.scale)
    }

    /// Rounds away from zero to a multiple of `10^scale`.
    pub fn round_up(&mut self, scale: i32) {
        if self.scale < scale {
            self.mantissa = shift(self.mantissa, self.scale.saturating_sub(scale)).0;
            self.scale = scale;
            self.kept = None;
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let Parts { negative, whole, fraction, suffix } = split(text)?;
        let (exponent, format) = interpret(suffix).ok_or(QuantityError::Suffix)?;
        let digits = format!("{whole}{fraction}");
        let digits = if digits.is_empty() { "0" } else { &digits };
        let places = i32::try_from(fraction.len()).map_err(|_| QuantityError::Numeric)?;
        let read: i128 = digits.parse().map_err(|_| QuantityError::Numeric)?;
        let binary = format == Format::BinarySi;
        let mantissa = if binary {
            read.checked_mul(1 << exponent).ok_or(QuantityError::Numeric)?
        } else {
            read
        };
        let scale = if binary { -places } else { exponent.saturating_sub(places) };

        let mut quantity = Self { mantissa, scale, format, kept: None };
        quantity.round_up(-9);
        let cap = Self::new(i64::MAX, format);
        if binary && quantity > cap {
            quantity = cap;
        }
        if binary && !quantity.is_zero() && quantity < Self::new(1, format) {
            quantity.format = Format::DecimalSi;
        }
        if negative {
            quantity.mantissa = -quantity.mantissa;
        }
        let plain = Plain { digits, fraction, exponent, binary, scale, read };
        quantity.kept = plain.is_kept().then(|| text.into());
        Ok(quantity)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.kept {
            return f.write_str(text);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        if self.format == Format::BinarySi
            && let (whole, true) = shift(self.mantissa, self.scale)
            && whole.abs() >= 1024
        {
            let (mut whole, mut times) = (whole, 0);
            while whole % 1024 == 0 && times + 1 < BINARY.len() {
                (whole, times) = (whole / 1024, times + 1);
            }
            return write!(f, "{whole}{}", BINARY[times]);
        }
        let (mut mantissa, mut scale) = (self.mantissa, self.scale);
        while mantissa % 10 == 0 {
            (mantissa, scale) = (mantissa / 10, scale + 1);
        }
        let exponent = scale.div_euclid(3) * 3;
        if self.format == Format::DecimalExponent {
            let number = mantissa.saturating_mul(power(scale - exponent));
            return match exponent {
                0 => write!(f, "{number}"),
                exponent => write!(f, "{number}e{exponent}"),
            };
        }
        let exponent = exponent.clamp(-9, 18);
        let number = shift(mantissa, scale - exponent).0;
        let name = usize::try_from(exponent / 3 + 3).expect("clamped above -9");
        write!(f, "{number}{}", DECIMAL[name])
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Quantity {}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let signs = self.sign().cmp(&other.sign());
        if signs != Ordering::Equal || self.is_zero() {
            return signs;
        }
        let low = self.scale.min(other.scale);
        let (a, b) = (widen(self, low), widen(other, low));
        // What does not fit is longer than anything that does; both can not fail:
        // the one with the lower scale stays as it is.
        match (a, b) {
            (Some(a), Some(b)) => a.cmp(&b),
            (None, _) => {
                if self.mantissa > 0 {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (_, None) => {
                if other.mantissa > 0 {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

impl AddAssign<&Quantity> for Quantity {
    /// Zero takes on the format of what is added to it.
    fn add_assign(&mut self, other: &Quantity) {
        if self.is_zero() {
            (self.format, self.scale) = (other.format, other.scale);
        }
        self.kept = None;
        if other.is_zero() {
            return;
        }
        let low = self.scale.min(other.scale);
        let sum = widen(self, low).zip(widen(other, low)).and_then(|(a, b)| a.checked_add(b));
        match sum {
            Some(sum) => (self.mantissa, self.scale) = (sum, low),
            // Too far apart for one to show in the other: the larger stands.
            None if self.scale < other.scale => {
                (self.mantissa, self.scale) = (other.mantissa, other.scale);
            }
            None => {}
        }
    }
}
impl SubAssign<&Quantity> for Quantity {
    fn sub_assign(&mut self, other: &Quantity) {
        *self += &-other.clone();
    }
}
impl Add<&Quantity> for Quantity {
    type Output = Quantity;
    fn add(mut self, other: &Quantity) -> Quantity {
        self += other;
        self
    }
}
impl Sub<&Quantity> for Quantity {
    type Output = Quantity;
    fn sub(mut self, other: &Quantity) -> Quantity {
        self -= other;
        self
    }
}
impl Neg for Quantity {
    type Output = Quantity;
    fn neg(mut self) -> Quantity {
        (self.mantissa, self.kept) = (-self.mantissa, None);
        self
    }
}

impl From<Quantity> for Value {
    fn from(quantity: Quantity) -> Self {
        Self::Text(quantity.to_string().into())
    }
}

impl View for Quantity {
    const TYPE: &'static Type = &Type::Quantity;
    type Ref<'a> = Quantity;
    type Owned = Quantity;
    fn view(value: &Value) -> Quantity {
        match value {
            Value::Text(text) => text.trim().parse().unwrap_or_default(),
            Value::Int(n) => Quantity::new(*n, Format::DecimalSi),
            Value::Float(n) => n.to_string().parse().unwrap_or_default(),
            _ => Quantity::default(),
        }
    }
}

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

/// Cuts `text` as upstream's scanner does, which also reads `-` and `.` as zero.
fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let negative = text.starts_with('-');
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let rest = rest.trim_start_matches('0');
    let (whole, rest) = digits(rest);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
    let number = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let number = number.strip_prefix(['-', '+']).unwrap_or(number);
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    Ok(Parts { negative, whole, fraction, suffix })
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn interpret(suffix: &str) -> Option<(i32, Format)> {
    let place = |names: &[&str]| names.iter().position(|name| *name == suffix);
    if let Some(at) = place(&DECIMAL) {
        return Some((3 * i32::try_from(at).ok()? - 9, Format::DecimalSi));
    }
    if let Some(at) = place(&BINARY) {
        return Some((10 * i32::try_from(at).ok()?, Format::BinarySi));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((exponent.parse().ok()?, Format::DecimalExponent))
}

/// What decides whether upstream prints a text again as it was.
struct Plain<'a> {
    digits: &'a str,
    fraction: &'a str,
    exponent: i32,
    binary: bool,
    scale: i32,
    read: i128,
}

impl Plain<'_> {
    fn is_kept(&self) -> bool {
        let length = i32::try_from(self.digits.len()).unwrap_or(i32::MAX);
        if self.binary {
            let room = 15 - length - self.exponent * 3 / 10 - 1;
            return self.fraction.is_empty()
                && room >= 0
                && self.exponent % 10 == 0
                && self.read & 7 != 0;
        }
        length <= 18
            && self.scale >= -9
            && self.scale % 3 == 0
            && !self.digits.ends_with("000")
            && !self.digits.starts_with('0')
    }
}

/// `10^n`, as much as fits.
fn power(n: i32) -> i128 {
    10i128.saturating_pow(n.unsigned_abs())
}

/// `mantissa * 10^by`, rounded away from zero, and whether that is exact.
fn shift(mantissa: i128, by: i32) -> (i128, bool) {
    if by >= 0 {
        let product = mantissa.checked_mul(power(by)).filter(|_| by <= 38);
        let most = if mantissa < 0 { i128::MIN + 1 } else { i128::MAX };
        return product
            .map_or((if mantissa == 0 { 0 } else { most }, mantissa == 0), |n| (n, true));
    }
    let divisor = power(by);
    let exact = by >= -38 && mantissa % divisor == 0 || mantissa == 0;
    (mantissa / divisor + if exact { 0 } else { mantissa.signum() }, exact)
}

/// The mantissa of `quantity` at the scale `low`, which is not above its own.
fn widen(quantity: &Quantity, low: i32) -> Option<i128> {
    let by = quantity.scale.saturating_sub(low);
    if quantity.is_zero() {
        return Some(0);
    }
    quantity.mantissa.checked_mul(power(by)).filter(|_| by <= 38)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn prints_as_upstream_does() {
        for (text, printed) in [
            ("0", "0"),
            ("0Ki", "0"),
            ("-0", "0"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("0.1", "100m"),
            ("1.5", "1500m"),
            ("1.234", "1.234"),
            ("12000", "12k"),
            ("1000000", "1M"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("8Ki", "8Ki"),
            ("12Ki", "12Ki"),
            ("1Ei", "1Ei"),
            ("100Ei", "9223372036854775807"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("12e6", "12e6"),
            ("1200e3", "1200e3"),
            ("1000e3", "1e6"),
            ("1E", "1E"),
            ("5n", "5n"),
            ("0.1n", "1n"),
            ("0.0000000001", "1n"),
            ("-5", "-5"),
            ("-0.5Ki", "-512"),
            ("0.3Ki", "307200m"),
            ("1.0Mi", "1Mi"),
            ("+5", "+5"),
            ("0100", "0100"),
            (".5", "500m"),
            ("5.", "5."),
            ("1e-3", "1e-3"),
            ("0.001e3", "1"),
            ("100000000000000000000", "100E"),
            ("1000000E", "1000000E"),
            ("1e100", "10e99"),
            ("512Ki", "512Ki"),
            ("500Mi", "500Mi"),
        ] {
            assert_eq!(read(text).to_string(), printed, "{text}");
        }
    }

    #[test]
    fn refuses_with_upstreams_words() {
        for (text, error) in [
            ("", QuantityError::Format),
            ("abc", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1.2.3", QuantityError::Format),
            ("1i", QuantityError::Suffix),
            ("1KB", QuantityError::Format),
            ("1mm", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
        ] {
            assert_eq!(text.parse::<Quantity>(), Err(error), "{text}");
        }
    }

    #[test]
    fn compares_and_counts() {
        assert_eq!(read("1"), read("1000m"));
        assert_eq!(read("1Gi"), read("1073741824"));
        assert!(read("1G") < read("1Gi"));
        assert!(read("-1") < read("1n"));
        assert!(read("1e100") > read("1n") && read("-1e100") < read("1n"));
        assert_eq!((read("100m") + &read("1")).to_string(), "1100m");
        assert_eq!((read("0") + &read("1Gi")).to_string(), "1Gi");
        assert_eq!((read("1Gi") - &read("512Mi")).to_string(), "512Mi");
        assert_eq!((read("1Gi") - &read("2Gi")).to_string(), "-1Gi");
        assert_eq!(read("100m").value(), 1);
        assert_eq!(read("-100m").value(), -1);
        assert_eq!(read("1.5").milli_value(), 1500);
        assert_eq!(read("1u").milli_value(), 1);
        assert_eq!(read("1e30").value(), i64::MAX);
        assert_eq!(Quantity::from_milli(1500, Format::DecimalSi).to_string(), "1500m");
        assert_eq!((read("1.5").sign(), read("-2").sign(), read("0").sign()), (1, -1, 0));
    }

    #[test]
    fn reads_numbers_in_a_tree() {
        assert_eq!(Quantity::view(&Value::Int(3)), read("3"));
        assert_eq!(Quantity::view(&Value::from(" 250m ")).milli_value(), 250);
        assert_eq!(Value::from(read("1024Mi")), Value::from("1Gi"));
    }
}
