//! Sets of completion indexes, as a Job's status writes them: `1,3-5,7`.

use std::fmt;

/// A set of indexes, as sorted ranges that neither overlap nor touch; both ends are included.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Parses the indexes below `end`, and ignores parts that are invalid.
    pub(super) fn parse(text: &str, end: i32) -> Self {
        let mut all = Self::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else {
                continue;
            };
            let last = last.min(end.saturating_sub(1));
            if first <= last {
                all.add((first, last));
            }
        }
        all
    }

    pub(super) fn total(&self) -> i32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub(super) fn has(&self, index: i32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    pub(super) fn insert(&mut self, index: i32) {
        self.add((index, index));
    }

    pub(super) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|range| self.add(*range));
    }

    /// The number of indexes that are in both sets.
    pub(super) fn common(&self, other: &Self) -> i32 {
        let shared = |a: &(i32, i32), b: &(i32, i32)| (a.1.min(b.1) - a.0.max(b.0) + 1).max(0);
        self.0.iter().map(|a| other.0.iter().map(|b| shared(a, b)).sum::<i32>()).sum()
    }

    /// The first `count` indexes below `end` that are not in the set.
    pub(super) fn missing(&self, count: usize, end: i32) -> Vec<i32> {
        let (mut found, mut next) = (Vec::new(), 0);
        for (first, last) in self.0.iter().copied().chain([(end, end)]) {
            let room = count - found.len();
            found.extend((next..first.min(end)).take(room));
            next = last.saturating_add(1);
        }
        found
    }

    fn add(&mut self, (first, last): (i32, i32)) {
        let from = self.0.partition_point(|range| range.1.saturating_add(1) < first);
        let to = self.0.partition_point(|range| range.0 <= last.saturating_add(1));
        let joined = match self.0.get(from..to) {
            Some([low, .., high]) => (low.0.min(first), high.1.max(last)),
            Some([one]) => (one.0.min(first), one.1.max(last)),
            _ => (first, last),
        };
        self.0.splice(from..to.max(from), [joined]);
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for (text, written, total) in [
            ("", "", 0),
            ("0", "0", 1),
            ("1,2", "1,2", 2),
            ("1-3,4,6-20", "1-4,6-9", 8),
            ("x,2,9-12", "2,9", 2),
            ("12", "", 0),
        ] {
            let all = Indexes::parse(text, 10);
            assert_eq!((all.to_string(), all.total()), (written.to_owned(), total), "{text}");
        }
    }

    #[test]
    fn grows_and_finds_what_is_missing() {
        let mut all = Indexes::parse("2-3,7", 10);
        assert!(all.has(3) && all.has(7) && !all.has(4) && !all.has(0));
        assert_eq!(all.missing(4, 10), [0, 1, 4, 5]);
        all.insert(5);
        all.insert(4);
        all.insert(0);
        assert_eq!(all.to_string(), "0,2-5,7");
        all.insert(6);
        assert_eq!((all.to_string(), all.missing(9, 10)), ("0,2-7".into(), vec![1, 8, 9]));
        all.merge(&Indexes::parse("1,8-9", 10));
        assert_eq!((all.to_string(), all.missing(9, 10)), ("0-9".into(), vec![]));
        assert_eq!(all.common(&Indexes::parse("3-5,20", 30)), 3);
    }
}
