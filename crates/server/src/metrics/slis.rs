//! `/metrics/slis`: how often each health check succeeded, for availability SLIs.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
};

/// Results of health checks, by check and endpoint.
#[derive(Debug, Default)]
pub(crate) struct Slis(Mutex<BTreeMap<(&'static str, &'static str), Seen>>);

/// The results of a check: counts, and the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    held: u64,
    failed: u64,
    last: bool,
}

impl Slis {
    /// Records the result of a check that ran for an endpoint (livez, readyz or healthz).
    pub(crate) fn observe(&self, name: &'static str, path: &'static str, held: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = all.entry((name, path)).or_default();
        *(if held { &mut seen.held } else { &mut seen.failed }) += 1;
        seen.last = held;
    }

    pub(crate) fn is_observed(&self, name: &'static str, path: &'static str) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.contains_key(&(name, path))
    }

    pub(crate) fn text(&self) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        super::head(
            "kubernetes_healthcheck",
            "gauge",
            "Result of the last health check.",
            &mut out,
        );
        for ((name, path), seen) in &*all {
            let last = u8::from(seen.last);
            let _ =
                writeln!(out, "kubernetes_healthcheck{{name=\"{name}\",type=\"{path}\"}} {last}");
        }
        let total = "kubernetes_healthchecks_total";
        super::head(total, "counter", "Number of health checks, by result.", &mut out);
        for ((name, path), seen) in &*all {
            for (status, count) in [("error", seen.failed), ("success", seen.held)] {
                if count > 0 {
                    let _ = writeln!(
                        out,
                        "{total}{{name=\"{name}\",status=\"{status}\",type=\"{path}\"}} {count}"
                    );
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_and_all_are_told() {
        let slis = Slis::default();
        slis.observe("etcd", "readyz", false);
        slis.observe("etcd", "readyz", true);
        let text = slis.text();
        assert!(
            text.contains("kubernetes_healthcheck{name=\"etcd\",type=\"readyz\"} 1\n"),
            "{text}"
        );
        for status in ["error", "success"] {
            let line = format!("{{name=\"etcd\",status=\"{status}\",type=\"readyz\"}} 1\n");
            assert!(text.contains(&line), "{text}");
        }
    }
}
