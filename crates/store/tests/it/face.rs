//! Tests of the etcd API with a gRPC client.

use std::{collections::BTreeMap, future::Future, sync::Arc, thread, time::Duration};

use bytes::Bytes;
use object::SystemClock;
use store::{
    Log, MemoryLog,
    etcd_server::{BoundListener, Compaction, EtcdServer, EtcdServerConfig, Identity, Limits},
    wire::{
        mvccpb::event::EventType,
        pb::{
            self, compare, kv_client::KvClient, lease_client::LeaseClient,
            maintenance_client::MaintenanceClient, request_op::Request, response_op::Response,
            watch_client::WatchClient, watch_create_request::FilterType,
            watch_request::RequestUnion,
        },
    },
};
use tokio::sync::oneshot;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{Code, transport::Channel};

/// A server that runs until this is dropped.
pub(crate) struct Running {
    pub(crate) url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

pub(crate) fn start(log: Arc<dyn Log>, quota: u64) -> Running {
    start_with(log, quota, Compaction::Never)
}

pub(crate) fn start_with(log: Arc<dyn Log>, quota: u64, compaction: Compaction) -> Running {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    listener.set_nonblocking(true).expect("a socket");
    let (stop, stopped) = oneshot::channel();
    let setup = EtcdServerConfig {
        identity: Identity {
            name: "one".into(),
            peer_urls: vec!["http://peer:2380".into()],
            client_urls: vec![url.clone()],
            token: "t".into(),
        },
        limits: Limits { progress: Duration::from_millis(100), ..Limits::default() },
        quota,
        scratch: std::env::temp_dir(),
        compaction,
    };
    let thread = thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("threads").block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            let etcd = EtcdServer::open(log, Arc::new(SystemClock), setup).expect("whole");
            let stop = async { drop(stopped.await) };
            etcd.serve(vec![BoundListener { listener, tls: None }], stop).await;
        });
    });
    Running { url, stop: Some(stop), thread: Some(thread) }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(thread::JoinHandle::join);
    }
}

impl Running {
    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Channel::from_shared(self.url.clone()).expect("a URL");
        endpoint.connect().await.expect("it listens")
    }

    async fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel().await)
    }
}

fn memory() -> Running {
    start(Arc::new(MemoryLog::default()), 0)
}

fn put(key: &'static str, value: &'static str) -> pb::PutRequest {
    pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() }
}

fn get(key: &'static str) -> pb::RangeRequest {
    pb::RangeRequest { key: key.into(), ..Default::default() }
}

fn all() -> pb::RangeRequest {
    let zero = Bytes::from_static(&[0]);
    pb::RangeRequest { key: zero.clone(), range_end: zero, ..Default::default() }
}

fn operation(request: Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_mins(2), future).await.expect("in time")
}

#[tokio::test]
async fn a_key_has_its_lineage_and_every_revision() {
    let etcd = memory();
    let mut kv = etcd.kv().await;
    for value in ["1", "2"] {
        kv.put(put("a", value)).await.unwrap();
    }
    let gone = kv.delete_range(pb::DeleteRangeRequest {
        key: "a".into(),
        prev_kv: true,
        ..Default::default()
    });
    let gone = gone.await.unwrap().into_inner();
    assert_eq!(
        (gone.deleted, gone.header.unwrap().revision, &*gone.prev_kvs[0].value),
        (1, 4, &b"2"[..])
    );
    kv.put(put("a", "3")).await.unwrap();
    let found = kv.range(get("a")).await.unwrap().into_inner().kvs.remove(0);
    assert_eq!((found.create_revision, found.mod_revision, found.version), (5, 5, 1));
    let at = |revision| pb::RangeRequest { revision, ..get("a") };
    let old = kv.range(at(3)).await.unwrap().into_inner();
    assert_eq!(
        (&*old.kvs[0].value, old.kvs[0].version, old.header.unwrap().revision),
        (&b"2"[..], 2, 5)
    );
    assert_eq!(kv.range(at(4)).await.unwrap().into_inner().count, 0);
    let ahead = kv.range(at(9)).await.unwrap_err();
    assert_eq!(ahead.message(), "etcdserver: mvcc: required revision is a future revision");
    kv.compact(pb::CompactionRequest { revision: 4, physical: true }).await.unwrap();
    let lost = kv.range(at(3)).await.unwrap_err();
    assert_eq!(
        (lost.code(), lost.message()),
        (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted")
    );
    let again =
        kv.compact(pb::CompactionRequest { revision: 4, physical: true }).await.unwrap_err();
    assert_eq!(again.code(), Code::OutOfRange);
}

#[tokio::test]
async fn ranges_have_every_option() {
    let etcd = memory();
    let mut kv = etcd.kv().await;
    for key in ["a", "b", "c", "d"] {
        kv.put(put(key, "x")).await.unwrap();
    }
    kv.put(put("a", "w")).await.unwrap();
    let page = pb::RangeRequest { limit: 2, ..all() };
    let page = kv.range(page).await.unwrap().into_inner();
    assert_eq!((page.kvs.len(), page.more, page.count), (2, true, 4));
    let sorted =
        pb::RangeRequest { sort_target: 3, sort_order: 2, keys_only: true, limit: 1, ..all() };
    let sorted = kv.range(sorted).await.unwrap().into_inner();
    assert_eq!((&*sorted.kvs[0].key, sorted.kvs[0].value.len(), sorted.more), (&b"a"[..], 0, true));
    let recent = pb::RangeRequest { min_mod_revision: 5, ..all() };
    assert_eq!(kv.range(recent).await.unwrap().into_inner().kvs.len(), 2);
    let counted =
        kv.range(pb::RangeRequest { count_only: true, ..all() }).await.unwrap().into_inner();
    assert_eq!((counted.count, counted.kvs.len()), (4, 0));
    let mut parts = kv.range_stream(all()).await.unwrap().into_inner();
    let last = in_time(parts.next()).await.unwrap().unwrap().range_response.unwrap();
    assert_eq!((last.kvs.len(), last.count), (4, 4));
    assert_eq!(kv.range(get("")).await.unwrap_err().message(), "etcdserver: key is not provided");
}

#[tokio::test]
async fn a_transaction_happens_at_one_revision_or_not_at_all() {
    let etcd = memory();
    let mut kv = etcd.kv().await;
    let absent = |key: &'static str| pb::Compare {
        target: compare::CompareTarget::Create.into(),
        key: key.into(),
        target_union: Some(compare::TargetUnion::CreateRevision(0)),
        ..Default::default()
    };
    let inner = pb::TxnRequest {
        compare: vec![absent("a")],
        success: vec![operation(Request::RequestPut(put("inner", "1")))],
        failure: vec![],
    };
    let request = pb::TxnRequest {
        compare: vec![absent("a")],
        success: vec![
            operation(Request::RequestPut(put("a", "1"))),
            operation(Request::RequestTxn(inner)),
            operation(Request::RequestRange(all())),
        ],
        failure: vec![operation(Request::RequestRange(get("a")))],
    };
    let done = kv.txn(request.clone()).await.unwrap().into_inner();
    assert!(done.succeeded && done.header.unwrap().revision == 2);
    let Some(Response::ResponseRange(seen)) = &done.responses[2].response else {
        panic!("a range")
    };
    assert_eq!(
        seen.kvs.iter().map(|kv| kv.mod_revision).collect::<Vec<_>>(),
        [2, 2],
        "its own writes"
    );
    let failed = kv.txn(request).await.unwrap().into_inner();
    assert!(!failed.succeeded && failed.header.unwrap().revision == 2);
    let twice = pb::TxnRequest {
        success: vec![
            operation(Request::RequestPut(put("b", "1"))),
            operation(Request::RequestPut(put("b", "2"))),
        ],
        ..Default::default()
    };
    assert_eq!(
        kv.txn(twice).await.unwrap_err().message(),
        "etcdserver: duplicate key given in txn request"
    );
    let no_lease = pb::PutRequest { lease: 77, ..put("c", "1") };
    let half = pb::TxnRequest {
        success: vec![
            operation(Request::RequestPut(put("b", "1"))),
            operation(Request::RequestPut(no_lease)),
        ],
        ..Default::default()
    };
    assert_eq!(kv.txn(half).await.unwrap_err().message(), "etcdserver: requested lease not found");
    let after = kv.range(get("b")).await.unwrap().into_inner();
    assert_eq!((after.count, after.header.unwrap().revision), (0, 2), "as if nobody had asked");
}

async fn watch(
    etcd: &Running,
    requests: Vec<RequestUnion>,
) -> (tokio::sync::mpsc::Sender<pb::WatchRequest>, tonic::Streaming<pb::WatchResponse>) {
    let (sender, receiver) = tokio::sync::mpsc::channel(8);
    for request in requests {
        sender.send(pb::WatchRequest { request_union: Some(request) }).await.unwrap();
    }
    let mut client = WatchClient::new(etcd.channel().await);
    let events = in_time(client.watch(ReceiverStream::new(receiver))).await.unwrap().into_inner();
    (sender, events)
}

#[tokio::test]
async fn a_watch_sees_everything_in_order_from_any_revision() {
    let etcd = memory();
    let mut kv = etcd.kv().await;
    kv.put(put("a/1", "1")).await.unwrap();
    kv.put(put("b", "1")).await.unwrap();
    let create = |start_revision, watch_id| {
        RequestUnion::CreateRequest(pb::WatchCreateRequest {
            key: "a/".into(),
            range_end: "a0".into(),
            start_revision,
            prev_kv: true,
            watch_id,
            ..Default::default()
        })
    };
    let (sender, mut events) = watch(&etcd, vec![create(2, 7)]).await;
    let created = in_time(events.next()).await.unwrap().unwrap();
    assert!(created.created && created.watch_id == 7);
    let first = in_time(events.next()).await.unwrap().unwrap();
    assert_eq!(first.events[0].kv.as_ref().unwrap().mod_revision, 2);
    kv.put(put("a/1", "2")).await.unwrap();
    let second = in_time(events.next()).await.unwrap().unwrap().events.remove(0);
    assert_eq!((&*second.prev_kv.unwrap().value, second.kv.unwrap().version), (&b"1"[..], 2));
    kv.put(put("b", "2")).await.unwrap();
    let ask = |request| pb::WatchRequest { request_union: Some(request) };
    sender.send(ask(RequestUnion::ProgressRequest(pb::WatchProgressRequest {}))).await.unwrap();
    let progress = in_time(events.next()).await.unwrap().unwrap();
    assert_eq!(
        (progress.watch_id, progress.header.unwrap().revision, progress.events.len()),
        (-1, 5, 0)
    );
    kv.delete_range(pb::DeleteRangeRequest { key: "a/1".into(), ..Default::default() })
        .await
        .unwrap();
    let gone = in_time(events.next()).await.unwrap().unwrap().events.remove(0);
    assert_eq!((gone.r#type(), gone.kv.unwrap().mod_revision), (EventType::Delete, 6));
    kv.compact(pb::CompactionRequest { revision: 6, physical: false }).await.unwrap();
    sender.send(ask(create(3, 8))).await.unwrap();
    assert!(in_time(events.next()).await.unwrap().unwrap().created);
    let late = in_time(events.next()).await.unwrap().unwrap();
    assert_eq!((late.watch_id, late.canceled, late.compact_revision), (8, true, 6));
    sender
        .send(ask(RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: 7 })))
        .await
        .unwrap();
    assert!(in_time(events.next()).await.unwrap().unwrap().canceled);
}

/// Equivalent watches share one read, and each gets the events as it requested.
#[tokio::test]
async fn each_of_many_watches_of_a_stream_is_told_once() {
    let etcd = memory();
    let mut kv = etcd.kv().await;
    kv.put(put("a/1", "1")).await.unwrap();
    let create = |watch_id: i64| {
        let filters = if watch_id % 3 == 0 { vec![FilterType::Noput.into()] } else { vec![] };
        RequestUnion::CreateRequest(pb::WatchCreateRequest {
            key: if watch_id == 100 { "a/1" } else { "a/" }.into(),
            range_end: if watch_id == 100 { "" } else { "a0" }.into(),
            prev_kv: watch_id % 2 == 0,
            filters,
            watch_id,
            ..Default::default()
        })
    };
    let (sender, mut events) = watch(&etcd, vec![create(1)]).await;
    for watch_id in 2..=100 {
        let request_union = Some(create(watch_id));
        sender.send(pb::WatchRequest { request_union }).await.unwrap();
    }
    for _ in 1..=100 {
        assert!(in_time(events.next()).await.unwrap().unwrap().created);
    }
    kv.put(put("a/1", "2")).await.unwrap();
    kv.delete_range(pb::DeleteRangeRequest { key: "a/1".into(), ..Default::default() })
        .await
        .unwrap();
    let (mut told, mut count) = (BTreeMap::<i64, Vec<_>>::new(), 0);
    while count < 67 * 2 + 33 {
        let answer = in_time(events.next()).await.unwrap().unwrap();
        count += answer.events.len();
        told.entry(answer.watch_id)
            .or_default()
            .extend(answer.events.iter().map(|event| (event.r#type(), event.prev_kv.is_some())));
    }
    for (watch_id, told) in told {
        let before = watch_id % 2 == 0;
        let both = [(EventType::Put, before), (EventType::Delete, before)];
        assert_eq!(told, both[usize::from(watch_id % 3 == 0)..], "{watch_id}");
    }
}

#[tokio::test]
async fn keys_end_with_their_lease() {
    let etcd = memory();
    let (mut kv, mut leases) = (etcd.kv().await, LeaseClient::new(etcd.channel().await));
    let granted =
        leases.lease_grant(pb::LeaseGrantRequest { ttl: 2, id: 9 }).await.unwrap().into_inner();
    assert_eq!((granted.id, granted.ttl), (9, 2));
    kv.put(pb::PutRequest { lease: 9, ..put("a", "1") }).await.unwrap();
    let twice = leases.lease_grant(pb::LeaseGrantRequest { ttl: 2, id: 9 }).await.unwrap_err();
    assert_eq!(twice.code(), Code::FailedPrecondition);
    let asked = pb::LeaseTimeToLiveRequest { id: 9, keys: true };
    let told = leases.lease_time_to_live(asked).await.unwrap().into_inner();
    assert_eq!((told.granted_ttl, told.keys), (2, vec![Bytes::from_static(b"a")]));
    in_time(async {
        while kv.range(get("a")).await.unwrap().into_inner().count > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    assert_eq!(leases.lease_time_to_live(asked).await.unwrap().into_inner().ttl, -1);
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let log = Arc::new(MemoryLog::default());
    let first = start(log.clone(), 0);
    let mut kv = first.kv().await;
    let mut leases = LeaseClient::new(first.channel().await);
    leases.lease_grant(pb::LeaseGrantRequest { ttl: 600, id: 9 }).await.unwrap();
    kv.put(pb::PutRequest { lease: 9, ..put("a", "1") }).await.unwrap();
    kv.put(put("b", "1")).await.unwrap();
    kv.put(put("b", "2")).await.unwrap();
    kv.compact(pb::CompactionRequest { revision: 3, physical: false }).await.unwrap();
    let before = kv.range(all()).await.unwrap().into_inner();
    let hash = |etcd: Channel| async move {
        let request = pb::HashKvRequest { revision: 0 };
        MaintenanceClient::new(etcd).hash_kv(request).await.unwrap().into_inner()
    };
    let hash_before = hash(first.channel().await).await;
    drop((kv, leases, first));
    let second = start(log, 0);
    let mut kv = second.kv().await;
    assert_eq!(kv.range(all()).await.unwrap().into_inner(), before);
    assert_eq!(hash(second.channel().await).await.hash, hash_before.hash);
    let lost = kv.range(pb::RangeRequest { revision: 2, ..all() }).await.unwrap_err();
    assert_eq!(lost.code(), Code::OutOfRange);
    let mut leases = LeaseClient::new(second.channel().await);
    leases.lease_revoke(pb::LeaseRevokeRequest { id: 9 }).await.unwrap();
    assert_eq!(kv.range(get("a")).await.unwrap().into_inner().count, 0);
}

/// The expected numbers were recorded from etcd after the same requests.
#[tokio::test]
async fn the_sum_of_all_keys_is_etcds() {
    let etcd = memory();
    let (mut kv, mut care) = (etcd.kv().await, MaintenanceClient::new(etcd.channel().await));
    for (key, value) in [("a", "1"), ("b", "2"), ("a", "3")] {
        kv.put(put(key, value)).await.unwrap();
    }
    kv.delete_range(pb::DeleteRangeRequest { key: "b".into(), ..Default::default() })
        .await
        .unwrap();
    kv.put(put("c", "9")).await.unwrap();
    let mut sums = Vec::new();
    for floor in [0, 4, 6] {
        if floor > 0 {
            kv.compact(pb::CompactionRequest { revision: floor, physical: true }).await.unwrap();
        }
        sums.push(care.hash_kv(pb::HashKvRequest { revision: 0 }).await.unwrap().into_inner().hash);
    }
    assert_eq!(sums, [484_020_772, 757_329_074, 3_038_879_044]);
}

#[tokio::test]
async fn a_quota_raises_an_alarm_that_leaves_deletions() {
    let etcd = start(Arc::new(MemoryLog::default()), 2_000);
    let (mut kv, mut care) = (etcd.kv().await, MaintenanceClient::new(etcd.channel().await));
    kv.put(put("a", "1")).await.unwrap();
    let large =
        pb::PutRequest { key: "b".into(), value: vec![1; 3_000].into(), ..Default::default() };
    assert_eq!(
        kv.put(large).await.unwrap_err().message(),
        "etcdserver: mvcc: database space exceeded"
    );
    assert_eq!(
        kv.put(put("c", "1")).await.unwrap_err().code(),
        Code::ResourceExhausted,
        "until it is seen to"
    );
    kv.delete_range(pb::DeleteRangeRequest { key: "a".into(), ..Default::default() })
        .await
        .unwrap();
    let off = pb::AlarmRequest { action: 2, member_id: 0, alarm: 1 };
    assert_eq!(care.alarm(off).await.unwrap().into_inner().alarms.len(), 1);
    kv.put(put("c", "1")).await.unwrap();
}

#[tokio::test]
async fn a_snapshot_is_a_file_that_can_be_restored() {
    let etcd = memory();
    let mut kv = etcd.kv().await;
    for nth in 0..300 {
        let put = pb::PutRequest {
            key: format!("/registry/a/{nth:03}").into(),
            value: vec![7; 500].into(),
            ..Default::default()
        };
        kv.put(put).await.unwrap();
    }
    kv.delete_range(pb::DeleteRangeRequest { key: "/registry/a/007".into(), ..Default::default() })
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let remote =
        store::EtcdConfig { endpoints: vec![etcd.url.clone()], ..store::EtcdConfig::default() };
    let mut file = std::fs::File::create(&path).unwrap();
    store::etcd::save(&remote, &mut file).await.unwrap();
    let archive = store::archive::EtcdSnapshot::read(&path).unwrap();
    assert_eq!((archive.revision, archive.keys(), archive.versions), (302, 299, 301));
    let disk = store::Directory::open(folder.path().join("store")).unwrap();
    let revision = archive.restore(&disk, 0).unwrap();
    assert!(archive.restore(&disk, 0).is_err(), "never over another");
    drop(disk);
    let disk = Arc::new(store::Directory::open(folder.path().join("store")).unwrap());
    let log = store::DiskLog::open(disk, Arc::new(SystemClock), store::DiskLogOptions::default())
        .unwrap();
    let again = start(log, 0);
    let mut kv = again.kv().await;
    let there = kv.range(all()).await.unwrap().into_inner();
    assert_eq!((there.count, there.kvs[0].mod_revision), (299, 2));
    let next = kv.put(put("x", "1")).await.unwrap().into_inner().header.unwrap().revision;
    assert_eq!(next, i64::try_from(revision).unwrap() + 1, "no revision comes twice");
    let empty = memory();
    let other = store::EtcdConfig { endpoints: vec![empty.url.clone()], ..remote };
    assert_eq!(store::etcd::restore(&archive, &other).await.unwrap(), 299);
    assert!(store::etcd::restore(&archive, &other).await.is_err(), "never over another");
    let mut torn = std::fs::read(&path).unwrap();
    let middle = torn.len() / 2;
    torn[middle] ^= 1;
    std::fs::write(&path, torn).unwrap();
    assert!(matches!(store::archive::EtcdSnapshot::read(&path), Err(store::Error::Damaged { .. })));
}
