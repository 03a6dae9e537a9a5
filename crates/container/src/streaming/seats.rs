//! How many sessions may be open at once: so many in each namespace, so that nobody takes them
//! all from the others of the node.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::Error;

/// Sessions of a namespace on this node, from the call that gave an address out to their end.
pub(super) const MOST: usize = 256;

#[derive(Clone, Debug, Default)]
pub(super) struct Seats(Arc<Mutex<HashMap<String, usize>>>);

/// The right to one session. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    namespace: String,
}

impl Seats {
    pub(super) fn take(&self, namespace: &str) -> Result<Seat, Error> {
        let mut taken = self.taken();
        let count = taken.entry(namespace.to_owned()).or_default();
        if *count >= MOST {
            return Err(Error(format!(
                "namespace {namespace:?} has {MOST} exec, attach and port-forward sessions on \
                 this node, and may have no more"
            )));
        }
        *count += 1;
        Ok(Seat { seats: self.clone(), namespace: namespace.to_owned() })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let seats = Seats::default();
        let mut all: Vec<Seat> = (0..MOST).map(|_| seats.take("a").expect("room")).collect();
        seats.take("a").expect_err("full");
        seats.take("b").expect("others have theirs");
        all.pop();
        seats.take("a").expect("one has ended");
        all.clear();
        assert!(seats.taken().is_empty(), "nothing is remembered of those that have ended");
    }
}
