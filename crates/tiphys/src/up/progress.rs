//! What a command that takes a while is doing.

use std::io::{IsTerminal, Write};

/// Prints a text. Whoever no longer reads does not stop what is under way.
pub(super) fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// One line that changes on a terminal; a line for each step elsewhere.
pub(super) struct Progress {
    live: bool,
    last: String,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { live: std::io::stdout().is_terminal(), last: String::new() }
    }

    pub(super) fn update(&mut self, what: &str) {
        if self.last == what {
            return;
        }
        what.clone_into(&mut self.last);
        let mut out = std::io::stdout();
        // whoever no longer reads does not stop what is under way
        let _ = if self.live {
            write!(out, "\r\x1b[K{what}…").and_then(|()| out.flush())
        } else {
            writeln!(out, "{what}")
        };
    }

    pub(super) fn done(&mut self, what: &str) {
        let clear = if self.live { "\r\x1b[K" } else { "" };
        let _ = writeln!(std::io::stdout(), "{clear}{what}");
    }
}
