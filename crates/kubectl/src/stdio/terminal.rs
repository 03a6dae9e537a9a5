//! The terminal: its size, and raw mode, which is always restored.

use std::{
    io::{stdin, stdout},
    sync::{Mutex, PoisonError},
};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The terminal settings before raw mode.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Columns and rows of the terminal on stdout.
pub(crate) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(stdout()).ok()?;
    Some((size.ws_col, size.ws_row))
}

/// Raw mode of the terminal, without echo, line editing and signals, until this is dropped.
#[derive(Debug)]
pub(crate) struct RawTerminal(());

impl RawTerminal {
    /// Enters raw mode; `None` if stdin is no terminal.
    pub(crate) fn new() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        tcsetattr(stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self(()))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Leaves raw mode, if it is on.
pub(super) fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before); // the terminal may be closed
    }
}
