//! Prometheus' text format, with numbers written as its library for Go writes them.

use std::fmt::Write;

use super::{Family, Kind, Series};

pub(super) fn write_header(family: &Family, out: &mut String) {
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
    };
    let name = family.name;
    let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

pub(super) fn write_series(family: &Family, values: &[String], series: &Series, out: &mut String) {
    let (name, labels) = (family.name, labels(family.labels, values));
    let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let histogram = match series {
        Series::Counter(counter) => {
            let _ = writeln!(out, "{name}{braces} {}", counter.get());
            return;
        }
        Series::Gauge(gauge) => {
            let _ = writeln!(out, "{name}{braces} {}", number(gauge.get()));
            return;
        }
        Series::Histogram(histogram) => histogram,
    };
    let comma = if labels.is_empty() { "" } else { "," };
    let mut total = 0;
    for (bound, count) in histogram.cumulative() {
        let bound = number(bound);
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}");
        total = count;
    }
    let _ = writeln!(out, "{name}_sum{braces} {}", number(histogram.sum()));
    let _ = writeln!(out, "{name}_count{braces} {total}");
}

/// `a="1",b="2"`.
fn labels(names: &[&str], values: &[String]) -> String {
    let mut out = String::new();
    for (name, value) in names.iter().zip(values) {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let comma = if out.is_empty() { "" } else { "," };
        let _ = write!(out, "{comma}{name}=\"{value}\"");
    }
    out
}

/// The shortest text that reads back as `n`; with an exponent below 10^-4 and from 10^6 on.
fn number(n: f64) -> String {
    if n.is_infinite() {
        return if n > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if n == 0.0 || (1e-4..1e6).contains(&n.abs()) {
        return n.to_string();
    }
    let text = format!("{n:e}");
    let Some((digits, power)) = text.split_once('e') else { return text };
    let (sign, power) = match power.strip_prefix('-') {
        Some(power) => ('-', power),
        None => ('+', power),
    };
    format!("{digits}e{sign}{power:0>2}")
}
