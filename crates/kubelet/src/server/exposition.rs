//! Prometheus text format.

use std::fmt::{Display, Write};

/// Writes metric families one after the other.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// Begins a family; its samples follow with `put`.
    pub(super) fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { name, out: &mut self.0 }
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Writes the samples of one family.
#[derive(Debug)]
pub(super) struct Family<'a> {
    name: &'static str,
    out: &'a mut String,
}

impl Family<'_> {
    /// Writes a sample with its labels; `nanos` is its timestamp, if it has one.
    pub(super) fn put(&mut self, labels: &[(&str, &str)], value: impl Display, nanos: Option<i64>) {
        self.out.push_str(self.name);
        for (at, (name, value)) in labels.iter().enumerate() {
            self.out.push(if at == 0 { '{' } else { ',' });
            let _ = write!(self.out, "{name}=\"{}\"", escaped(value));
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = write!(self.out, " {value}");
        if let Some(nanos) = nanos {
            let _ = write!(self.out, " {}", nanos / 1_000_000);
        }
        self.out.push('\n');
    }
}

/// Formats nanoseconds as seconds.
pub(super) fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[test]
fn numbers_stand_below_their_heads() {
    let mut out = Exposition::default();
    out.family("n_total", "counter", "Things.").put(&[("a", "x\"y")], 3, Some(5_000_000));
    out.family("m", "gauge", "Others.").put(&[], seconds(1_500_000_000), None);
    let want = "# HELP n_total Things.\n# TYPE n_total counter\nn_total{a=\"x\\\"y\"} 3 5\n\
                # HELP m Others.\n# TYPE m gauge\nm 1.500000000\n";
    assert_eq!(out.finish(), want);
}
