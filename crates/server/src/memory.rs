//! Accounting and periodic trimming of caches.

use std::{
    fmt::Write,
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use tracing::warn;

use crate::{MetricsSource, Registry, encodings::EncodingCache, metrics::head};

/// Interval of trimming.
const TRIM: Duration = Duration::from_secs(15);

/// The caches whose size depends on activity rather than on the number of objects.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) registry: Weak<Registry>,
    pub(crate) encodings: Arc<EncodingCache>,
}

impl Memory {
    /// Starts trimming, in a thread of its own: what it compacts is long-lived, and would fragment
    /// the heap of threads that allocate short-lived data. The thread ends soon after the registry
    /// is dropped.
    pub(crate) fn start(self) {
        let run = move || {
            loop {
                thread::sleep(TRIM);
                let Some(registry) = self.registry.upgrade() else { return };
                // After a panic it is tried again next time.
                let _ = panics::catch("memory", || {
                    registry.trim();
                    self.encodings.trim();
                });
            }
        };
        if let Err(error) = thread::Builder::new().name("memory".to_owned()).spawn(run) {
            warn!(%error, "cannot start the thread that returns memory to the system");
        }
    }
}

impl MetricsSource for Memory {
    fn report(&self, out: &mut String) {
        let Some(registry) = self.registry.upgrade() else { return };
        let help = "Memory for what is kept beside the objects, by owner.";
        head("tiphys_memory_bytes", "gauge", help, out);
        let mut events: Vec<_> =
            registry.held().into_iter().filter(|(_, held)| held.events > 0).collect();
        events.sort_by(|one, other| one.0.cmp(&other.0));
        for (prefix, held) in events {
            let resource = prefix.trim_start_matches("/registry").trim_matches('/');
            let bytes = held.event_bytes;
            let _ = writeln!(
                out,
                "tiphys_memory_bytes{{owner=\"events\",resource=\"{resource}\"}} {bytes}"
            );
        }
        let encodings = self.encodings.held();
        let _ =
            writeln!(out, "tiphys_memory_bytes{{owner=\"encodings\",resource=\"\"}} {encodings}");
    }
}
