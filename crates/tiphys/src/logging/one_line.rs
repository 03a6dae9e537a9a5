//! Log format with exactly one line for each event. Names, messages and errors in it come from requests, pods and
//! other servers: none of them can start a line of its own, send control sequences to a terminal, or fill the disk at
//! once.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Writer},
    },
    registry::LookupSpan,
};

/// Maximum number of bytes of an event; the rest is dropped.
const LONGEST: usize = 16 << 10;

/// The default format of tracing, with control characters escaped.
pub(super) struct OneLine(Format);

impl OneLine {
    pub(super) fn new() -> Self {
        Self(Format::default().with_ansi(false))
    }
}

impl<S, N> FormatEvent<S, N> for OneLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        write_escaped(&mut out, line.trim_end_matches('\n'))?;
        out.write_char('\n')
    }
}

fn write_escaped(out: &mut Writer<'_>, line: &str) -> fmt::Result {
    let end = line.floor_char_boundary(LONGEST);
    let (kept, left_out) = line.split_at(end);
    for c in kept.chars() {
        match c.is_control() {
            true => c.escape_default().try_for_each(|escaped| out.write_char(escaped))?,
            false => out.write_char(c)?,
        }
    }
    if !left_out.is_empty() {
        write!(out, "… ({} bytes more)", left_out.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(line: &str) -> String {
        let mut text = String::new();
        write_escaped(&mut Writer::new(&mut text), line).unwrap();
        text
    }

    #[test]
    fn nothing_begins_a_line_or_steers_a_terminal() {
        assert_eq!(escaped("a\r\nb\u{1b}[31mc\td\u{9b}"), r"a\r\nb\u{1b}[31mc\td\u{9b}");
        assert_eq!(escaped("\n\n"), r"\n\n");
        assert_eq!(escaped("plain ü"), "plain ü");
    }

    #[test]
    fn a_line_has_an_end() {
        let long = escaped(&"ü".repeat(1 << 20));
        assert!(long.len() < LONGEST + 64 && long.ends_with(" bytes more)"), "{}", long.len());
    }
}
