//! Native histograms: exponential buckets, which exist only once they have an observation.

use std::collections::BTreeMap;

/// Each bucket is wider than the one below by the factor 2^(1/8), less than a tenth.
const SCHEMA: i32 = 3;
/// With more buckets than this, neighbours are merged.
const MAX_BUCKETS: usize = 160;
/// Observations up to this size count as zero.
pub(super) const ZERO_THRESHOLD: f64 = f64::from_bits(0x37F0_0000_0000_0000); // 2^-128

/// Counts of positive observations. Bucket `i` ends at 2^(i / 2^schema).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NativeHistogram {
    pub(super) schema: i32,
    pub(super) zero: u64,
    pub(super) buckets: BTreeMap<i32, u64>,
}

impl Default for NativeHistogram {
    fn default() -> Self {
        Self { schema: SCHEMA, zero: 0, buckets: BTreeMap::new() }
    }
}

impl NativeHistogram {
    pub(super) fn observe(&mut self, size: f64) {
        if size.is_nan() || size <= ZERO_THRESHOLD {
            self.zero += 1;
            return;
        }
        *self.buckets.entry(bucket(size, self.schema)).or_default() += 1;
        while self.buckets.len() > MAX_BUCKETS {
            self.double_bucket_width();
        }
    }

    /// The buckets as Prometheus transmits them: spans of neighbours (distance from the end of the
    /// span before, length), and each count as the difference from the one before.
    pub(super) fn spans(&self) -> (Vec<(i32, u32)>, Vec<i64>) {
        let (mut spans, mut deltas) = (Vec::<(i32, u32)>::new(), Vec::new());
        let (mut end, mut last) = (0, 0);
        for (&index, &count) in &self.buckets {
            match spans.last_mut() {
                Some((_, length)) if index == end => *length += 1,
                _ => spans.push((index - end, 1)),
            }
            end = index + 1;
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            deltas.push(count - last);
            last = count;
        }
        (spans, deltas)
    }

    fn double_bucket_width(&mut self) {
        self.schema -= 1;
        for (index, count) in std::mem::take(&mut self.buckets) {
            // bucket 2n - 1 and bucket 2n end in the new bucket n
            *self.buckets.entry((index + 1).div_euclid(2)).or_default() += count;
        }
    }
}

/// The bucket of a positive size.
#[expect(clippy::cast_possible_truncation, reason = "an exponent of two, times eight")]
fn bucket(size: f64, schema: i32) -> i32 {
    (size.log2() * f64::from(schema).exp2()).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(sizes: impl IntoIterator<Item = f64>) -> NativeHistogram {
        let mut histogram = NativeHistogram::default();
        sizes.into_iter().for_each(|size| histogram.observe(size));
        histogram
    }

    #[test]
    fn a_bucket_includes_its_upper_bound() {
        let buckets = histogram([1.0, 1.01, 2.0, 2.01, 0.5]).buckets;
        assert_eq!(buckets, BTreeMap::from([(-8, 1), (0, 1), (1, 1), (8, 1), (9, 1)]));
    }

    #[test]
    fn what_is_not_positive_counts_as_zero() {
        let histogram = histogram([0.0, -1.0, f64::NAN, ZERO_THRESHOLD]);
        assert_eq!((histogram.zero, histogram.buckets.len()), (4, 0));
    }

    #[test]
    fn neighbours_are_one_span() {
        let (spans, deltas) = histogram([0.5, 0.5, 1.0, 1.05, 1.05]).spans();
        assert_eq!(spans, [(-8, 1), (7, 2)], "the second begins seven behind the end of the first");
        assert_eq!(deltas, [2, -1, 1]);
    }

    #[test]
    fn many_buckets_become_wider_ones() {
        let sizes = (-100..100).map(|power| f64::from(power).exp2());
        let histogram = histogram(sizes.flat_map(|size| [size, size * 1.5]));
        assert!(histogram.buckets.len() <= MAX_BUCKETS, "{}", histogram.buckets.len());
        assert!(histogram.schema < SCHEMA);
        assert_eq!(histogram.buckets.values().sum::<u64>(), 400);
    }
}
