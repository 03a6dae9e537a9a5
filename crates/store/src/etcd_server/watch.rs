//! The `Watch` service of etcd: one stream with many watches, each of which is a position.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};

use prost::Message as _;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use super::{
    fault::EtcdError, keyspace::Change, range::Range, service::Service, state::State,
    watch_registry::WatchNotifier,
};
use crate::wire::{
    mvccpb::{Event, event::EventType},
    pb::{
        self, watch_create_request::FilterType, watch_request::RequestUnion, watch_server::Watch,
    },
    to_i64,
};

/// Approximate size in bytes of one message, unless it is for a single revision.
const PART: usize = 1 << 20;

type Events = Pin<Box<dyn Stream<Item = Result<pb::WatchResponse, Status>> + Send>>;
type Requests = Pin<Box<dyn Stream<Item = Result<pb::WatchRequest, Status>> + Send>>;
/// The client has disconnected.
struct ClientGone;

#[tonic::async_trait]
impl Watch for Service {
    type WatchStream = Events;

    async fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> Result<Response<Events>, Status> {
        Ok(Response::new(self.follow(Box::pin(request.into_inner()))))
    }
}

impl Service {
    /// Serves the watches of one client until it disconnects.
    pub(super) fn follow(&self, requests: Requests) -> Events {
        let (answers, events) = mpsc::channel(4);
        let watches = StreamWatches {
            service: self.clone(),
            notifier: Arc::default(),
            open: BTreeMap::new(),
            next: 0,
            answers,
            asked: false,
        };
        // Polled by the reader of the responses, so that no separate task is needed.
        let run = async move {
            let _ = watches.run(requests).await; // it ends when the client disconnects
        };
        Box::pin(Driven { run: Some(Box::pin(run)), events, ready: Vec::new().into_iter() })
    }
}

/// A stream of responses that also polls the future that produces them.
struct Driven<F> {
    run: Option<Pin<Box<F>>>,
    events: Receiver<Vec<pb::WatchResponse>>,
    ready: std::vec::IntoIter<pb::WatchResponse>,
}

impl<F: Future<Output = ()> + Send> Stream for Driven<F> {
    type Item = Result<pb::WatchResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(answer) = this.ready.next() {
                return Poll::Ready(Some(Ok(answer)));
            }
            if this.run.as_mut().is_some_and(|run| run.as_mut().poll(cx).is_ready()) {
                this.run = None; // no more responses can come
            }
            match ready!(this.events.poll_recv(cx)) {
                Some(answers) => this.ready = answers.into_iter(),
                None => return Poll::Ready(None),
            }
        }
    }
}

struct StreamWatches {
    service: Service,
    notifier: Arc<WatchNotifier>,
    open: BTreeMap<i64, ActiveWatch>,
    next: i64,
    answers: Sender<Vec<pb::WatchResponse>>,
    /// Whether the client has requested the progress of all its watches.
    asked: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "what a client may wish, each for itself")]
struct ActiveWatch {
    /// Its id in the watch registry.
    number: u64,
    range: Range,
    puts: bool,
    deletions: bool,
    prev_kv: bool,
    progress: bool,
    fragment: bool,
}

impl StreamWatches {
    async fn run(mut self, mut requests: Requests) -> Result<(), ClientGone> {
        let period = self.service.limits.progress.max(Duration::from_millis(100));
        let mut progress = tokio::time::interval(period);
        progress.tick().await;
        let bell = self.notifier.clone();
        loop {
            tokio::select! {
                request = requests.next() => match request {
                    Some(Ok(request)) => self.take(request).await?,
                    Some(Err(_)) | None => return Ok(()),
                },
                () = bell.notified() => {}
                _ = progress.tick() => self.progress().await?,
            }
            self.read_due().await?;
            if std::mem::take(&mut self.asked) {
                self.tell(-1).await?;
            }
        }
    }

    async fn take(&mut self, request: pb::WatchRequest) -> Result<(), ClientGone> {
        match request.request_union {
            Some(RequestUnion::CreateRequest(request)) => self.create(request).await,
            Some(RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id })) => {
                if !self.leave(watch_id) {
                    return Ok(());
                }
                let header = self.service.header();
                self.send(pb::WatchResponse {
                    header,
                    watch_id,
                    canceled: true,
                    ..Default::default()
                })
                .await
            }
            Some(RequestUnion::ProgressRequest(_)) => {
                self.asked = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn create(&mut self, request: pb::WatchCreateRequest) -> Result<(), ClientGone> {
        let watch_id = match request.watch_id {
            0 => {
                while self.open.contains_key(&self.next) {
                    self.next += 1;
                }
                self.next
            }
            id => id,
        };
        let taken = self.open.contains_key(&watch_id);
        let created = pb::WatchResponse {
            header: self.service.header(),
            watch_id: if taken { -1 } else { watch_id },
            created: true,
            canceled: taken,
            cancel_reason: if taken {
                "mvcc: duplicate watch ID provided on the WatchStream".into()
            } else {
                String::new()
            },
            ..Default::default()
        };
        self.send(created).await?;
        if taken {
            return Ok(());
        }
        // An empty key with a zero byte as end means all keys.
        let key = if request.key.is_empty() {
            bytes::Bytes::from_static(&[0])
        } else {
            request.key.clone()
        };
        let range = Range::new(key, request.range_end.clone());
        let from = u64::try_from(request.start_revision).unwrap_or_default();
        let number = {
            let mut inner = self.service.member.inner();
            let durable = inner.state.durable;
            let number = inner.watches.register(watch_id, range.clone(), &self.notifier);
            if from > 0 && from <= durable {
                self.notifier.notify([watch_id], from);
            }
            number
        };
        let leaves_out = |filter: FilterType| request.filters.contains(&(filter as i32));
        self.open.insert(
            watch_id,
            ActiveWatch {
                number,
                range,
                puts: !leaves_out(FilterType::Noput),
                deletions: !leaves_out(FilterType::Nodelete),
                prev_kv: request.prev_kv,
                progress: request.progress_notify,
                fragment: request.fragment,
            },
        );
        Ok(())
    }

    /// Sends all events that are due.
    async fn read_due(&mut self) -> Result<(), ClientGone> {
        let mut due = BTreeMap::new();
        loop {
            let answers = self.read_some(&mut due);
            self.service.member.metrics.events.fetch_add(
                answers.iter().map(|answer| answer.events.len() as u64).sum(),
                Ordering::Relaxed,
            );
            if !answers.is_empty() {
                self.send_all(answers).await?;
            }
            if due.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads due events for about one message, under one lock. Equivalent watches share one read.
    fn read_some(&mut self, due: &mut BTreeMap<i64, u64>) -> Vec<pb::WatchResponse> {
        let inner = self.service.member.inner();
        self.notifier.take(due);
        let header = self.service.header_at(inner.state.durable);
        let (mut answers, mut gone, mut size) = (Vec::new(), Vec::new(), 0);
        let whole = self.service.limits.request_bytes;
        let mut last: Option<(&ActiveWatch, u64, Vec<Event>, Option<u64>)> = None;
        while size < PART
            && let Some((watch_id, from)) = due.pop_first()
        {
            let Some(open) = self.open.get(&watch_id) else { continue };
            let same = last.take_if(|(other, at, ..)| *at == from && open.is_equivalent(other));
            let read = match same {
                Some((_, _, events, next)) => Ok((events, next)),
                None => open.read(&inner.state, from),
            };
            match read {
                Ok((events, next)) => {
                    due.extend(next.map(|next| (watch_id, next)));
                    size += events.iter().map(Event::encoded_len).sum::<usize>();
                    let shared = (!open.range.is_single()).then(|| events.clone());
                    answers.extend(open.answers(watch_id, header, whole, events));
                    last = shared.map(|events| (open, from, events, next));
                }
                Err(floor) => {
                    gone.push(watch_id);
                    answers.push(pb::WatchResponse {
                        header,
                        watch_id,
                        canceled: true,
                        compact_revision: to_i64(floor),
                        cancel_reason: EtcdError::Compacted.to_string(),
                        ..Default::default()
                    });
                }
            }
        }
        drop(inner);
        for watch in gone {
            self.leave(watch);
        }
        answers
    }

    /// Sends progress notifications to the watches that request them.
    async fn progress(&mut self) -> Result<(), ClientGone> {
        let wish: Vec<_> =
            self.open.iter().filter(|(_, open)| open.progress).map(|(id, _)| *id).collect();
        for watch in wish {
            self.tell(watch).await?;
        }
        Ok(())
    }

    /// Sends a progress notification, unless events are still due.
    async fn tell(&mut self, watch_id: i64) -> Result<(), ClientGone> {
        let revision = {
            let inner = self.service.member.inner();
            self.notifier.is_idle().then_some(inner.state.durable)
        };
        let Some(revision) = revision else {
            self.asked |= watch_id == -1; // sent when those are read
            return Ok(());
        };
        let header = self.service.header_at(revision);
        self.send(pb::WatchResponse { header, watch_id, ..Default::default() }).await
    }

    fn leave(&mut self, watch: i64) -> bool {
        let open = self.open.remove(&watch);
        let left = open.is_some();
        if let Some(open) = open {
            self.service.member.inner().watches.unregister(&open.range, open.number);
        }
        left
    }

    async fn send(&self, response: pb::WatchResponse) -> Result<(), ClientGone> {
        self.send_all(vec![response]).await
    }

    async fn send_all(&self, responses: Vec<pb::WatchResponse>) -> Result<(), ClientGone> {
        self.answers.send(responses).await.map_err(|_| ClientGone)
    }
}

impl Drop for StreamWatches {
    fn drop(&mut self) {
        let open = std::mem::take(&mut self.open);
        let mut inner = self.service.member.inner();
        for open in open.values() {
            inner.watches.unregister(&open.range, open.number);
        }
    }
}

impl ActiveWatch {
    /// Whether another watch of the stream gets the same events.
    fn is_equivalent(&self, other: &Self) -> bool {
        let wishes = |open: &Self| (open.puts, open.deletions, open.prev_kv);
        wishes(self) == wishes(other) && self.range == other.range
    }

    /// The events from a revision on, and where to continue if those are not all; or the compaction revision if `from`
    /// is compacted.
    fn read(&self, state: &State, from: u64) -> Result<(Vec<Event>, Option<u64>), u64> {
        if from < state.keys.compact_revision {
            return Err(state.keys.compact_revision);
        }
        let (mut events, mut size, mut last) = (Vec::new(), 0, from);
        let mut take = |change: &Change| {
            if size > PART && change.revision > last {
                return Some(change.revision);
            }
            last = change.revision;
            if let Some(event) = self.event(state, change) {
                size += event.encoded_len();
                events.push(event);
            }
            None
        };
        let next = if self.range.is_single() {
            state.keys.changes_of(&self.range.key, from, state.durable).iter().find_map(&mut take)
        } else {
            let mut all = state.keys.changes(from, state.durable);
            all.find_map(
                |change| if self.range.contains(&change.key) { take(change) } else { None },
            )
        };
        Ok((events, next))
    }

    /// The responses for events, fragmented if the watch requests it.
    fn answers(
        &self,
        watch_id: i64,
        header: Option<pb::ResponseHeader>,
        whole: usize,
        mut events: Vec<Event>,
    ) -> Vec<pb::WatchResponse> {
        let mut answers = Vec::new();
        if events.is_empty() {
            return answers;
        }
        let answer = |events, fragment| pb::WatchResponse {
            header,
            watch_id,
            fragment,
            events,
            ..Default::default()
        };
        while self.fragment
            && events.len() > 1
            && events.iter().map(Event::encoded_len).sum::<usize>() > whole
        {
            let mut size = 0;
            let fits = |event: &&Event| {
                size += event.encoded_len();
                size <= whole
            };
            let count = events.iter().take_while(fits).count().clamp(1, events.len() - 1);
            let rest = events.split_off(count);
            answers.push(answer(std::mem::replace(&mut events, rest), true));
        }
        answers.push(answer(events, false));
        answers
    }

    fn event(&self, state: &State, change: &Change) -> Option<Event> {
        let (version, before) = state.keys.version_of(change)?;
        let r#type = if version.value.is_some() { EventType::Put } else { EventType::Delete };
        if !(if r#type == EventType::Put { self.puts } else { self.deletions }) {
            return None;
        }
        let prev_kv =
            before.filter(|_| self.prev_kv).map(|before| before.to_key_value(&change.key));
        Some(Event { r#type: r#type.into(), kv: Some(version.to_key_value(&change.key)), prev_kv })
    }
}
