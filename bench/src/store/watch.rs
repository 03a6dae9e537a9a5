//! Benchmark of watches: latency from a write to its event.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use prost::Message as _;
use store::wire::pb::{self, watch_request::RequestUnion};
use tokio::task::JoinSet;

use super::{message, servers::Server, slow, wire::Connection};

/// Number of connections that the watches share.
const CONNECTIONS: usize = 8;
const LASTS: Duration = Duration::from_secs(5);

/// The watches, and the number of writes per second.
#[derive(Clone, Copy)]
pub(crate) struct WatchLoad {
    pub(crate) watchers: usize,
    /// Whether each watches another key, or all of them the same prefix.
    pub(crate) distinct: bool,
    pub(crate) writes: u32,
}

/// 99th percentile of the time from before the write is sent until the event arrives, in milliseconds.
pub(crate) async fn delivery(server: &Server, crowd: WatchLoad) -> Result<f64> {
    let begun = Instant::now();
    let (mut watching, prefix) = (JoinSet::new(), format!("/crowd/{}/", crowd.watchers));
    let events = u64::from(crowd.writes) * LASTS.as_secs();
    let all = if crowd.distinct { events } else { events * crowd.watchers as u64 };
    let left = Arc::new(AtomicU64::new(all));
    for nth in 0..CONNECTIONS {
        let mut connection = Connection::open(&server.address, "/etcdserverpb.Watch/Watch").await?;
        let watchers = (nth..crowd.watchers).step_by(CONNECTIONS);
        let creates = watchers.clone().map(|nth| create(&prefix, crowd.distinct.then_some(nth)));
        connection.begin(creates);
        let mut made = 0;
        while made < watchers.len() {
            for message in connection.messages().await? {
                made += usize::from(pb::WatchResponse::decode(message)?.created);
            }
        }
        watching.spawn(watch(connection, begun, left.clone()));
    }
    write(server, &prefix, crowd, begun).await?;
    let mut took = Vec::new();
    for seen in watching.join_all().await {
        took.extend(seen?);
    }
    Ok(slow(took))
}

/// The latency of each event, until none is left.
async fn watch(
    mut connection: Connection,
    begun: Instant,
    left: Arc<AtomicU64>,
) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    while left.load(Ordering::Relaxed) > 0 {
        let next = tokio::time::timeout(Duration::from_secs(1), connection.messages()).await;
        let Ok(messages) = next else { continue };
        let now = begun.elapsed();
        for message in messages? {
            let answer = pb::WatchResponse::decode(message)?;
            for kv in answer.events.into_iter().filter_map(|event| event.kv) {
                let sent = u64::from_be_bytes(kv.value[..8].try_into()?);
                took.push(now.saturating_sub(Duration::from_nanos(sent)));
                left.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
    Ok(took)
}

fn create(prefix: &str, watcher: Option<usize>) -> Vec<u8> {
    let (key, range_end) = match watcher {
        Some(watcher) => (format!("{prefix}{watcher}"), String::new()),
        None => (prefix.to_owned(), format!("{}0", prefix.trim_end_matches('/'))),
    };
    let create = pb::WatchCreateRequest {
        key: key.into(),
        range_end: range_end.into(),
        ..Default::default()
    };
    message(&pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) })
}

/// Writes at a fixed rate, whatever the responses take.
async fn write(server: &Server, prefix: &str, crowd: WatchLoad, begun: Instant) -> Result<()> {
    let mut connection = Connection::open(&server.address, "/etcdserverpb.KV/Put").await?;
    let count = usize::try_from(u64::from(crowd.writes) * LASTS.as_secs())?;
    let put = |nth: usize| {
        let key = format!("{prefix}{}", nth * 7 % crowd.watchers).into();
        let sent = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut value = sent.to_be_bytes().to_vec();
        value.resize(256, 0);
        message(&pb::PutRequest { key, value: value.into(), ..Default::default() })
    };
    connection.pace(Duration::from_secs(1) / crowd.writes, count, put).await?;
    Ok(())
}
