//! The etcd watch that fills the cache of one resource, for as long as the resource is served.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{sync::Notify, time::timeout};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{Request, metadata::MetadataValue};
use tracing::{info, warn};

use super::EtcdShared;
use crate::{
    Error, KeyMetadata, Record, WatchCache,
    wire::{pb, prefix_end, to_i64},
};

/// How long a member may take to answer a progress request before the watch moves to another.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(15);

/// The etcd watch of one resource.
pub(crate) struct CacheWatcher<V> {
    pub(super) prefix: String,
    pub(super) resource: Arc<WatchCache<V>>,
    asked: Notify,
}

impl<V> CacheWatcher<V> {
    pub(super) fn new(prefix: &str, resource: &Arc<WatchCache<V>>) -> Self {
        Self { prefix: prefix.to_owned(), resource: resource.clone(), asked: Notify::new() }
    }

    /// Requests a progress notification from etcd.
    pub(super) fn request_progress(&self) {
        self.asked.notify_one();
    }

    pub(super) fn is_over(&self) -> bool {
        self.resource.is_closed()
    }
}

/// Why a watch has ended.
enum WatchEnd {
    /// The resource is no longer served.
    Closed,
    /// The connection failed; the watch can resume at another member.
    Broken(String),
    /// The revision is compacted; the watch must start with a new list.
    Compacted,
}

/// Applies the events after a revision to the cache, until the resource is closed.
pub(super) async fn run_watch<V: fmt::Debug + Send + Sync + 'static>(
    shared: Arc<EtcdShared<V>>,
    follower: Arc<CacheWatcher<V>>,
    mut after: u64,
) {
    let mut pause = Duration::from_millis(50);
    loop {
        let began = after;
        let (nth, ended) = watch(&shared, &follower, &mut after).await;
        match ended {
            WatchEnd::Closed => return,
            WatchEnd::Broken(why) => {
                warn!(prefix = follower.prefix, after, why, "watch on etcd failed; restarting it");
                shared.endpoints.mark_failed(nth);
            }
            WatchEnd::Compacted => match relist(&shared, &follower).await {
                Ok(through) => {
                    info!(prefix = follower.prefix, through, "listed again after a compaction");
                    after = through;
                }
                Err(error) => warn!(prefix = follower.prefix, %error, "cannot list; will retry"),
            },
        }
        pause = if after > began {
            Duration::from_millis(50)
        } else {
            (pause * 2).min(Duration::from_secs(2))
        };
        tokio::time::sleep(pause).await;
    }
}

async fn watch<V: fmt::Debug + Send + Sync + 'static>(
    shared: &Arc<EtcdShared<V>>,
    follower: &CacheWatcher<V>,
    after: &mut u64,
) -> (usize, WatchEnd) {
    let (nth, mut client) = shared.endpoints.watch();
    let broken = |why: String| (nth, WatchEnd::Broken(why));
    let (sender, requests) = tokio::sync::mpsc::channel(4);
    let key = shared.to_etcd_key(&follower.prefix);
    let create = pb::WatchCreateRequest {
        range_end: Bytes::from(prefix_end(&key)),
        key,
        start_revision: to_i64(*after + 1),
        progress_notify: true,
        ..Default::default()
    };
    let ask = |request| pb::WatchRequest { request_union: Some(request) };
    if sender.send(ask(pb::watch_request::RequestUnion::CreateRequest(create))).await.is_err() {
        return broken("no stream".to_owned());
    }
    let mut request = Request::new(ReceiverStream::new(requests));
    // A member that has lost its leader reports an error.
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    let mut events = match timeout(super::REQUEST_TIMEOUT, client.watch(request)).await {
        Ok(Ok(events)) => events.into_inner(),
        Ok(Err(status)) => return broken(status.message().to_owned()),
        Err(_) => return broken("etcd did not respond in time".to_owned()),
    };
    let mut waits = false;
    loop {
        let silence = async {
            if waits {
                tokio::time::sleep(PROGRESS_TIMEOUT).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        let response = tokio::select! {
            response = events.next() => response,
            () = follower.asked.notified() => {
                let progress = pb::watch_request::RequestUnion::ProgressRequest(pb::WatchProgressRequest {});
                if sender.send(ask(progress)).await.is_err() {
                    return broken("the stream has ended".to_owned());
                }
                waits = true;
                continue;
            }
            () = silence => return broken("no progress notification from etcd".to_owned()),
            () = follower.resource.closed() => return (nth, WatchEnd::Closed),
        };
        waits = false;
        match response {
            Some(Ok(response)) => {
                if let Some(ended) = take(shared, follower, after, response) {
                    return (nth, ended);
                }
            }
            Some(Err(status)) => return broken(status.message().to_owned()),
            None => return broken("the stream has ended".to_owned()),
        }
    }
}

fn take<V: fmt::Debug + Send + Sync + 'static>(
    shared: &EtcdShared<V>,
    follower: &CacheWatcher<V>,
    after: &mut u64,
    response: pb::WatchResponse,
) -> Option<WatchEnd> {
    if response.compact_revision > 0 {
        return Some(WatchEnd::Compacted);
    } else if response.canceled {
        return Some(WatchEnd::Broken(response.cancel_reason));
    } else if response.created {
        return None; // its header's revision is from before the watch
    }
    let newest = shared.observe_revision(response.header.as_ref());
    if response.events.is_empty() {
        *after = newest.max(*after);
        follower.resource.complete(newest);
        return None;
    }
    for record in response.events.into_iter().filter_map(|event| shared.event(event)) {
        *after = record.revision.max(*after);
        apply_event(shared, follower, record);
    }
    follower.resource.complete(*after);
    None
}

fn apply_event<V: fmt::Debug + Send + Sync + 'static>(
    shared: &EtcdShared<V>,
    follower: &CacheWatcher<V>,
    record: Record,
) {
    let value = record.bytes.as_ref().and_then(|bytes| shared.values.take(&record.key, bytes));
    if let Err(error) = follower.resource.apply(record, value, shared.clock.now()) {
        tracing::error!(%error, "cannot apply a watch event to the cache");
    }
}

/// Lists again and applies the difference between the cache and etcd.
async fn relist<V: fmt::Debug + Send + Sync + 'static>(
    shared: &EtcdShared<V>,
    follower: &CacheWatcher<V>,
) -> Result<u64, Error> {
    let (records, through) = shared.list_all(&follower.prefix, 0).await?;
    let there: HashMap<_, _> =
        records.iter().map(|record| (record.key.clone(), record.revision)).collect();
    let known = follower.resource.snapshot();
    let gone = known.range(&follower.prefix, None).filter(|(key, _)| !there.contains_key(*key));
    let gone: Vec<_> = gone.map(|(key, _)| key.to_owned()).collect();
    for record in records {
        if known.get(&record.key).is_none_or(|version| version.revision != record.revision) {
            apply_event(shared, follower, record);
        }
    }
    for key in gone {
        let (revision, lineage) = (through, KeyMetadata::tombstone(through));
        let key = key.as_str().into();
        apply_event(
            shared,
            follower,
            Record { revision, key, bytes: None, expires: None, note: None, lineage },
        );
    }
    follower.resource.complete(through);
    Ok(through)
}
