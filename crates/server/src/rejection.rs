//! Requests that fail, by who rejects them.

use object::Status;

/// Why a request failed. Warnings are sent only with what a handler answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rejection {
    /// Content negotiation rejected the request before any handler could cause a warning, as
    /// upstream's router does.
    Router(Status),
    Handler(Status),
}

impl From<Status> for Rejection {
    fn from(status: Status) -> Self {
        Self::Handler(status)
    }
}

impl From<Rejection> for Status {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Router(status) | Rejection::Handler(status) => status,
        }
    }
}
