//! Escapes text from objects, so that it cannot control the terminal.

use std::borrow::Cow;

/// Replaces the characters that start escape sequences or move the cursor, as upstream's printers do.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if text.contains(['\u{1b}', '\r']) {
        Cow::Owned(text.replace('\u{1b}', "^[").replace('\r', "\\r"))
    } else {
        Cow::Borrowed(text)
    }
}

#[test]
fn escape_sequences_are_shown_not_obeyed() {
    assert_eq!(escape("\u{1b}[31mred\rover"), "^[[31mred\\rover");
    assert_eq!(escape("plain\n"), "plain\n");
}
