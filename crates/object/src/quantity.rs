//! Resource quantities: `100m`, `1.5Gi`, `12e6`.
//!
//! A quantity is a decimal number (mantissa and power of ten) and the format of its suffix. Fractions of a nano unit
//! are rounded up, so that a nonzero request never becomes zero.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod text;

use std::{
    cmp::Ordering,
    ops::{Add, AddAssign, Neg, Sub, SubAssign},
};

use num_bigint::{BigInt, Sign};

use crate::{Text, Type, Value, View};

/// A decimal number with its format.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    mantissa: BigInt,
    /// The power of ten.
    scale: i32,
    format: Format,
    /// The source text, where upstream prints that instead of the canonical form.
    source_text: Option<Text>,
}

/// The format of the suffix.
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

/// Why a text is not a quantity, with upstream's message.
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
        Self { mantissa: n.into(), scale: 0, format, source_text: None }
    }

    /// `n` thousandths.
    pub fn from_milli(n: i64, format: Format) -> Self {
        Self { mantissa: n.into(), scale: -3, format, source_text: None }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the number has no fraction.
    pub fn is_integer(&self) -> bool {
        let mut up = self.clone();
        up.round_up(0);
        up == *self
    }

    pub fn is_zero(&self) -> bool {
        self.mantissa.sign() == Sign::NoSign
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        match self.mantissa.sign() {
            Sign::Minus => -1,
            Sign::NoSign => 0,
            Sign::Plus => 1,
        }
    }

    /// The value in whole units, rounded away from zero.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The value in thousandths, rounded away from zero.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// The value in units of `10^scale`, rounded away from zero and saturating.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        let most = if self.sign() < 0 { i64::MIN } else { i64::MAX };
        let by = self.scale.saturating_sub(scale);
        if by > 18 && !self.is_zero() {
            return most;
        }
        i64::try_from(&scale_mantissa(&self.mantissa, by).0).unwrap_or(most)
    }

    /// An approximation of the value.
    pub fn as_approximate_f64(&self) -> f64 {
        let text = format!("{}e{}", self.mantissa, self.scale);
        text.parse().unwrap_or(f64::NAN)
    }

    /// Rounds away from zero to a multiple of `10^scale`.
    pub fn round_up(&mut self, scale: i32) {
        if self.scale < scale {
            self.mantissa = scale_mantissa(&self.mantissa, self.scale.saturating_sub(scale)).0;
            self.scale = scale;
            self.source_text = None;
        }
    }

    /// Rounds away from zero to the number of digits that can be printed and parsed again.
    fn shorten(&mut self) {
        if self.mantissa.bits() < SHORT_BITS {
            return;
        }
        let digits = self.mantissa.magnitude().to_string().len();
        let more = i32::try_from(digits.saturating_sub(KEPT_DIGITS)).unwrap_or(i32::MAX);
        self.round_up(self.scale.saturating_add(more));
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
        if self.scale == other.scale {
            return self.mantissa.cmp(&other.mantissa);
        }
        // The number with more digits before the point is larger. With equally many, the scales differ by no more than
        // the length of the numbers.
        let places = |q: &Self| {
            let digits = q.mantissa.magnitude().to_string().len();
            i32::try_from(digits).unwrap_or(i32::MAX).saturating_add(q.scale)
        };
        let further = places(self).cmp(&places(other));
        if further != Ordering::Equal {
            return if self.sign() > 0 { further } else { further.reverse() };
        }
        let low = self.scale.min(other.scale);
        mantissa_at_scale(self, low).cmp(&mantissa_at_scale(other, low))
    }
}

impl AddAssign<&Quantity> for Quantity {
    /// Zero takes on the format of the quantity that is added.
    fn add_assign(&mut self, other: &Quantity) {
        if self.is_zero() {
            (self.format, self.scale) = (other.format, other.scale);
        }
        self.source_text = None;
        if other.is_zero() {
            return;
        }
        let low = self.scale.min(other.scale);
        let apart = self.scale.max(other.scale).saturating_sub(low);
        if usize::try_from(apart).is_ok_and(|apart| apart <= MAX_DIGITS) {
            (self.mantissa, self.scale) =
                (mantissa_at_scale(self, low) + mantissa_at_scale(other, low), low);
            self.shorten();
        } else if self.scale < other.scale {
            // Too far apart for the smaller to matter: the larger is the sum.
            (self.mantissa, self.scale) = (other.mantissa.clone(), other.scale);
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
        (self.mantissa, self.source_text) = (-self.mantissa, None);
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

/// Maximum number of digits that are parsed: parsing takes quadratic time.
const MAX_DIGITS: usize = 4096;
/// Maximum number of digits that are kept. With the zeros that printing adds, the result must be parsable again: a sum
/// that one component stores is read by all others.
const KEPT_DIGITS: usize = MAX_DIGITS - 8;
/// A number with fewer bits than this has fewer digits than `KEPT_DIGITS`.
const SHORT_BITS: u64 = (KEPT_DIGITS as u64 - 1) * 3;

fn power(n: i32) -> BigInt {
    BigInt::from(10).pow(n.unsigned_abs())
}

/// `mantissa * 10^by`, rounded away from zero, and whether that is exact.
fn scale_mantissa(mantissa: &BigInt, by: i32) -> (BigInt, bool) {
    if by >= 0 {
        return (mantissa * power(by), true);
    }
    let away = BigInt::from_biguint(mantissa.sign(), 1u32.into());
    if mantissa.magnitude().bits() / 3 < u64::from(by.unsigned_abs()) {
        return (away, mantissa.sign() == Sign::NoSign);
    }
    let (divisor, zero) = (power(by), BigInt::default());
    let exact = mantissa % &divisor == zero;
    (mantissa / divisor + if exact { zero } else { away }, exact)
}

/// The mantissa of `quantity` at the scale `low`, which is not above its own.
fn mantissa_at_scale(quantity: &Quantity, low: i32) -> BigInt {
    &quantity.mantissa * power(quantity.scale.saturating_sub(low))
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
            ("0.125", "125m"),
            (".123", "123m"),
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
            (
                "9748952668419080811831732713258327719755m",
                "9748952668419080811831732713258327719755m",
            ),
            ("4424750700316080110911533541982313Pi", "9223372036854775807"),
            ("1e4294967297", "10"),
            ("1e2000000000", "100e1999999998"),
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
            ("+Ei", QuantityError::Numeric),
            ("e-30", QuantityError::Numeric),
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
        assert!(read("1e2000000000") > read("1e1999999999") && read("-1e2000000000") < read("-1n"));
        assert_eq!((read("1e2000000000") + &read("1")).value(), i64::MAX);
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
    fn what_is_printed_can_be_read() {
        let long = "9".repeat(MAX_DIGITS);
        let texts = [
            "1Gi",
            "1",
            "1n",
            "9E",
            "10e2147483646",
            "1e2147483647",
            "1e4096",
            "1e5000",
            "1e-2147483648",
            &long,
            &format!("{long}e1"),
            &format!("{long}E"),
            &format!("-{long}e2"),
            &format!("0.{}", long.split_at(1).1),
        ];
        for text in texts {
            let one = read(text);
            let again = read(&one.to_string());
            assert!(again == one, "{text:.20}");
            for other in texts {
                for sum in [one.clone() + &read(other), one.clone() - &read(other)] {
                    let printed = sum.to_string();
                    assert!(printed.len() < MAX_DIGITS + 16, "{text:.20} and {other:.20}");
                    assert!(read(&printed) == sum, "{text:.20} and {other:.20}");
                }
            }
        }
        assert_eq!((read("1Gi") + &read("1e2147483646")).value(), i64::MAX);
    }

    #[test]
    fn reads_numbers_in_a_tree() {
        assert_eq!(Quantity::view(&Value::Int(3)), read("3"));
        assert_eq!(Quantity::view(&Value::from(" 250m ")).milli_value(), 250);
        assert_eq!(Value::from(read("1024Mi")), Value::from("1Gi"));
    }
}
