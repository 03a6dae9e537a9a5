//! Regular expressions of schemas.

use crate::pattern::{self, compile};

/// An expression, or why it is none.
#[derive(Debug)]
pub(super) struct Pattern {
    text: String,
    compiled: Result<pattern::Pattern, String>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), compiled: compile(text) }
    }

    /// The error is what should have been matched.
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
