//! Minimization: reduces everything that was sent before a fault to the few requests that reproduce it.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use super::{
    child::Command,
    judge::Fault,
    process::{Limits, Process},
    request::{Body, Sequence},
};

/// Milliseconds after which controllers have acted on a write.
const SETTLE: u64 = 1500;

/// Sends sequences to a new process and returns the faults.
pub(crate) fn replay(sequences: &[Sequence], limits: Limits) -> Result<Vec<Fault>> {
    let mut process = Process::start(limits, &[])?;
    let mut faults = Vec::new();
    for sequence in sequences {
        match process.send(sequence, true) {
            Ok(report) => faults.extend(report.faults),
            Err(death) => {
                faults.push(death);
                return Ok(faults);
            }
        }
    }
    match process.tell(&Command::Settle(SETTLE)) {
        Ok(report) => faults.extend(report.faults),
        Err(death) => faults.push(death),
    }
    Ok(faults)
}

/// The fewest sequences found within `time` that reproduce the fault; `None` if it cannot be reproduced.
pub(crate) fn minimize(
    history: &[Sequence],
    fault: &Fault,
    limits: Limits,
    time: Duration,
) -> Option<Vec<Sequence>> {
    let until = Instant::now() + time;
    let fails = |tried: &[Sequence]| {
        let faults = replay(tried, limits).unwrap_or_default();
        faults.iter().any(|found| same(&found.key, &fault.key))
    };
    let mut kept = None;
    for count in [1, 8, 64, 512, usize::MAX] {
        let last = &history[history.len().saturating_sub(count)..];
        if Instant::now() < until && fails(last) {
            kept = Some(last.to_vec());
            break;
        }
        if last.len() == history.len() {
            break;
        }
    }
    let mut kept = kept?;
    // Removes halves, quarters and so on, as long as the fault still occurs.
    let mut size = kept.len().div_ceil(2);
    while kept.len() > 1 {
        let mut at = 0;
        while at < kept.len() && kept.len() > 1 {
            if Instant::now() > until {
                return Some(kept);
            }
            let without: Vec<Sequence> = kept
                .iter()
                .enumerate()
                .filter(|(n, _)| *n < at || *n >= at + size)
                .map(|(_, one)| one.clone())
                .collect();
            if !without.is_empty() && fails(&without) { kept = without } else { at += size }
        }
        if size == 1 {
            break;
        }
        size = size.div_ceil(2);
    }
    simplify(&mut kept, &fails, until);
    Some(kept)
}

/// Removes requests, headers and fields that are not needed.
fn simplify(kept: &mut [Sequence], fails: &dyn Fn(&[Sequence]) -> bool, until: Instant) {
    for at in 0..kept.len() {
        for which in (0..kept[at].requests.len()).rev() {
            let mut tried = kept.to_vec();
            tried[at].requests.remove(which);
            if Instant::now() < until && kept[at].requests.len() > 1 && fails(&tried) {
                kept.clone_from_slice(&tried);
                continue;
            }
            let Body::Text(text) = &kept[at].requests[which].body else { continue };
            let Ok(mut body) = serde_json::from_str::<Value>(text) else { continue };
            for pointer in pointers(&body) {
                if Instant::now() > until {
                    return;
                }
                let mut less = body.clone();
                remove(&mut less, &pointer);
                let mut tried = kept.to_vec();
                tried[at].requests[which].body = Body::Text(less.to_string());
                if fails(&tried) {
                    body = less;
                    kept.clone_from_slice(&tried);
                }
            }
        }
    }
}

/// The paths of the fields of an object and of the objects directly in it.
fn pointers(body: &Value) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    for (name, value) in body.as_object().into_iter().flatten() {
        out.push(vec![name.clone()]);
        for (inner, value) in value.as_object().into_iter().flatten() {
            out.push(vec![name.clone(), inner.clone()]);
            out.extend(
                value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(last, _)| vec![name.clone(), inner.clone(), last.clone()]),
            );
        }
    }
    out
}

fn remove(body: &mut Value, path: &[String]) {
    match path {
        [] => {}
        [last] => drop(body.as_object_mut().map(|map| map.remove(last))),
        [first, rest @ ..] => remove(&mut body[first.as_str()], rest),
    }
}

/// Whether two faults have the same cause: a death counts as the same whatever request came last.
fn same(found: &str, wanted: &str) -> bool {
    let head = |key: &str| match key.split_once(": ") {
        Some((head @ ("stack overflow" | "killed" | "hang" | "memory" | "slow"), _)) => {
            head.to_owned()
        }
        _ => key.trim_start_matches("death by ").to_owned(),
    };
    head(found) == head(wanted)
}
