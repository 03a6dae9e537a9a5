//! Snapshots are portable: from our server to ours, to the real etcd, and from the real etcd to ours.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use bytes::Bytes;
use object::{Clock as _, SystemClock};
use store::{
    Directory, DiskLog, DiskLogOptions, EmbeddedEngine, Engine as _, EtcdConfig, RingLimits,
    WatchCacheSet, Write,
    archive::{self, EtcdSnapshot, RESTORE_REVISION_BUMP},
    engine_suite::RawBytesCodec,
    etcd,
    wire::pb::{self, kv_client::KvClient, lease_client::LeaseClient},
};
use tempfile::TempDir;
use tonic::transport::Channel;

use crate::{
    face,
    real::{self, Real},
};

const PREFIX: &str = "/registry/things/";

type Items = BTreeMap<Bytes, Bytes>;

fn remote(url: &str) -> EtcdConfig {
    EtcdConfig { endpoints: vec![url.to_owned()], ..EtcdConfig::default() }
}

async fn channel(url: &str) -> Channel {
    let endpoint = Channel::from_shared(url.to_owned()).expect("a URL");
    endpoint.connect().await.expect("it listens")
}

/// All keys of an etcd, and its newest revision.
async fn all(url: &str) -> (Items, u64) {
    let mut kv = KvClient::new(channel(url).await);
    let (key, range_end) = (Bytes::from_static(&[0]), Bytes::from_static(&[0]));
    let range = pb::RangeRequest { key, range_end, ..Default::default() };
    let found = kv.range(range).await.expect("a range").into_inner();
    let revision = found.header.expect("a header").revision.cast_unsigned();
    (found.kvs.into_iter().map(|kv| (kv.key, kv.value)).collect(), revision)
}

/// Keys of arbitrary bytes: one written twice, one deleted, one with a lease.
async fn fill(url: &str) {
    let mut kv = KvClient::new(channel(url).await);
    let lease = pb::LeaseGrantRequest { ttl: 1_000, id: 7 };
    let mut leases = LeaseClient::new(channel(url).await);
    leases.lease_grant(lease).await.expect("granted");
    let many = (0..500_u32).map(|nth| (format!("/registry/a/{nth:03}").into(), vec![7; 700]));
    let odd = [
        (&b"/registry/odd/\xff\0"[..], vec![0, 255]),
        (b"elsewhere", vec![1]),
        (b"again", vec![2]),
    ];
    let odd = odd.into_iter().map(|(key, value)| (Bytes::from_static(key), value));
    for (key, value) in many.chain(odd) {
        let lease = if *key == *b"elsewhere" { 7 } else { 0 };
        let put = pb::PutRequest { key, value: value.into(), lease, ..Default::default() };
        kv.put(put).await.expect("written");
    }
    let again = pb::PutRequest { key: "again".into(), value: "2".into(), ..Default::default() };
    kv.put(again).await.expect("written");
    let gone = pb::DeleteRangeRequest { key: "/registry/a/007".into(), ..Default::default() };
    kv.delete_range(gone).await.expect("deleted");
}

async fn save(url: &str, folder: &TempDir) -> PathBuf {
    let path = folder.path().join("snapshot.db");
    etcd::save(&remote(url), &mut File::create(&path).expect("a file")).await.expect("saved");
    path
}

/// Our server, on the data of a snapshot.
fn restored(archive: &EtcdSnapshot, folder: &Path) -> face::Running {
    let disk = Directory::open(folder).expect("a folder");
    archive.restore(&disk, SystemClock.now()).expect("an empty folder");
    drop(disk);
    let disk = Arc::new(Directory::open(folder).expect("a folder"));
    let log = DiskLog::open(disk, Arc::new(SystemClock), DiskLogOptions::default()).expect("whole");
    face::start(log, 0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd"]
async fn from_real_etcd_to_ours() {
    let etcd = Real::start();
    fill(&etcd.url).await;
    let (there, revision) = all(&etcd.url).await;
    let folder = tempfile::tempdir().expect("a folder");
    let archive = EtcdSnapshot::read(&save(&etcd.url, &folder).await).expect("etcd has written it");
    assert_eq!((archive.revision, archive.keys()), (revision, there.len()));
    let ours = restored(&archive, &folder.path().join("store"));
    let (here, now) = all(&ours.url).await;
    assert!(here == there, "{} keys of {}", here.len(), there.len());
    assert_eq!(now, revision + RESTORE_REVISION_BUMP, "no revision is given twice");
    let mut leases = LeaseClient::new(channel(&ours.url).await);
    let left = pb::LeaseTimeToLiveRequest { id: 7, keys: true };
    let left = leases.lease_time_to_live(left).await.expect("it is there").into_inner();
    assert_eq!(
        (left.granted_ttl, &left.keys[..]),
        (1_000, &[Bytes::from_static(b"elsewhere")][..])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd"]
async fn from_ours_to_real_etcd() {
    let ours = face::start(Arc::new(store::MemoryLog::default()), 0);
    fill(&ours.url).await;
    let (here, revision) = all(&ours.url).await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = save(&ours.url, &folder).await;
    let archive = EtcdSnapshot::read(&path).expect("saved");
    // Key by key, into a running server.
    let etcd = Real::start();
    let count = etcd::restore(&archive, &remote(&etcd.url)).await.expect("it is empty");
    assert_eq!((count, all(&etcd.url).await.0), (here.len(), here.clone()));
    let again = etcd::restore(&archive, &remote(&etcd.url)).await;
    assert!(again.is_err(), "never over another");
    // As a file, with etcd's own program.
    let (data, peer) = (folder.path().join("data"), real::free_url());
    let made = Command::new(real::etcdutl())
        .args(["snapshot", "restore"])
        .arg(&path)
        .args(["--name", "default", "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}"), "--data-dir"])
        .arg(&data)
        .output()
        .expect("etcdutl can be started");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let etcd = Real::start_in(&data, &peer);
    let (there, now) = all(&etcd.url).await;
    assert!(there == here, "{} keys of {}", there.len(), here.len());
    assert!(now >= revision, "history goes on");
}

/// The embedded engine is saved from its directory while it writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_a_folder_in_use_to_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |name: &str| {
        let disk = Arc::new(Directory::open(folder.path().join(name)).expect("a folder"));
        let (clock, mirror) = (Arc::new(SystemClock), WatchCacheSet::new(RingLimits::default()));
        let log = DiskLog::open(disk, clock.clone(), DiskLogOptions::default()).expect("whole");
        let engine = EmbeddedEngine::<Bytes>::open(log, mirror.clone(), clock).expect("whole");
        let things = mirror.start(PREFIX, Arc::new(RawBytesCodec), &engine).expect("served");
        (engine, things)
    };
    let (engine, things) = open("one");
    for nth in 0..200 {
        let bytes = Bytes::from(nth.to_string());
        let write = Write::put(format!("{PREFIX}{nth:03}"), 0, bytes.clone(), bytes);
        engine.write(write).await.expect("absent");
    }
    let path = folder.path().join("snapshot.db");
    let disk = Directory::open(folder.path().join("one")).expect("a folder");
    let file = File::options().read(true).write(true).create_new(true).open(&path);
    let mut file = file.expect("a file");
    archive::save(&disk, SystemClock.now(), &mut file).expect("beside who uses it");
    let archive = EtcdSnapshot::read(&path).expect("saved");
    let other = Directory::open(folder.path().join("two")).expect("a folder");
    let revision = archive.restore(&other, SystemClock.now()).expect("an empty folder");
    drop(other);
    let (again, same) = open("two");
    let items = |of: &store::WatchCache<Bytes>| -> Vec<_> {
        let pinned = of.snapshot();
        pinned.range(PREFIX, None).map(|(key, v)| (key.to_owned(), v.object.clone())).collect()
    };
    assert_eq!((items(&same), items(&same).len()), (items(&things), 200));
    let bytes = Bytes::from_static(b"new");
    let next = again.write(Write::put(format!("{PREFIX}new"), 0, bytes.clone(), bytes)).await;
    assert_eq!(next, Ok(revision + 1), "no revision is given twice");
}
