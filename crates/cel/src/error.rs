//! Errors of CEL evaluation.

use std::{borrow::Cow, fmt};

/// Why an evaluation failed, with upstream's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    message: Cow<'static, str>,
    reason: Reason,
}

/// The category of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A value that the expression cannot handle. `&&` and `||` absorb the error if the other side decides.
    Value,
    /// No overload accepts the arguments.
    Overload,
    /// The cost limit was exceeded. Evaluation stops.
    Cost,
    /// Upstream's evaluator panics at this point. Evaluation stops, as it does when the cost limit is exceeded.
    Internal,
}

impl Error {
    pub(crate) fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), reason: Reason::Value }
    }

    pub(crate) const fn no_overload() -> Self {
        Self { message: Cow::Borrowed("no such overload"), reason: Reason::Overload }
    }

    /// Like `no_overload`, with the call in the message.
    pub(crate) fn no_overload_for(call: &str) -> Self {
        let message = Cow::Owned(format!("no such overload: {call}"));
        Self { message, reason: Reason::Overload }
    }

    pub(crate) const fn cost() -> Self {
        let message = Cow::Borrowed("operation cancelled: actual cost limit exceeded");
        Self { message, reason: Reason::Cost }
    }

    /// Upstream's message when the cost of traversing a list is computed for a value that is no list.
    pub(crate) const fn no_list() -> Self {
        let message = Cow::Borrowed(
            "internal error: interface conversion: *types.Err is not traits.Lister: missing method Add",
        );
        Self { message, reason: Reason::Internal }
    }

    pub(crate) fn no_such_key(key: impl fmt::Display) -> Self {
        Self::new(format!("no such key: {key}"))
    }

    /// Whether the cost limit was exceeded.
    pub fn is_budget_exceeded(&self) -> bool {
        self.reason == Reason::Cost
    }

    /// Whether evaluation must stop.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self.reason, Reason::Cost | Reason::Internal)
    }

    /// Whether another overload may be tried.
    pub(crate) fn is_no_overload(&self) -> bool {
        self.reason == Reason::Overload
    }

    /// Whether the message is "no such overload".
    pub fn is_overload(&self) -> bool {
        self.message.starts_with("no such overload")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
