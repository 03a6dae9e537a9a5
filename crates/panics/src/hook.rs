//! What happens at the moment of a panic, before anything unwinds: it is counted, and logged
//! with its place, part and thread.

use std::{
    cell::Cell,
    panic::{self, PanicHookInfo},
    sync::Once,
    thread,
};

use crate::{PART, Panicked, count};

/// The part of panics that no boundary is around.
const OTHER: &str = "other";
/// A message can quote what was read from outside; its place says more.
const MESSAGE: usize = 300;

thread_local! {
    static LAST: Cell<Option<Panicked>> = const { Cell::new(None) };
}

/// Counts and logs every panic of this process from now on. Further calls do nothing.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            record(info);
            if !tracing::dispatcher::has_been_set() {
                previous(info);
            }
        }));
    });
}

/// The panic that this thread has just unwound from.
pub(crate) fn take_last() -> Panicked {
    LAST.take().unwrap_or_else(|| Panicked { place: String::new() })
}

fn record(info: &PanicHookInfo<'_>) {
    let part = PART.try_with(Cell::get).ok().flatten().unwrap_or(OTHER);
    count::add(part);
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let current = thread::current();
    let thread = current.name().unwrap_or_default();
    let message: String = info.payload_as_str().unwrap_or_default().chars().take(MESSAGE).collect();
    tracing::error!(part, place, thread, panic = message, "panicked");
    let _ = LAST.try_with(|last| last.set(Some(Panicked { place })));
}
