//! API Priority and Fairness: a tenant that floods the server does not hold up its neighbours.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use api::core::ConfigMap;
use client::{ConnectionUse, Connector as _, Io};
use server::UserInfo;
use testkit::TestCluster;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::Builder,
    task::JoinSet,
    time::timeout,
};

use crate::{hostile_names::allow, of, tree};

const PATIENCE: Duration = Duration::from_mins(2);
/// Concurrent requests of the tenant.
const FLOOD: usize = 60;

fn account(namespace: &str) -> UserInfo {
    let groups = ["system:serviceaccounts", "system:authenticated"];
    UserInfo::new(&format!("system:serviceaccount:{namespace}:default"), &groups)
}

/// Sends an HTTP/1.1 request on a connection, and reads the response to its end.
async fn ask(io: &mut Box<dyn Io>, path: &str) -> String {
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\naccept: application/json\r\n\r\n");
    io.write_all(head.as_bytes()).await.expect("the server reads");
    let (mut begin, mut last, mut piece) = (String::new(), Vec::new(), vec![0; 64 << 10]);
    loop {
        let read = io.read(&mut piece).await.expect("the server answers");
        assert_ne!(read, 0, "the connection was closed after {begin}");
        if begin.len() < 4096 {
            begin.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
        last.extend_from_slice(&piece[read.saturating_sub(8)..read]);
        last.drain(..last.len().saturating_sub(8));
        let whole = begin.contains("content-length") && begin.ends_with("}\n");
        if whole || last.ends_with(b"\r\n0\r\n\r\n") {
            return begin;
        }
    }
}

/// Lists all objects again and again on many connections, in its own thread.
fn flood(
    cluster: &TestCluster,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
) -> thread::JoinHandle<()> {
    let pipe = cluster.running.pipe(account("bad"));
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let mut tasks = JoinSet::new();
            for _ in 0..FLOOD {
                let mut io =
                    pipe.connect(ConnectionUse::Upgrade).await.expect("the server runs").io;
                let (stop, done) = (stop.clone(), done.clone());
                tasks.spawn(async move {
                    while !stop.load(Relaxed) {
                        let said = ask(&mut io, "/api/v1/namespaces/default/configmaps").await;
                        assert!(said.contains("200 OK"), "{said}");
                        done.fetch_add(1, Relaxed);
                    }
                });
            }
            while tasks.join_next().await.is_some() {}
        });
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_lists_all_day_does_not_hold_up_its_neighbour() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    for namespace in ["good", "bad"] {
        let name = account(namespace).name.to_string();
        allow(&admin, &name, r#"[{"apiGroups":[""],"resources":["configmaps"],"verbs":["*"]}]"#)
            .await;
    }
    for at in 0..400 {
        let data = "x".repeat(2000);
        let object = format!(r#"{{"metadata":{{"name":"c-{at}"}},"data":{{"d":"{data}"}}}}"#);
        of::<ConfigMap>(&admin).create(tree(&object)).await.unwrap();
    }

    let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let flooding = flood(&cluster, stop.clone(), done.clone());
    let until = Instant::now() + PATIENCE;
    while done.load(Relaxed) < FLOOD {
        assert!(!flooding.is_finished() && Instant::now() < until, "the flood does not begin");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let pipe = cluster.running.pipe(account("good"));
    let measured = thread::spawn({
        let done = done.clone();
        move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let mut io =
                    pipe.connect(ConnectionUse::Upgrade).await.expect("the server runs").io;
                let mut measured = Vec::new();
                for _ in 0..40 {
                    let (before, began) = (done.load(Relaxed), Instant::now());
                    let asked = ask(&mut io, "/api/v1/namespaces/default/configmaps/c-0");
                    let said = timeout(PATIENCE, asked).await.expect("in time");
                    assert!(said.contains("200 OK"), "{said}");
                    measured.push((done.load(Relaxed) - before, began.elapsed()));
                }
                measured
            })
        }
    });
    let mut measured = tokio::task::spawn_blocking(move || measured.join().unwrap()).await.unwrap();
    stop.store(true, Relaxed);
    tokio::task::spawn_blocking(move || flooding.join().unwrap()).await.unwrap();
    measured.sort();
    println!(
        "lists of the tenant that ended while the neighbour waited, and how long: {measured:?}"
    );
    // Without fair queuing it would be about as many as are concurrent.
    let (median, _) = measured[measured.len() / 2];
    assert!(median <= FLOOD / 6, "{median} of {FLOOD} went first: {measured:?}");
}
