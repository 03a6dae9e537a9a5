//! Writes names and values in aligned columns.

use object::Value;

use crate::print::{tabwriter::SHEET, terminal};

/// The text of a description, with tabs between columns that are aligned at the end.
#[derive(Debug, Default)]
pub(crate) struct DescribeWriter {
    done: String,
    lines: String,
}

impl DescribeWriter {
    /// Writes a line, indented by two spaces for each level.
    pub(super) fn line(&mut self, level: usize, text: &str) {
        self.lines.extend(std::iter::repeat_n(' ', 2 * level));
        self.lines.push_str(&terminal::escape(text));
        self.lines.push('\n');
    }

    /// Writes `name: value`.
    pub(super) fn field(&mut self, name: &str, value: impl std::fmt::Display) {
        self.line(0, &format!("{name}:\t{value}"));
    }

    /// Writes `name: value`, unless the value is empty.
    pub(super) fn optional_field(&mut self, name: &str, value: &Value) {
        if let Some(value) = value.as_str().filter(|value| !value.is_empty()) {
            self.field(name, value);
        }
    }

    /// Writes labels, one per line.
    pub(super) fn labels(&mut self, title: &str, labels: &Value) {
        let pairs: Vec<String> = labels
            .entries()
            .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
            .collect();
        self.column(title, &pairs);
    }

    /// Writes texts, one per line.
    pub(super) fn column(&mut self, title: &str, texts: &[String]) {
        if texts.is_empty() {
            self.line(0, &format!("{title}:\t<none>"));
        }
        for (at, text) in texts.iter().enumerate() {
            self.line(0, &if at == 0 { format!("{title}:\t{text}") } else { format!("\t{text}") });
        }
    }

    pub(super) fn annotations(&mut self, title: &str, annotations: &Value) {
        const LONGEST: usize = 140;
        let shown: Vec<(&str, &str)> = annotations
            .entries()
            .filter(|(name, _)| *name != crate::merge::LAST_APPLIED)
            .map(|(name, value)| (name, value.as_str().unwrap_or_default()))
            .collect();
        if shown.is_empty() {
            self.line(0, &format!("{title}:\t<none>"));
        }
        for (at, (name, value)) in shown.into_iter().enumerate() {
            let start = if at == 0 { format!("{title}:\t") } else { "\t".to_owned() };
            let value = value.strip_suffix('\n').unwrap_or(value);
            if value.len() + name.len() + 2 <= LONGEST && !value.contains('\n') {
                self.line(0, &format!("{start}{name}: {value}"));
                continue;
            }
            self.line(0, &format!("{start}{name}:"));
            for line in value.split('\n') {
                let cut: String = line.chars().take(LONGEST - 2).collect();
                let cut = if cut.len() < line.len() { cut + "..." } else { cut };
                self.line(0, &format!("\t  {cut}"));
            }
        }
    }

    /// Aligns the columns so far; what follows is aligned separately.
    pub(super) fn flush(&mut self) {
        self.done += &SHEET.align(&std::mem::take(&mut self.lines));
    }

    /// The whole text, aligned.
    pub(super) fn text(mut self) -> String {
        self.flush();
        self.done
    }

    /// The text with its tabs, not aligned.
    pub(super) fn raw(self) -> String {
        self.lines
    }
}
