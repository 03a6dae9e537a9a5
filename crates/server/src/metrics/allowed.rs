//! The label allow-list (`--allow-metric-labels`): a value that is not allowed is replaced by
//! "unexpected", so that a metric does not get too many series.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
};

/// The allowed values by metric and label.
#[derive(Clone, Debug, Default)]
pub struct AllowedLabels(pub BTreeMap<(String, String), BTreeSet<String>>);

impl AllowedLabels {
    /// Applies the allow-list to the text format; series that become equal are added up.
    pub(crate) fn apply(&self, text: String) -> String {
        if self.0.is_empty() {
            return text;
        }
        let mut out = String::with_capacity(text.len());
        let (mut sums, mut order) = (HashMap::<String, f64>::new(), Vec::new());
        for line in text.lines() {
            if let Some((series, number)) = self.changed(line) {
                let sum = sums.entry(series.clone()).or_insert_with(|| {
                    order.push(series);
                    0.0
                });
                *sum += number;
            } else {
                tell(&mut sums, &mut order, &mut out);
                out.push_str(line);
                out.push('\n');
            }
        }
        tell(&mut sums, &mut order, &mut out);
        out
    }

    /// Parses a line of a restricted metric: its series with replaced labels, and its value.
    fn changed(&self, line: &str) -> Option<(String, f64)> {
        let (name, rest) = line.split_once('{').filter(|_| !line.starts_with('#'))?;
        let parts = ["_bucket", "_sum", "_count"];
        let whole = parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        let restricted = |metric: &str| self.0.keys().any(|(own, _)| own == metric);
        let metric = [name, whole].into_iter().find(|metric| restricted(metric))?;
        let (labels, number) = rest.rsplit_once("} ")?;
        let mut series = format!("{name}{{");
        for (at, (label, value)) in split(labels).into_iter().enumerate() {
            let key = (metric.to_owned(), label.to_owned());
            let allowed = self.0.get(&key).is_none_or(|values| values.contains(value));
            let comma = if at == 0 { "" } else { "," };
            let value = if allowed { value } else { "unexpected" };
            let _ = write!(series, "{comma}{label}=\"{value}\"");
        }
        series.push('}');
        Some((series, number.parse().ok()?))
    }
}

fn tell(sums: &mut HashMap<String, f64>, order: &mut Vec<String>, out: &mut String) {
    for series in order.drain(..) {
        let _ = writeln!(out, "{series} {}", sums.remove(&series).unwrap_or_default());
    }
}

/// Splits labels into names and values, without quotes; the values stay escaped.
pub(super) fn split(labels: &str) -> Vec<(&str, &str)> {
    let (mut all, mut rest) = (Vec::new(), labels);
    while let Some((label, value)) = rest.split_once("=\"") {
        let mut escaped = false;
        let end = value.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some((value, after)) = end.and_then(|end| value.split_at_checked(end)) else { break };
        all.push((label.trim_start_matches(','), value));
        rest = after.strip_prefix('"').unwrap_or_default();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_added_up() {
        let values = BTreeSet::from(["x".to_owned()]);
        let allowed = AllowedLabels([(("m".to_owned(), "a".to_owned()), values)].into());
        let text = "# TYPE m counter\nm{a=\"x\",b=\"1\"} 1\nm{a=\"y\",b=\"1\"} 2\nm{a=\"z\\\"\",b=\"1\"} 3\n\
                    # TYPE n counter\nn{a=\"y\"} 4\n";
        let told = "# TYPE m counter\nm{a=\"x\",b=\"1\"} 1\nm{a=\"unexpected\",b=\"1\"} 5\n\
                    # TYPE n counter\nn{a=\"y\"} 4\n";
        assert_eq!(allowed.apply(text.to_owned()), told);
    }
}
