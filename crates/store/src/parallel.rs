//! Parallel map over a slice, with results in order.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// The number of available CPUs.
pub(crate) fn parallelism() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Applies `work` to each item on up to `hands` threads, and returns the results in order. With one thread or one item
/// it runs on the caller's thread.
pub(crate) fn parallel_map<T: Sync, R: Send>(
    hands: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let hands = hands.min(items.len());
    if hands < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let one = || {
        let mut done = Vec::new();
        while let nth = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(nth)
        {
            done.push((nth, work(item)));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..hands).map(|_| scope.spawn(one)).collect();
        let mut done = one();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(nth, _)| *nth);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_hands_tell_in_order() {
        let items: Vec<_> = (0..1_000).collect();
        for hands in [1, 2, 7] {
            assert_eq!(parallel_map(hands, &items, |item| item * 2)[999], 1_998);
            assert!(parallel_map(hands, &items, |item| *item).is_sorted());
        }
        assert!(parallel_map(3, &[] as &[u8], |item| *item).is_empty());
    }

    #[test]
    #[should_panic(expected = "as it was")]
    fn a_panic_is_told_as_it_was() {
        parallel_map(2, &[1, 2, 3], |item| assert!(*item < 3, "as it was"));
    }
}
