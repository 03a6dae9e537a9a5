//! How much work one request may cause that does not follow from its size: compiling regular
//! expressions and CEL, and matching. Whoever handles a request does such work `within` a limit;
//! what would go beyond it is refused instead of done. Elsewhere there is no limit.
//!
//! The unit is about a microsecond of an optimised build.

use std::cell::Cell;

/// What the checks of one object may take.
pub const REQUEST: u64 = 2_000_000;

thread_local! {
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// There is nothing left for what was to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request needs too much computation")]
pub struct Exhausted;

/// Does `work`, which may spend this much.
pub fn within<T>(limit: u64, work: impl FnOnce() -> T) -> T {
    /// Puts back what was left before, even if the work panics.
    struct Restore(Option<u64>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _restore = Restore(LEFT.replace(Some(limit)));
    work()
}

/// Counts work that is about to be done.
pub fn spend(amount: u64) -> Result<(), Exhausted> {
    let Some(left) = LEFT.get() else { return Ok(()) };
    let rest = left.checked_sub(amount);
    LEFT.set(Some(rest.unwrap_or(0)));
    rest.map(drop).ok_or(Exhausted)
}

/// Whether nothing is left: some of the work was not done.
pub fn is_exhausted() -> bool {
    LEFT.get() == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_within_a_limit_is_limited() {
        assert_eq!(spend(u64::MAX), Ok(()));
        within(10, || {
            assert_eq!((spend(6), spend(6), spend(1)), (Ok(()), Err(Exhausted), Err(Exhausted)));
            within(3, || assert_eq!(spend(3), Ok(())));
        });
        assert_eq!(spend(u64::MAX), Ok(()));
    }
}
