//! Source positions, and formatting of compile errors.

use std::fmt::{self, Write as _};

/// Maximum number of errors that are reported, as upstream; the rest is counted.
const MOST_ERRORS: usize = 100;
/// Longer lines are not shown with an error.
const LONGEST_LINE: usize = 16_384;

/// Why an expression did not compile, with upstream's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileErrors {
    text: String,
}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CompileErrors {}

/// A position in the source in characters; `None` if unknown.
pub(crate) type SourcePosition = Option<u32>;

/// The position before the first character, for errors about missing text.
pub(crate) const BEFORE_START: u32 = u32::MAX;

/// The compile errors so far.
#[derive(Debug, Default)]
pub(crate) struct ErrorCollector {
    found: Vec<(SourcePosition, String)>,
}

impl ErrorCollector {
    pub(crate) fn add(&mut self, place: SourcePosition, message: impl Into<String>) {
        self.found.push((place, message.into()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// Formats all errors with their source lines, sorted by position.
    pub(crate) fn show(mut self, source: &str) -> CompileErrors {
        let count = self.found.len();
        self.found.truncate(MOST_ERRORS);
        let lines = Lines::of(source);
        let mut found: Vec<_> = self
            .found
            .into_iter()
            .map(|(place, message)| (lines.position(place), message))
            .collect();
        found.sort_by_key(|(position, _)| *position);
        let mut shown: Vec<String> =
            found.into_iter().map(|(position, message)| lines.show(position, &message)).collect();
        if count > MOST_ERRORS {
            shown.push(format!("{} more errors were truncated", count - MOST_ERRORS));
        }
        CompileErrors { text: shown.join("\n") }
    }
}

/// A source split into lines.
struct Lines<'a> {
    lines: Vec<(u32, &'a str)>,
}

impl<'a> Lines<'a> {
    fn of(source: &'a str) -> Self {
        let mut start = 0;
        let mut lines = Vec::new();
        for line in source.split('\n') {
            lines.push((start, line));
            start += u32::try_from(line.chars().count()).unwrap_or(u32::MAX) + 1;
        }
        Self { lines }
    }

    /// Line from 1 and column from 0.
    fn position(&self, place: SourcePosition) -> (i64, i64) {
        let Some(place) = place else { return (-1, -1) };
        if place == BEFORE_START || self.is_empty() {
            return (1, -1);
        }
        let at = self.lines.partition_point(|(start, _)| *start <= place).saturating_sub(1);
        let (start, _) = self.lines[at];
        (i64::try_from(at).unwrap_or(i64::MAX) + 1, i64::from(place - start))
    }

    fn is_empty(&self) -> bool {
        matches!(self.lines[..], [(_, "")])
    }

    fn show(&self, (line, column): (i64, i64), message: &str) -> String {
        let mut out = format!("ERROR: <input>:{line}:{}: {message}", column + 1);
        let text = usize::try_from(line - 1).ok().and_then(|at| self.lines.get(at));
        let text = text.filter(|_| !self.is_empty());
        let Some((_, text)) = text.filter(|(_, text)| text.len() <= LONGEST_LINE) else {
            return out;
        };
        let text = text.replace('\t', " ");
        let column = usize::try_from(column).unwrap_or_default();
        let wide = |c: char| c.len_utf8() > 1;
        let dots = text.chars().take(column).map(|c| if wide(c) { '\u{ff0e}' } else { '.' });
        let dots: String = dots.collect();
        let mark = if text.chars().nth(column).is_some_and(wide) { '\u{ff3e}' } else { '^' };
        write!(out, "\n | {text}\n | {dots}{mark}").expect("a String takes everything");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_their_lines_in_order() {
        let mut problems = ErrorCollector::default();
        problems.add(Some(6), "second");
        problems.add(Some(1), "first");
        problems.add(None, "nowhere");
        let shown = problems.show("aä\n\tbcd").to_string();
        assert_eq!(
            shown,
            "ERROR: <input>:-1:0: nowhere\n\
             ERROR: <input>:1:2: first\n | aä\n | .\u{ff3e}\n\
             ERROR: <input>:2:4: second\n |  bcd\n | ...^"
        );
    }
}
