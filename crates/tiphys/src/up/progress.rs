//! Progress output of commands that take a while.

use std::io::{IsTerminal, Write};

/// Prints a text. A closed pipe is ignored, so that the command completes.
pub(super) fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Progress output: one line that is rewritten on a terminal, and a line for each step elsewhere.
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
        // a closed pipe must not stop the command
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
