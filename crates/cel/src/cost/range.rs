//! Ranges of costs and sizes.

/// The minimum and maximum of a size or cost. Sums and products saturate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostRange {
    pub min: u64,
    pub max: u64,
}

impl CostRange {
    pub(crate) const ZERO: Self = Self::fixed(0);
    pub(crate) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(crate) const fn fixed(n: u64) -> Self {
        Self { min: n, max: n }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(crate) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    /// The smallest range that covers both.
    pub(crate) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Multiplies by a factor and rounds up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, as it should"
)]
pub(super) fn scale(n: u64, factor: f64) -> u64 {
    (n as f64 * factor).ceil() as u64
}
