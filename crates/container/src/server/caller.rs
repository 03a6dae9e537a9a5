//! Detects callers that have gone away before their call has finished.

use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;

/// Held by the work of a call. Work for a caller that has gone away is undone, because nobody would ever learn the new
/// id.
#[derive(Clone, Debug, Default)]
pub(super) struct Caller(CancellationToken);

impl Caller {
    /// Creates the pair: `Caller` for the work, and the guard for the call's future, which cancels it when dropped.
    pub(super) fn new() -> (Self, DropGuard) {
        let token = CancellationToken::new();
        (Self(token.clone()), token.drop_guard())
    }

    /// Fails if the caller has gone away.
    pub(super) fn check(&self) -> Result<(), Status> {
        if self.0.is_cancelled() {
            return Err(Status::cancelled("the caller has cancelled the request"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_call_is_noticed() {
        let (caller, waiting) = Caller::new();
        caller.check().expect("somebody waits");
        drop(waiting);
        assert_eq!(caller.check().expect_err("nobody waits").code(), tonic::Code::Cancelled);
    }
}
