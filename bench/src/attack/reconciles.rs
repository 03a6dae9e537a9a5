//! Counts the reconciles of every controller, by the spans that `runtime` opens for them. A controller that reconciles one
//! object without a pause, and a reconcile that does not end, are found while the object is still there.

use std::{
    collections::HashMap,
    fmt::Debug,
    mem::take,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

use super::judge::Fault;

/// Retries wait twice as long each time and autoscalers are looked at every second: neither comes to so many in each of
/// `WINDOWS` windows, one after the other.
const BUSY: u32 = 10;
const WINDOWS: usize = 5;
const WINDOW: Duration = Duration::from_secs(2);
/// Controllers may have a long way to go through what was sent; so long they are watched.
const PATIENCE: Duration = Duration::from_mins(2);
/// Whatever a reconcile waits for has a deadline of a minute at most.
const LONGEST: Duration = Duration::from_mins(5);

static STATE: Mutex<Option<State>> = Mutex::new(None);

#[derive(Default)]
struct State {
    /// Reconciles that were begun since they were counted last, by controller and key.
    begun: HashMap<Name, u32>,
    running: HashMap<u64, (Name, Instant)>,
}

/// A controller, and the key of what it reconciles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Name {
    controller: String,
    key: String,
}

/// To be added to the subscriber of the process.
#[derive(Debug)]
pub(crate) struct Watcher;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Watcher {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if attributes.metadata().name() == "reconcile" {
            let mut name = Name::default();
            attributes.record(&mut name);
            let mut state = state();
            let state = state.get_or_insert_default();
            *state.begun.entry(name.clone()).or_default() += 1;
            state.running.insert(id.into_u64(), (name, Instant::now()));
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        state().get_or_insert_default().running.remove(&id.into_u64());
    }
}

impl Visit for Name {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "controller" => self.controller = format!("{value:?}"),
            "key" => self.key = format!("{value:?}"),
            _ => {}
        }
    }
}

/// Watches the controllers while they are sent nothing: who is busy with one object does not come to an end, and who is
/// stuck has not come to one.
pub(crate) async fn check() -> Vec<Fault> {
    let began = Instant::now();
    let mut busy = Busy::default();
    drop(take_begun());
    while began.elapsed() < PATIENCE {
        tokio::time::sleep(WINDOW).await;
        if let Some((name, windows)) = busy.note(&take_begun()) {
            if windows < WINDOWS {
                continue;
            }
            let text = format!(
                "with nothing to do, {:?} is reconciled more than {BUSY} times in each of {WINDOWS} windows of {WINDOW:?}",
                name.key
            );
            return vec![Fault::new(format!("busy: {}", name.controller), text)];
        }
        break;
    }
    stuck(Instant::now())
}

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_begun() -> HashMap<Name, u32> {
    take(&mut state().get_or_insert_default().begun)
}

/// Of each object that is reconciled too often, in how many windows without a break.
#[derive(Default)]
struct Busy(HashMap<Name, usize>);

impl Busy {
    /// Counts another window. Gives what is busy for the longest time, if anything is.
    fn note(&mut self, begun: &HashMap<Name, u32>) -> Option<(Name, usize)> {
        let before = take(&mut self.0);
        for (name, _) in begun.iter().filter(|(_, count)| **count >= BUSY) {
            self.0.insert(name.clone(), before.get(name).copied().unwrap_or_default() + 1);
        }
        let longest = self.0.iter().max_by_key(|(_, windows)| **windows);
        longest.map(|(name, windows)| (name.clone(), *windows))
    }
}

fn stuck(now: Instant) -> Vec<Fault> {
    let mut state = state();
    let running = &mut state.get_or_insert_default().running;
    let old = running.values().filter(|(_, begun)| now.duration_since(*begun) > LONGEST);
    let faults = old.map(|(name, begun)| {
        let took = now.duration_since(*begun);
        let text = format!("a reconcile of {:?} has not ended for {took:?}", name.key);
        Fault::new(format!("stuck: {}", name.controller), text)
    });
    faults.collect()
}

#[cfg(test)]
mod tests {
    use tracing::info_span;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn name(key: &str) -> Name {
        Name { controller: "c".into(), key: key.into() }
    }

    #[test]
    fn only_what_is_busy_in_every_window_is_a_fault() {
        let mut busy = Busy::default();
        let window = |counts: &[(&str, u32)]| {
            counts.iter().map(|(key, count)| (name(key), *count)).collect::<HashMap<_, _>>()
        };
        assert_eq!(busy.note(&window(&[("a", BUSY), ("b", BUSY - 1)])), Some((name("a"), 1)));
        assert_eq!(busy.note(&window(&[("a", 500)])), Some((name("a"), 2)));
        assert_eq!(busy.note(&window(&[("a", 2), ("b", BUSY)])), Some((name("b"), 1)));
        assert_eq!(busy.note(&window(&[("a", 1)])), None);
    }

    #[test]
    fn reconciles_are_counted_by_the_spans_of_controllers() {
        let subscriber = tracing_subscriber::registry().with(Watcher);
        tracing::subscriber::with_default(subscriber, || {
            let key = "a/b";
            let running = info_span!("reconcile", controller = "c", %key);
            drop(info_span!("reconcile", controller = "c", %key));
            assert_eq!(take_begun().get(&name("a/b")), Some(&2));
            assert!(take_begun().is_empty());
            let later = Instant::now() + 2 * LONGEST;
            assert_eq!(stuck(later).first().map(|fault| fault.key.as_str()), Some("stuck: c"));
            drop(running);
            assert!(stuck(later).is_empty());
        });
    }
}
