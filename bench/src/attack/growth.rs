//! Whether memory grows with requests that change nothing. Requests that were rejected are repeated: what they allocate
//! must be freed again.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;

use super::{
    judge::{self, Fault},
    request::Request,
    send::Answer,
    world::World,
};

/// Number of rejected requests that are remembered, each with another message.
const REMEMBERED: usize = 64;
/// Number of requests that are repeated in one check.
const CHOSEN: usize = 3;
/// How often a request is repeated in one round.
const TIMES: usize = 24;
/// Number of rounds of which each must grow, after one that fills caches.
const ROUNDS: usize = 3;
/// Bytes per request that may stay allocated: other work of the process goes on.
const KEPT: usize = 16 << 10;
const PATIENCE: Duration = Duration::from_mins(1);

/// Rejected requests, by status code and message.
#[derive(Debug, Default)]
pub(crate) struct Rejected(Mutex<BTreeMap<String, Request>>);

impl Rejected {
    /// Remembers a request that was rejected.
    pub(crate) fn note(&self, request: &Request, answer: &Answer) {
        if !matches!(answer.code, 400 | 403 | 404 | 422) || request.is_stream() {
            return;
        }
        let key = format!("{} {}", answer.code, judge::digest(&judge::message(answer)));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < REMEMBERED {
            known.entry(key).or_insert_with(|| request.clone());
        }
    }

    /// Repeats some of the remembered requests and forgets them. Returns a fault for each with which memory grows.
    pub(crate) async fn check(&self, world: &World) -> Result<Vec<Fault>> {
        let mut faults = Vec::new();
        for (key, request) in self.choose() {
            let mut live = sys::allocated_bytes();
            let mut grown = Vec::new();
            for round in 0..=ROUNDS {
                for _ in 0..TIMES {
                    world.send(&request, PATIENCE).await?;
                }
                let now = sys::allocated_bytes();
                let more = now.saturating_sub(live);
                live = now;
                if round > 0 {
                    grown.push(more);
                    if more < TIMES * KEPT {
                        break;
                    }
                }
            }
            if grown.iter().all(|more| *more >= TIMES * KEPT) {
                let each = grown.iter().sum::<usize>() / grown.len() / TIMES;
                let text = format!(
                    "{} {}: {each} bytes stay allocated for each request ({key})",
                    request.method,
                    request.bare_path()
                );
                faults.push(Fault::new(format!("growth: {key}"), text));
            }
        }
        Ok(faults)
    }

    /// Some of the remembered requests, with different status codes first.
    fn choose(&self) -> Vec<(String, Request)> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chosen = Vec::new();
        for code in ["422", "400", "404", "403"] {
            chosen.extend(known.iter().find(|(key, _)| key.starts_with(code)));
        }
        let chosen = chosen.into_iter().take(CHOSEN);
        let chosen = chosen.map(|(key, request)| (key.clone(), request.clone())).collect();
        known.clear();
        chosen
    }
}
