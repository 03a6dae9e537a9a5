//! The patterns of expressions.

pub(crate) use schema::pattern::compile;
use schema::pattern::{self, Pattern};

/// What compiling a pattern costs at least, in the unit of evaluations: a tenth of a microsecond.
const COMPILED: u64 = 100;
const PER_STATE: u64 = 2;

/// The patterns that stand in an expression, compiled with it.
#[derive(Debug, Default)]
pub(crate) struct RegexCache {
    compiled: Vec<(Box<str>, Pattern)>,
}

impl RegexCache {
    pub(crate) const fn new() -> Self {
        Self { compiled: Vec::new() }
    }

    /// Compiles a pattern; what is wrong with it, if it is none.
    pub(crate) fn add(&mut self, pattern: &str) -> Result<(), String> {
        self.compiled.push((pattern.into(), compile(pattern)?));
        Ok(())
    }

    /// A pattern, and what it costs that it was not compiled with the expression.
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
