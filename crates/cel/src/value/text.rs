//! Strings: borrowed from an object, or created.

use std::{fmt, ops::Deref, sync::Arc};

/// A string, borrowed from an object or created by an expression.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Made(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Made(text.into())
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}
