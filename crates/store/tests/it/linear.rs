//! Linearizability check: whether a history can have happened one operation after the other.
//!
//! Every response contains its revision, so the order needs no search: writes are in the order of their revisions, and
//! a read sees all writes up to its own. It remains to check that this order agrees with the values read and with real
//! time: an operation that begins after another has ended comes after it.

use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// When it was sent and answered, by one clock. Without an answer it may have been executed at any time, or never.
    pub(crate) begun: u64,
    pub(crate) ended: Option<u64>,
    pub(crate) key: usize,
    /// The revision of the response.
    pub(crate) revision: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// A value that no other operation writes.
    Write(u64),
    /// The value, and the revision that it was written at.
    Read(Option<(u64, u64)>),
}

/// Returns a description of the first contradiction.
pub(crate) fn check(history: &[Operation]) -> Result<(), String> {
    let written: HashMap<_, _> = history
        .iter()
        .filter_map(|operation| match operation.what {
            What::Write(value) => Some((value, operation)),
            What::Read(_) => None,
        })
        .collect();
    let mut writes: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
    let mut write = |revision: u64, key: usize, value: u64| match writes
        .insert(revision, (key, value))
    {
        Some(other) if other != (key, value) => Err(format!("revision {revision} was given twice")),
        _ => Ok(()),
    };
    for operation in history {
        match operation.what {
            What::Write(value) if operation.ended.is_some() => {
                write(operation.revision, operation.key, value)?;
            }
            What::Read(Some((value, revision))) => {
                // It may be from a write that was never answered; then this read proves that it was executed.
                let of = written.get(&value).ok_or_else(|| format!("{value} was never written"))?;
                if of.key != operation.key || Some(of.begun) > operation.ended {
                    return Err(format!("{value} was read before it was written, or elsewhere"));
                }
                write(revision, operation.key, value)?;
            }
            _ => {}
        }
    }
    reads(history, &writes)?;
    clock(history)
}

/// Every read sees the last write up to its revision.
fn reads(history: &[Operation], writes: &BTreeMap<u64, (usize, u64)>) -> Result<(), String> {
    let mut by_key: HashMap<usize, BTreeMap<u64, u64>> = HashMap::new();
    for (revision, (key, value)) in writes {
        by_key.entry(*key).or_default().insert(*revision, *value);
    }
    for operation in history {
        let What::Read(seen) = operation.what else { continue };
        let known = by_key.get(&operation.key);
        let last = known.and_then(|writes| writes.range(..=operation.revision).next_back());
        let last = last.map(|(revision, value)| (*value, *revision));
        if seen != last {
            return Err(format!(
                "at {} there was {last:?}, and {seen:?} was read",
                operation.revision
            ));
        }
    }
    Ok(())
}

/// An operation that begins after another has ended comes after it.
fn clock(history: &[Operation]) -> Result<(), String> {
    let answered = || history.iter().filter_map(|operation| Some((operation.ended?, operation)));
    let mut ended: Vec<_> = answered().collect();
    ended.sort_unstable_by_key(|(ended, _)| *ended);
    let mut begun: Vec<_> = answered().map(|(_, operation)| operation).collect();
    begun.sort_unstable_by_key(|operation| operation.begun);
    let (mut before, mut nth) = (0, 0);
    for operation in begun {
        while ended.get(nth).is_some_and(|(ended, _)| *ended < operation.begun) {
            before = before.max(ended[nth].1.revision);
            nth += 1;
        }
        let new = matches!(operation.what, What::Write(_));
        if operation.revision < before || (new && operation.revision == before) {
            return Err(format!(
                "{operation:?} is older than {before}, which had been told before it began"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(begun: u64, ended: u64, revision: u64, value: u64) -> Operation {
        Operation { begun, ended: Some(ended), key: 0, revision, what: What::Write(value) }
    }

    fn read(begun: u64, ended: u64, revision: u64, seen: Option<(u64, u64)>) -> Operation {
        Operation { begun, ended: Some(ended), key: 0, revision, what: What::Read(seen) }
    }

    #[test]
    fn what_can_have_been_passes() {
        let lost = Operation { ended: None, ..write(5, 0, 0, 12) };
        let history = [
            read(0, 1, 1, None),
            write(0, 4, 2, 10),
            write(2, 3, 3, 11),
            read(4, 5, 3, Some((11, 3))),
            lost,
            read(6, 7, 4, Some((12, 4))),
        ];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn every_seeded_bug_is_caught() {
        let stale = [write(0, 1, 2, 10), write(2, 3, 3, 11), read(4, 5, 2, Some((10, 2)))];
        assert!(check(&stale).unwrap_err().contains("older than 3"));
        let lost = [write(0, 1, 2, 10), read(2, 3, 2, None)];
        assert!(check(&lost).unwrap_err().contains("None was read"));
        let twice = [write(0, 1, 2, 10), write(2, 3, 2, 11)];
        assert!(check(&twice).unwrap_err().contains("twice"));
        let reused = [write(0, 1, 5, 10), write(2, 3, 4, 11)];
        assert!(check(&reused).unwrap_err().contains("older than 5"));
        let invented = [read(0, 1, 2, Some((10, 2)))];
        assert!(check(&invented).unwrap_err().contains("never written"));
        let early = [read(0, 1, 2, Some((10, 2))), write(2, 3, 2, 10)];
        assert!(check(&early).unwrap_err().contains("before it was written"));
        let torn = [write(0, 1, 2, 10), write(2, 3, 3, 11), read(4, 5, 3, Some((10, 2)))];
        assert!(check(&torn).is_err());
    }
}
