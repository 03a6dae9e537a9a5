//! An engine whose writes are timed: those to an etcd somewhere else.

use std::sync::Arc;

use server::{Counter, Name, Report, Timing};
use store::{Engine, Error, Note, Record, Resource, Take, Write, Writing};
use tokio::time::Instant;

const LABELS: &[&str] = &["group", "operation", "resource"];
const SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

#[derive(Debug)]
pub(crate) struct Metered<V> {
    engine: Arc<dyn Engine<V>>,
    tally: Arc<Tally>,
}

/// What was asked of etcd.
#[derive(Debug)]
pub(crate) struct Tally {
    seconds: Timing,
    requests: Counter,
    errors: Counter,
}

impl<V> Metered<V> {
    pub(crate) fn new(engine: Arc<dyn Engine<V>>) -> (Self, Arc<Tally>) {
        let name = |name, help| Name { name, help, labels: LABELS };
        let tally = Arc::new(Tally {
            seconds: Timing::new(
                name("etcd_request_duration_seconds", "How long etcd took."),
                SECONDS,
            ),
            requests: Counter::new(name("etcd_requests_total", "What was asked of etcd.")),
            errors: Counter::new(name("etcd_request_errors_total", "What etcd did not do.")),
        });
        (Self { engine, tally: tally.clone() }, tally)
    }
}

impl Report for Tally {
    fn report(&self, out: &mut String) {
        self.seconds.write(out);
        self.requests.write(out);
        self.errors.write(out);
    }
}

impl<V: std::fmt::Debug + Send + Sync> Engine<V> for Metered<V> {
    fn write(&self, write: Write<V>) -> Writing<'_> {
        let (group, resource) = of_key(&write.key);
        let (group, resource) = (group.to_owned(), resource.to_owned());
        let operation = match (&write.put, write.expect) {
            (None, _) => "delete",
            (Some(_), 0) => "create",
            (Some(_), _) => "update",
        };
        Box::pin(async move {
            let began = Instant::now();
            let name = match operation {
                "create" => "Create etcd3",
                "update" => "GuaranteedUpdate etcd3",
                _ => "Delete etcd3",
            };
            let key = write.key.clone();
            let about = || vec![("key", key.as_str().into()), ("resource", (&*resource).into())];
            let done = server::trace::span(name, about, self.engine.write(write)).await;
            let labels = [group.as_str(), operation, &resource];
            self.tally.seconds.observe(&labels, began.elapsed().as_secs_f64());
            self.tally.requests.count(&labels);
            if done.is_err() {
                self.tally.errors.count(&labels);
            }
            done
        })
    }

    fn replay(&self, prefix: &str, room: usize, take: &mut Take<'_>) -> Result<(), Error> {
        self.engine.replay(prefix, room, take)
    }

    fn replay_after(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error> {
        self.engine.replay_after(prefix, revision)
    }

    fn past(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error> {
        self.engine.past(prefix, revision)
    }

    fn follow(&self, prefix: &str, after: u64, resource: &Arc<Resource<V>>) {
        self.engine.follow(prefix, after, resource);
    }

    fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }

    fn newest(&self, prefix: &str) -> Writing<'_> {
        self.engine.newest(prefix)
    }

    fn durable(&self) -> u64 {
        self.engine.durable()
    }

    fn health(&self) -> Result<(), Error> {
        self.engine.health()
    }

    fn readiness(&self) -> Result<(), Error> {
        self.engine.readiness()
    }

    fn size(&self) -> Option<u64> {
        self.engine.size()
    }

    fn share_keys(&self, keys: &[Arc<str>]) {
        self.engine.share_keys(keys);
    }

    fn notes(&self, after: u64) -> Vec<Note> {
        self.engine.notes(after)
    }
}

/// Group and resource of what is kept at a key; built-in groups are not in it.
fn of_key(key: &str) -> (&str, &str) {
    let mut parts = key.trim_start_matches("/registry/").split('/');
    match (parts.next().unwrap_or_default(), parts.next()) {
        (group, Some(resource)) if group.contains('.') => (group, resource),
        (resource, _) => ("", resource),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_what_is_kept_there() {
        assert_eq!(of_key("/registry/pods/default/a"), ("", "pods"));
        assert_eq!(of_key("/registry/example.com/things/default/a"), ("example.com", "things"));
    }
}
