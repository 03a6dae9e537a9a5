//! Conformance suite for `Engine`: every implementation runs it.

mod conditions;
mod reads;
mod watches;
mod writes;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{CacheCodec, CacheSnapshot, Engine, Error, Topic, WatchCache, WatchCacheSet, Write};

const PREFIX: &str = "/registry/things/";

/// An empty engine, and the watch caches that it fills.
#[derive(Clone)]
pub struct EngineFixture {
    pub engine: Arc<dyn Engine<Bytes>>,
    pub mirror: Arc<WatchCacheSet<Bytes>>,
    /// Advances the clock by seconds, where the engine does not use wall-clock time.
    pub advance_clock: Option<Arc<dyn Fn(i64) + Send + Sync>>,
}

impl fmt::Debug for EngineFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subject").field(&self.engine).finish()
    }
}

/// A codec that leaves bytes as they are. Keys end with `namespace/name`; the content is indexed as `text`.
#[derive(Debug)]
pub struct RawBytesCodec;

impl CacheCodec<Bytes> for RawBytesCodec {
    fn decode(&self, _: &str, bytes: &Bytes) -> Result<Bytes, String> {
        Ok(bytes.clone())
    }

    fn topics(&self, key: &str, object: &Bytes) -> Vec<Topic> {
        let namespace = key.rsplit('/').nth(1).unwrap_or_default();
        let name = key.strip_prefix(PREFIX).unwrap_or(key);
        let text = String::from_utf8_lossy(object);
        let text = Topic::Index("text".into(), text.as_ref().into());
        vec![Topic::All, Topic::Name(name.into()), Topic::Namespace(namespace.into()), text]
    }

    fn weight(&self, old: Option<&Bytes>, new: Option<&Bytes>) -> usize {
        new.or(old).map_or(0, Bytes::len)
    }
}

/// Runs the whole suite; `make` creates a fresh engine for each test.
pub async fn run(make: impl Fn() -> EngineFixture) {
    writes::writes_are_judged_by_revision(&make()).await;
    writes::revisions_only_grow(&make()).await;
    writes::one_of_many_wins(make()).await;
    writes::notes_are_kept(&make()).await;
    writes::a_stale_writer_changes_nothing(&make()).await;
    writes::what_has_a_time_to_live_goes_unless_it_is_written_again(&make()).await;
    writes::any_bytes_are_kept_as_they_are(&make()).await;
    writes::the_same_bytes_again_are_another_revision(&make()).await;
    writes::a_deletion_by_an_old_reading_is_tried_again(&make()).await;
    writes::only_one_can_make_it(make()).await;
    conditions::a_deletion_is_of_what_there_is(&make()).await;
    conditions::a_condition_is_judged_by_what_there_is(&make()).await;
    conditions::an_update_is_of_what_there_is(&make()).await;
    conditions::how_many_there_are_is_known(&make()).await;
    reads::pages_are_of_one_revision(make()).await;
    reads::the_past_is_exact_where_the_ring_does_not_reach(&make()).await;
    reads::a_compacted_list_is_refused(&make()).await;
    reads::a_prefix_served_late_holds_what_was_written(&make()).await;
    reads::a_prefix_is_not_what_merely_begins_alike(&make()).await;
    reads::pages_of_any_size_are_all_of_it(&make()).await;
    reads::every_revision_is_listed_as_it_was(&make()).await;
    reads::a_list_can_be_asked_to_be_new_enough(&make()).await;
    reads::what_cannot_be_decoded_is_named(&make()).await;
    reads::what_cannot_be_decoded_can_be_deleted(&make()).await;
    reads::one_object_is_read_as_it_is_and_as_it_was(&make()).await;
    reads::pages_of_every_revision_are_what_there_was(&make()).await;
    reads::a_list_whose_revision_is_gone_goes_on_in_the_newest(&make()).await;
    reads::keys_of_any_shape_are_kept_apart(&make()).await;
    watches::a_watch_sees_every_change_in_order(&make()).await;
    watches::what_is_made_again_is_new(&make()).await;
    watches::progress_moves_though_nothing_happens_here(&make()).await;
    watches::a_watch_can_begin_anywhere(&make()).await;
    watches::all_who_watch_see_the_same(make()).await;
    watches::who_reads_late_misses_nothing(&make()).await;
    watches::a_watch_of_some_sees_what_comes_and_goes(&make()).await;
    watches::a_deletion_has_a_revision_of_its_own(&make()).await;
    watches::a_watch_from_too_long_ago_is_refused(&make()).await;
    watches::a_list_and_then_a_watch_miss_nothing(make()).await;
    watches::progress_is_never_ahead_of_events(make()).await;
    watches::who_does_not_read_holds_up_nobody(&make()).await;
    watches::a_watch_of_one_hears_of_no_other(&make()).await;
}

impl EngineFixture {
    fn serve(&self) -> Arc<WatchCache<Bytes>> {
        self.mirror.start(PREFIX, Arc::new(RawBytesCodec), &*self.engine).expect("served")
    }

    async fn put(&self, name: &str, expect: u64, text: &str) -> Result<u64, Error> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        self.engine.write(Write::put(key(name), expect, bytes.clone(), bytes)).await
    }

    fn pass(&self, seconds: i64) {
        if let Some(pass) = &self.advance_clock {
            pass(seconds);
        }
    }

    async fn delete(&self, name: &str, expect: u64) -> Result<u64, Error> {
        self.engine.write(Write::delete(key(name), expect)).await
    }
}

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

fn texts(pinned: &CacheSnapshot<Bytes>) -> Vec<(String, Bytes)> {
    let all = pinned.range(PREFIX, None);
    all.map(|(key, version)| (key[PREFIX.len()..].to_owned(), version.object.clone())).collect()
}

/// Polls until `holds` returns true, for at most two minutes.
async fn soon(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_mins(2), "it does not come to that");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[cfg(test)]
mod tests {
    /// Every test that the table names is run.
    #[test]
    fn upstreams_situations_are_tried() {
        let (table, own) =
            (include_str!("engine_suite/README.md"), include_str!("engine_suite.rs"));
        let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
        let mut named = 0;
        for row in rows {
            let here = row.rsplit(" | ").next().unwrap_or_default();
            for name in here.split(", ").filter(|name| !name.starts_with("apiserver ")) {
                let name = name.trim_end_matches(" |").trim_matches('`');
                assert!(own.contains(&format!("::{name}(")), "{name} is not run");
                named += 1;
            }
        }
        assert!(named > 30, "{named}");
    }
}
