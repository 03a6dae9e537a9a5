//! Regular expressions of schemas.

use regex::Regex;

use crate::pattern::compile;

/// An expression, or why it is none.
#[derive(Debug)]
pub(super) struct Pattern {
    text: String,
    compiled: Result<Regex, String>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), compiled: compile(text) }
    }

    /// The error is what should have been matched.
    pub(super) fn check(&self, value: &str) -> Result<(), String> {
        match &self.compiled {
            Ok(pattern) if pattern.is_match(value) => Ok(()),
            Ok(_) => Err(self.text.clone()),
            Err(why) => Err(format!("{}, but pattern is invalid: {why}", self.text)),
        }
    }
}
