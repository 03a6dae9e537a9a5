//! Regular expressions of CRD schemas.

use crate::pattern::{self, compile};

/// A regular expression, or why it is invalid.
#[derive(Debug)]
pub(super) struct Pattern {
    text: String,
    compiled: Result<pattern::Pattern, String>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), compiled: compile(text) }
    }

    /// Matches a value; the error is the expression for the message.
    pub(super) fn check(&self, value: &str) -> Result<(), String> {
        match &self.compiled {
            Ok(pattern) => match pattern.is_match(value) {
                Ok(true) => Ok(()),
                Ok(false) => Err(self.text.clone()),
                Err(why) => Err(format!("{}, but {why}", self.text)),
            },
            Err(why) => Err(format!("{}, but pattern is invalid: {why}", self.text)),
        }
    }
}
