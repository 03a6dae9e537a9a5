//! How many panics there were, by part.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
};

static COUNTS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Writes the counter as Prometheus reads it.
pub fn report(out: &mut String) {
    out.push_str("# HELP tiphys_panics_total [ALPHA] Panics that were caught, by the part of the process they happened in.\n");
    out.push_str("# TYPE tiphys_panics_total counter\n");
    for (part, count) in &*counts() {
        let _ = writeln!(out, "tiphys_panics_total{{part=\"{part}\"}} {count}");
    }
}

/// Of all parts.
pub fn total() -> u64 {
    counts().values().sum()
}

pub(crate) fn add(part: &'static str) {
    let mut counts = counts();
    let count = counts.entry(part).or_default();
    *count = count.saturating_add(1);
}

fn counts() -> MutexGuard<'static, BTreeMap<&'static str, u64>> {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}
