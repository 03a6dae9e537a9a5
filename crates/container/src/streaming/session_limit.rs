//! Limits the number of concurrent sessions: per namespace, so that no namespace displaces the others of the node, and
//! in total, because all sessions use descriptors of one process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::Error;

/// Maximum number of sessions of a namespace on this node, counted from the CRI call that issues the URL.
pub(super) const MOST: usize = 256;
const MOST_OF_ALL: usize = 1024;
/// Maximum number of connections into pods of all port-forward sessions of a namespace together.
const MOST_FORWARDED: usize = 512;
const MOST_FORWARDED_OF_ALL: usize = 2048;
/// Number of sessions that a namespace may always have, even if others have used up the total.
const ALWAYS: usize = 8;

/// Limiter of sessions of one kind.
#[derive(Clone, Debug)]
pub struct Seats {
    what: &'static str,
    most: usize,
    most_of_all: usize,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

/// The permit for one session, released on drop.
#[derive(Debug)]
pub struct Seat {
    seats: Seats,
    namespace: String,
}

impl Seats {
    pub(super) fn of_sessions() -> Self {
        Self::new("exec, attach and port-forward sessions", MOST, MOST_OF_ALL)
    }

    pub(crate) fn of_forwarded_connections() -> Self {
        Self::new("forwarded connections", MOST_FORWARDED, MOST_FORWARDED_OF_ALL)
    }

    /// `what` names the sessions in errors.
    pub fn new(what: &'static str, most: usize, most_of_all: usize) -> Self {
        Self { what, most, most_of_all, taken: Arc::default() }
    }

    /// Takes a seat for a session of this namespace.
    pub fn take(&self, namespace: &str) -> Result<Seat, Error> {
        let (what, most) = (self.what, self.most);
        let mut taken = self.taken();
        let all = taken.values().fold(0, |sum: usize, count| sum.saturating_add(*count));
        let own = taken.get(namespace).copied().unwrap_or_default();
        if own >= most {
            return Err(Error(format!(
                "namespace {namespace:?} has reached its limit of {most} {what} on this node"
            )));
        }
        if all >= self.most_of_all && own >= ALWAYS {
            return Err(Error(format!("the node has reached its limit of {all} {what}")));
        }
        taken.insert(namespace.to_owned(), own + 1);
        Ok(Seat { seats: self.clone(), namespace: namespace.to_owned() })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        if let Some(count) = taken.get_mut(&self.namespace) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.remove(&self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_takes_its_own_alone() {
        let seats = Seats::of_sessions();
        let mut all: Vec<Seat> = (0..MOST).map(|_| seats.take("a").expect("room")).collect();
        seats.take("a").expect_err("full");
        seats.take("b").expect("others have theirs");
        all.pop();
        seats.take("a").expect("one has ended");
        all.clear();
        assert!(seats.taken().is_empty(), "nothing is remembered of those that have ended");
    }

    #[test]
    fn many_namespaces_leave_something_to_others() {
        let seats = Seats::of_forwarded_connections();
        let of = |namespace: usize| {
            let take = |_| seats.take(&namespace.to_string()).ok();
            (0..=MOST_FORWARDED).map_while(take).collect::<Vec<_>>()
        };
        let all: Vec<_> = (0..8).map(of).collect();
        let count: Vec<_> = all.iter().map(Vec::len).collect();
        assert_eq!(count, [512, 512, 512, 512, ALWAYS, ALWAYS, ALWAYS, ALWAYS]);
    }
}
