//! Health checks: `/livez`, `/readyz` and `/healthz`, as a whole and by check.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
    sync::Arc,
};

use crate::{Query, Reply, metrics::Metrics, respond::raw};

/// A named health check. `Err` is the reason of a failure.
#[derive(Clone)]
pub struct HealthCheck {
    pub name: &'static str,
    pub says: ProbeScope,
    pub check: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
}

/// The endpoints that a check belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeScope {
    /// Only `/readyz`: clients should be sent elsewhere while it fails.
    Readyz,
    /// `/livez` and `/healthz`: the server should be restarted if it fails.
    Livez,
    /// All of them.
    All,
}

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl HealthCheck {
    pub fn new(
        name: &'static str,
        says: ProbeScope,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { name, says, check: Arc::new(check) }
    }

    /// Whether the check is part of `root`: livez, readyz or healthz.
    pub(crate) fn runs_for(&self, root: &str) -> bool {
        self.says != if root == "readyz" { ProbeScope::Livez } else { ProbeScope::Readyz }
    }
}

const ROOTS: [&str; 3] = ["livez", "readyz", "healthz"];

/// Runs every check that has never run, so that `/metrics/slis` is not empty on a server that no
/// client probes.
pub(crate) fn run_unobserved(checks: &[HealthCheck], metrics: &Metrics) {
    for root in ROOTS {
        for check in checks.iter().filter(|check| check.runs_for(root)) {
            if !metrics.slis.is_observed(check.name, root) {
                metrics.slis.observe(check.name, root, (check.check)().is_ok());
            }
        }
    }
}

/// Answers `/livez`, `/readyz`, `/healthz` and the paths of single checks below them.
pub(crate) fn answer(
    checks: &[HealthCheck],
    path: &str,
    query: &Query,
    metrics: &Metrics,
) -> Option<Reply> {
    if path.ends_with('/') {
        return None;
    }
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let root = parts.next()?;
    let root = ROOTS.into_iter().find(|own| *own == root)?;
    let of = |check: &&HealthCheck| check.runs_for(root);
    let hold = |check: &HealthCheck| {
        let held = (check.check)();
        metrics.slis.observe(check.name, root, held.is_ok());
        held
    };
    if let Some(name) = parts.next().filter(|name| !name.is_empty()) {
        let check = checks.iter().filter(of).find(|check| check.name == name)?;
        return Some(match hold(check) {
            Ok(()) => raw(200, PLAIN, b"ok".to_vec()),
            Err(why) => raw(500, PLAIN, format!("internal server error: {why}\n").into_bytes()),
        });
    }
    let excluded: BTreeSet<&str> = query.all("exclude").into_iter().collect();
    let mut unknown = excluded.clone();
    let (mut text, mut well) = (String::new(), true);
    for check in checks.iter().filter(of) {
        if excluded.contains(check.name) {
            unknown.remove(check.name);
            let _ = writeln!(text, "[+]{} excluded: ok", check.name);
            continue;
        }
        let held = hold(check).is_ok();
        well &= held;
        let _ = match held {
            true => writeln!(text, "[+]{} ok", check.name),
            false => writeln!(text, "[-]{} failed: reason withheld", check.name),
        };
    }
    if !unknown.is_empty() {
        let unknown: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
        let _ = writeln!(
            text,
            "warn: some health checks cannot be excluded: no matches for {}",
            unknown.join(",")
        );
    }
    Some(match (well, query.get("verbose").is_some()) {
        (true, false) => raw(200, PLAIN, b"ok".to_vec()),
        (true, true) => raw(200, PLAIN, format!("{text}{root} check passed\n").into_bytes()),
        (false, _) => raw(500, PLAIN, format!("{text}{root} check failed\n").into_bytes()),
    })
}

const PLAIN: &str = "text/plain; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slis_tell_of_checks_that_nobody_made() {
        let checks = [
            HealthCheck::new("ping", ProbeScope::All, || Ok(())),
            HealthCheck::new("shutdown", ProbeScope::Readyz, || Err("ends".to_owned())),
        ];
        let metrics = Metrics::default();
        answer(&checks, "/livez", &Query::parse(""), &metrics);
        run_unobserved(&checks, &metrics);
        let text = metrics.slis.text();
        for line in [
            "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"livez\"} 1\n",
            "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"readyz\"} 1\n",
            "kubernetes_healthchecks_total{name=\"shutdown\",status=\"error\",type=\"readyz\"} 1\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn each_check_is_where_it_says_something() {
        let checks = [
            HealthCheck::new("ping", ProbeScope::All, || Ok(())),
            HealthCheck::new("certificate", ProbeScope::Livez, || Ok(())),
            HealthCheck::new("shutdown", ProbeScope::Readyz, || Err("ends".to_owned())),
        ];
        let code = |path: &str, query: &str| {
            let reply = answer(&checks, path, &Query::parse(query), &Metrics::default());
            reply.map(|reply| reply.status().as_u16())
        };
        assert_eq!(code("/livez", ""), Some(200));
        assert_eq!(code("/readyz", ""), Some(500));
        assert_eq!(code("/readyz", "exclude=shutdown"), Some(200));
        assert_eq!(code("/readyz/certificate", ""), None);
        assert_eq!(code("/livez/certificate", ""), Some(200));
    }
}
