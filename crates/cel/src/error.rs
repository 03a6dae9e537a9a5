//! What can go wrong while an expression is evaluated.

use std::{borrow::Cow, fmt};

/// Why there is no value, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    message: Cow<'static, str>,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The expression met a value it cannot work with. Logic may not need that value.
    Value,
    /// No overload takes such arguments.
    Overload,
    /// It cost more than it may. Nothing is evaluated after that.
    Cost,
    /// What upstream does not survive. Nothing is evaluated after that either.
    Internal,
}

impl Error {
    pub(crate) fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), reason: Reason::Value }
    }

    pub(crate) const fn no_overload() -> Self {
        Self { message: Cow::Borrowed("no such overload"), reason: Reason::Overload }
    }

    /// The same, where the message tells the call.
    pub(crate) fn no_overload_for(call: &str) -> Self {
        let message = Cow::Owned(format!("no such overload: {call}"));
        Self { message, reason: Reason::Overload }
    }

    pub(crate) const fn cost() -> Self {
        let message = Cow::Borrowed("operation cancelled: actual cost limit exceeded");
        Self { message, reason: Reason::Cost }
    }

    /// What counting the cost of going through a list says of what is none.
    pub(crate) const fn no_list() -> Self {
        let message = Cow::Borrowed(
            "internal error: interface conversion: *types.Err is not traits.Lister: missing method Add",
        );
        Self { message, reason: Reason::Internal }
    }

    pub(crate) fn no_such_key(key: impl fmt::Display) -> Self {
        Self::new(format!("no such key: {key}"))
    }

    /// Whether the budget was exhausted.
    pub fn is_budget_exceeded(&self) -> bool {
        self.reason == Reason::Cost
    }

    /// Whether nothing may be evaluated after it.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self.reason, Reason::Cost | Reason::Internal)
    }

    /// Whether another overload may be tried.
    pub(crate) fn is_no_overload(&self) -> bool {
        self.reason == Reason::Overload
    }

    /// Whether no function takes such arguments.
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
