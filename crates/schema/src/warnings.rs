//! What is said about an object that is taken nevertheless.

use std::fmt::Display;

use crate::FieldPath;

/// More than fit into the headers of an answer.
const MOST: usize = 1_000;

/// Collects what the caller shall be told; each thing once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarningList(pub Vec<String>);

impl WarningList {
    /// About what is at this path.
    pub fn push_at(&mut self, at: &FieldPath, what: impl Display) {
        self.push(format!("{at}: {what}"));
    }

    /// Whether no more fit: what could only add to them need not be looked for.
    pub fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    /// About the object as a whole.
    pub fn push(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.is_full() && !self.0.contains(&what) {
            self.0.push(what);
        }
    }
}
