//! Whether memory stays behind after requests that are refused: some of them are sent again and again, and what is
//! allocated must not grow.

use std::{collections::VecDeque, time::Duration};

use anyhow::Result;

use super::{
    judge::Fault,
    request::{Body, Request},
    world::World,
};

/// So many different requests are tried.
const SAMPLES: usize = 6;
/// The first ones fill caches.
const WARM_UP: usize = 8;
const REPEATS: usize = 50;
/// Each may leave so many bytes behind: what others allocate in the same process meanwhile.
const ALLOWED: usize = 32 << 10;
const LARGEST_BODY: usize = 16 << 10;
const PATIENCE: Duration = Duration::from_mins(1);

/// Requests that were refused, those of different codes and methods first.
#[derive(Debug, Default)]
pub(crate) struct Samples(VecDeque<(u16, Request)>);

impl Samples {
    pub(crate) fn note(&mut self, request: &Request, code: u16) {
        let small = matches!(&request.body, Body::Text(text) if text.len() < LARGEST_BODY && !text.contains('⟦'));
        if !(400..500).contains(&code) || code == 429 || !small || request.is_stream() {
            return;
        }
        let alike =
            |(other, known): &(u16, Request)| *other == code && known.method == request.method;
        if let Some(place) = self.0.iter().position(alike) {
            self.0.remove(place);
        }
        self.0.push_back((code, request.clone()));
        if self.0.len() > SAMPLES {
            self.0.pop_front();
        }
    }
}

/// Sends each sample again and again.
pub(crate) async fn check(world: &World, samples: &mut Samples) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for (code, request) in samples.0.drain(..) {
        if !send(world, &request, WARM_UP).await? {
            continue;
        }
        // What others keep for themselves, they keep once.
        let mut least = usize::MAX;
        for _ in 0..2 {
            let before = sys::allocated_bytes();
            if !send(world, &request, REPEATS).await? {
                least = 0;
            }
            least = least.min(sys::allocated_bytes().saturating_sub(before) / REPEATS);
            if least < ALLOWED {
                break;
            }
        }
        if least >= ALLOWED {
            let (method, path) = (&request.method, request.bare_path());
            let text = format!(
                "{method} {path} is refused with {code}, and {least} bytes stay behind each time"
            );
            faults.push(Fault::new(format!("growth: {method} {code}"), text));
        }
    }
    Ok(faults)
}

/// Whether the request was refused each time.
async fn send(world: &World, request: &Request, times: usize) -> Result<bool> {
    for _ in 0..times {
        let answer = world.send(request, PATIENCE).await?;
        if answer.silent || !(400..500).contains(&answer.code) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[test]
fn one_request_of_each_kind_is_kept() {
    use super::request::Caller;
    let mut samples = Samples::default();
    let post = |path: &str| Request::new(Caller::Admin, "POST", path).json("{}");
    samples.note(&post("/a"), 422);
    samples.note(&post("/b"), 400);
    samples.note(&post("/c"), 422);
    samples.note(&post("/d"), 201);
    samples.note(&Request::new(Caller::Admin, "GET", "/e"), 404);
    let kept: Vec<_> = samples.0.iter().map(|(code, one)| (*code, one.path.as_str())).collect();
    assert_eq!(kept, [(400, "/b"), (422, "/c")]);
}
