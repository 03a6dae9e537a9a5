//! How fast the API server is on this machine: creation of pods by many clients at
//! once, and lists of all of them, through every filter and an in-memory pipe.
//!
//! `cargo run -p bench --release`

use std::time::{Duration, Instant};

use api::core::{Pod, ServiceAccount};
use client::{Api, Client, Page, Resource, Selection};
use object::{Value, from_json};
use testkit::Cluster;
use tokio::task::JoinSet;

const CLIENTS: u32 = 64;
const PODS: u32 = 10_000;
const LISTS: u32 = 10;

#[tokio::main]
async fn main() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let account = tree(r#"{"metadata":{"name":"default"}}"#);
    let accounts = Api::<Value>::of(&admin, Resource::of::<ServiceAccount>()).namespaced("default");
    accounts.create(account).await.expect("a new cluster has none");
    let (wall, cpu) = timed(create(&cluster)).await;
    let rate = f64::from(PODS) / wall.as_secs_f64();
    println!("create {PODS} pods, {CLIENTS} clients: {rate:.0}/s, {:.2} CPU s", cpu.as_secs_f64());
    let (wall, cpu) = timed(list(&admin)).await;
    let each = wall / LISTS;
    println!("list {PODS} pods: {each:.1?} each, {:.3} CPU s each", (cpu / LISTS).as_secs_f64());
    cluster.stop().await;
}

async fn create(cluster: &Cluster) {
    let mut tasks = JoinSet::new();
    for client in 0..CLIENTS {
        let pods = pods(&cluster.admin());
        tasks.spawn(async move {
            for at in (client..PODS).step_by(CLIENTS as usize) {
                pods.create(pod(at)).await.expect("a pod is created");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no client fails");
    }
}

async fn list(admin: &Client) {
    for _ in 0..LISTS {
        let list = pods(admin).list(&Selection::default(), &Page::default()).await;
        assert_eq!(list.expect("a list").items.len(), PODS as usize);
    }
}

fn pods(client: &Client) -> Api<Value> {
    Api::<Value>::of(client, Resource::of::<Pod>()).namespaced("default")
}

fn pod(at: u32) -> Value {
    tree(&format!(
        r#"{{"metadata":{{"name":"p{at}","labels":{{"app":"a{}"}}}},"spec":{{"containers":[
        {{"name":"c","image":"i","resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}}}}}}]}}}}"#,
        at % 10
    ))
}

fn tree(text: &str) -> Value {
    from_json(text.as_bytes()).expect("written here")
}

/// How long something takes, and how much of the processors, clients included.
async fn timed(work: impl Future<Output = ()>) -> (Duration, Duration) {
    let (began, before) = (Instant::now(), cpu());
    work.await;
    (began.elapsed(), cpu().saturating_sub(before))
}

fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanos)
}
