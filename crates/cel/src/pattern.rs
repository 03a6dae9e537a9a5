//! Regular expressions of CEL programs.

pub(crate) use schema::pattern::compile;
use schema::pattern::{self, Pattern};

/// Minimum cost of compiling a regular expression, in units of evaluation cost: a tenth of a microsecond each.
const COMPILED: u64 = 100;
const PER_STATE: u64 = 2;

/// The regular expression literals of an expression, compiled with it.
#[derive(Debug, Default)]
pub(crate) struct RegexCache {
    compiled: Vec<(Box<str>, Pattern)>,
}

impl RegexCache {
    pub(crate) const fn new() -> Self {
        Self { compiled: Vec::new() }
    }

    /// Compiles a regular expression literal; the error says what is invalid.
    pub(crate) fn add(&mut self, pattern: &str) -> Result<(), String> {
        self.compiled.push((pattern.into(), compile(pattern)?));
        Ok(())
    }

    /// The compiled regular expression, and the cost if it had to be compiled now.
    pub(crate) fn get(&self, pattern: &str) -> (Result<Pattern, String>, u64) {
        if let Some((_, known)) = self.compiled.iter().find(|(other, _)| &**other == pattern) {
            return (Ok(known.clone()), 0);
        }
        if let Some(known) = pattern::cached(pattern) {
            return (known, 0);
        }
        let compiled = compile(pattern);
        let states = compiled.as_ref().map_or(0, Pattern::states);
        (compiled, COMPILED + PER_STATE * states)
    }
}
