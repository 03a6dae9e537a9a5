//! How soon who watches hears of a write.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use store::wire::pb::{
    self, kv_client::KvClient, watch_client::WatchClient, watch_request::RequestUnion,
};
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;
use tonic::transport::Channel;

use super::servers::Server;

/// How many connections the watches share.
const CONNECTIONS: usize = 8;
const LASTS: Duration = Duration::from_secs(5);

/// What is watched, and how much happens.
#[derive(Clone, Copy)]
pub(crate) struct Crowd {
    pub(crate) watchers: usize,
    /// Each another key; or all of them the same prefix.
    pub(crate) distinct: bool,
    pub(crate) writes: u32,
}

/// From before the write is sent until the event is there, of the slowest hundredth, in
/// milliseconds.
pub(crate) async fn delivery(server: &Server, crowd: Crowd) -> Result<f64> {
    let begun = Instant::now();
    let url = format!("http://{}", server.address);
    let (mut watching, prefix) = (JoinSet::new(), format!("/crowd/{}/", crowd.watchers));
    let events = u64::from(crowd.writes) * LASTS.as_secs();
    let all = if crowd.distinct { events } else { events * crowd.watchers as u64 };
    let left = Arc::new(std::sync::atomic::AtomicU64::new(all));
    for nth in 0..CONNECTIONS {
        let channel = Channel::from_shared(url.clone())?.connect().await?;
        let creates: Vec<_> = (nth..crowd.watchers)
            .step_by(CONNECTIONS)
            .map(|watcher| create(&prefix, crowd.distinct.then_some(watcher)))
            .collect();
        let (count, (sender, receiver)) = (creates.len(), tokio::sync::mpsc::channel(64));
        let mut client = WatchClient::new(channel).max_decoding_message_size(usize::MAX);
        let requests = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let mut feeding = JoinSet::new();
        feeding.spawn(async move {
            for create in creates {
                sender.send(create).await.ok()?;
            }
            Some(sender)
        });
        let mut answers = client.watch(requests).await?.into_inner();
        let mut made = 0;
        while made < count {
            made += usize::from(answers.next().await.context("it ends")??.created);
        }
        let sender = feeding.join_next().await;
        let left = left.clone();
        watching.spawn(async move {
            let (_sender, mut took) = (sender, Vec::new());
            while left.load(std::sync::atomic::Ordering::Relaxed) > 0 {
                let next = tokio::time::timeout(Duration::from_secs(1), answers.next()).await;
                let Ok(Some(Ok(answer))) = next else { continue };
                let now = begun.elapsed();
                for kv in answer.events.into_iter().filter_map(|event| event.kv) {
                    let sent = u64::from_be_bytes(kv.value[..8].try_into().expect("eight"));
                    took.push(now.saturating_sub(Duration::from_nanos(sent)));
                    left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                }
            }
            took
        });
    }
    write(&url, &prefix, crowd, begun).await?;
    let mut took: Vec<_> = watching.join_all().await.concat();
    took.sort_unstable();
    Ok(took[took.len() * 99 / 100].as_secs_f64() * 1e3)
}

fn create(prefix: &str, watcher: Option<usize>) -> pb::WatchRequest {
    let (key, range_end) = match watcher {
        Some(watcher) => (format!("{prefix}{watcher}"), String::new()),
        None => (prefix.to_owned(), format!("{}0", prefix.trim_end_matches('/'))),
    };
    let create = pb::WatchCreateRequest {
        key: key.into(),
        range_end: range_end.into(),
        ..Default::default()
    };
    pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

/// At an even pace, whatever the answers take.
async fn write(url: &str, prefix: &str, crowd: Crowd, begun: Instant) -> Result<()> {
    let channel = Channel::from_shared(url.to_owned())?.connect().await?;
    let mut pace = tokio::time::interval(Duration::from_secs(1) / crowd.writes);
    let mut puts = JoinSet::new();
    for nth in 0..u64::from(crowd.writes) * LASTS.as_secs() {
        pace.tick().await;
        let key = format!("{prefix}{}", usize::try_from(nth)? * 7 % crowd.watchers);
        let mut kv = KvClient::new(channel.clone());
        puts.spawn(async move {
            let sent = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let mut value = sent.to_be_bytes().to_vec();
            value.resize(256, 0);
            let (key, value) = (key.into(), value.into());
            kv.put(pb::PutRequest { key, value, ..Default::default() }).await.map(drop)
        });
    }
    while let Some(done) = puts.join_next().await {
        done??;
    }
    Ok(())
}
