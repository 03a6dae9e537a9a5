//! What is kept in memory to be faster, by owner, and how it is given back when nobody needs it.

use std::{
    fmt::Write,
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use tracing::warn;

use crate::{MetricsSource, Registry, encodings::EncodingCache, metrics::head};

/// How often what is no longer needed is given back.
const TRIM: Duration = Duration::from_secs(15);

/// The part of the memory that grows with what happens, not with what there is.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) registry: Weak<Registry>,
    pub(crate) encodings: Arc<EncodingCache>,
}

impl Memory {
    /// Starts to give memory back, in a thread of its own: what it packs lives long, and would lie
    /// between what lives short. It ends soon after the registry.
    pub(crate) fn start(self) {
        let run = move || {
            loop {
                thread::sleep(TRIM);
                let Some(registry) = self.registry.upgrade() else { return };
                // Once more next time, if it fails.
                let _ = panics::catch("memory", || {
                    registry.trim();
                    self.encodings.trim();
                });
            }
        };
        if let Err(error) = thread::Builder::new().name("memory".to_owned()).spawn(run) {
            warn!(%error, "memory is not given back");
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
