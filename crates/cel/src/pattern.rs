//! The patterns of expressions.

use std::borrow::Cow;

use regex::Regex;
pub(crate) use schema::pattern::compile;

use crate::error::Error;

/// The patterns that stand in an expression, compiled with it.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    compiled: Vec<(Box<str>, Regex)>,
}

impl Patterns {
    pub(crate) const fn new() -> Self {
        Self { compiled: Vec::new() }
    }

    /// Compiles a pattern; what is wrong with it, if it is none.
    pub(crate) fn add(&mut self, pattern: &str) -> Result<(), String> {
        self.compiled.push((pattern.into(), compile(pattern)?));
        Ok(())
    }

    pub(crate) fn get(&self, pattern: &str) -> Result<Cow<'_, Regex>, String> {
        match self.compiled.iter().find(|(other, _)| &**other == pattern) {
            Some((_, regex)) => Ok(Cow::Borrowed(regex)),
            None => compile(pattern).map(Cow::Owned),
        }
    }

    /// For functions whose error is the pattern's.
    pub(crate) fn regex(&self, pattern: &str) -> Result<Cow<'_, Regex>, Error> {
        self.get(pattern).map_err(Error::new)
    }
}
