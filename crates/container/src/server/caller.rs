//! Whether whoever made a call still waits for its answer.

use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;

/// The work's side of a call. What has begun for a caller that went away is undone: nobody will
/// ever learn its identifier.
#[derive(Clone, Debug, Default)]
pub(super) struct Caller(CancellationToken);

impl Caller {
    /// The caller, and what the call's own future holds while somebody waits for it.
    pub(super) fn new() -> (Self, DropGuard) {
        let token = CancellationToken::new();
        (Self(token.clone()), token.drop_guard())
    }

    /// An error if the caller has gone.
    pub(super) fn check(&self) -> Result<(), Status> {
        if self.0.is_cancelled() {
            return Err(Status::cancelled("the caller has gone"));
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
