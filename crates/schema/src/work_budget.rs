//! Limits the computation of one request that is not bounded by its size: compiling regular
//! expressions and CEL, and matching. Request handlers run such work `within` a limit; work beyond
//! the limit is rejected. Outside of `within` there is no limit.
//!
//! The unit is roughly one microsecond of an optimised build.

use std::cell::Cell;

/// Limit for the validation of one object.
pub const REQUEST: u64 = 2_000_000;

thread_local! {
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The budget is used up, and the work was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request needs too much computation")]
pub struct Exhausted;

/// Runs `work` with this budget.
pub fn within<T>(limit: u64, work: impl FnOnce() -> T) -> T {
    /// Restores the previous budget, even if the work panics.
    struct Restore(Option<u64>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _restore = Restore(LEFT.replace(Some(limit)));
    work()
}

/// Takes from the budget for work that is about to be done.
pub fn spend(amount: u64) -> Result<(), Exhausted> {
    let Some(left) = LEFT.get() else { return Ok(()) };
    let rest = left.checked_sub(amount);
    LEFT.set(Some(rest.unwrap_or(0)));
    rest.map(drop).ok_or(Exhausted)
}

/// Whether the budget is used up: some of the work was not done.
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
