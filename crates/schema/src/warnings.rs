//! Warnings about an object that is accepted; the response carries them in `Warning` headers.

use std::fmt::Display;

use crate::FieldPath;

/// Maximum number of warnings; more do not fit into the headers of a response.
const MOST: usize = 1_000;

/// Collects warnings for the client, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarningList(pub Vec<String>);

impl WarningList {
    /// Adds a warning about the field at this path.
    pub fn push_at(&mut self, at: &FieldPath, what: impl Display) {
        self.push(format!("{at}: {what}"));
    }

    /// Whether the list is full, so that callers need not search for further warnings.
    pub fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    /// Adds a warning about the whole object.
    pub fn push(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.is_full() && !self.0.contains(&what) {
            self.0.push(what);
        }
    }
}
