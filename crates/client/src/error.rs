//! Errors of the client, by what a caller can do about them.

use object::Status;

/// Why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The server returned an error Status.
    #[error("{}", .0.message())]
    Status(Status),
    /// The server cannot be reached, or did not respond in time: retry.
    #[error("the server is not available: {0}")]
    Unavailable(String),
    /// The response is malformed.
    #[error("cannot decode the response: {0}")]
    Decode(String),
    /// The request could not be built: an invalid name or configuration.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    pub fn status(&self) -> Option<&Status> {
        if let Self::Status(status) = self { Some(status) } else { None }
    }

    pub fn is_not_found(&self) -> bool {
        self.has(404, "NotFound")
    }

    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.has_reason("AlreadyExists"))
    }

    /// The resourceVersion is stale, or another precondition failed.
    pub fn is_conflict(&self) -> bool {
        self.status()
            .is_some_and(|status| status.code() == 409 && !status.has_reason("AlreadyExists"))
    }

    /// The resourceVersion is too old: list again.
    pub fn is_gone(&self) -> bool {
        self.has(410, "Expired") || self.has(410, "Gone")
    }

    pub fn is_forbidden(&self) -> bool {
        self.has(403, "Forbidden")
    }

    pub fn is_unauthorized(&self) -> bool {
        self.has(401, "Unauthorized")
    }

    pub fn is_invalid(&self) -> bool {
        self.has(422, "Invalid")
    }

    /// The request, or the object that it results in, is larger than the server accepts.
    pub fn is_too_large(&self) -> bool {
        self.has(413, "RequestEntityTooLarge")
    }

    pub fn is_bad_request(&self) -> bool {
        self.has(400, "BadRequest")
    }

    /// Whether the namespace of the object is terminating.
    pub fn is_namespace_terminating(&self) -> bool {
        self.status().and_then(|status| status.details()).is_some_and(|details| {
            details.causes().iter().any(|cause| cause.reason() == "NamespaceTerminating")
        })
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Status(status) => matches!(status.code(), 429 | 500 | 502..=504),
            Self::Decode(_) | Self::Invalid(_) => false,
        }
    }

    pub(crate) fn unavailable(why: impl std::fmt::Display) -> Self {
        Self::Unavailable(why.to_string())
    }

    fn has(&self, code: i32, reason: &str) -> bool {
        self.status().is_some_and(|status| status.code() == code || status.has_reason(reason))
    }
}
