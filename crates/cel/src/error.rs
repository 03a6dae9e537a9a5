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

    pub(crate) fn no_such_key(key: impl fmt::Display) -> Self {
        Self::new(format!("no such key: {key}"))
    }

    /// Whether the budget was exhausted.
    pub fn is_cost(&self) -> bool {
        self.reason == Reason::Cost
    }

    /// Whether no function takes such arguments.
    pub fn is_overload(&self) -> bool {
        self.reason == Reason::Overload
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
