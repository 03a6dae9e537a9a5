//! The machine's clock is set while controllers work: nothing is lost, evicted or started that would not be otherwise.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use api::{
    apps::ReplicaSet,
    batch::{CronJob, Job},
    core::{Node, Pod},
};
use controllers::Config;
use object::{Clock, SystemClock, Text};
use runtime::Election;

use crate::World;

const HOUR: i64 = 3600;
const TEN_YEARS: i64 = 10 * 365 * 24 * HOUR;
/// Longer than the test takes on the slowest machine: only a clock that is set makes a node silent for so long.
const GRACE: Duration = Duration::from_mins(50);

/// The real time, and what was added to it.
#[derive(Debug, Default)]
struct Set(AtomicI64);

impl Clock for Set {
    fn now(&self) -> i64 {
        self.micros().div_euclid(1_000_000)
    }

    fn micros(&self) -> i64 {
        SystemClock.micros() + self.0.load(Ordering::Relaxed) * 1_000_000
    }
}

#[tokio::test]
async fn a_clock_that_is_set_loses_no_node_evicts_no_pod_and_starts_no_storm() {
    let clock = Arc::new(Set::default());
    let controllers =
        [
        "node-lifecycle-controller",
        "taint-eviction-controller",
        "pod-garbage-collector-controller",
        "replicaset-controller",
        "cronjob-controller",
    ];
    let world = World::start_at(Config {
        controllers: controllers.map(str::to_owned).to_vec(),
        clock: clock.clone(),
        node_monitor_grace: GRACE,
        ..Config::default()
    })
    .await;
    let pods = bind_pods(&world).await;
    let cron = r#"{"metadata":{"name":"often"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":
        {"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}"#;
    world.make::<CronJob>(cron).await;
    let led = Arc::new(AtomicUsize::new(0));
    let other = world.cluster.admin();
    let leader = runtime::Context::new(&other);
    let election =
        Election { clock: clock.clone(), ..Election::new("kube-system", "clock", "first") };
    let (own, count) = (leader.clone(), led.clone());
    leader.spawn("leader", async move {
        election.lead(&own, |_| drop(count.fetch_add(1, Ordering::Relaxed))).await;
    });
    let mut jobs = Vec::new();
    for set in [HOUR, 0, TEN_YEARS, 0, -HOUR, 0, -TEN_YEARS, 0] {
        clock.0.store(set, Ordering::Relaxed);
        // Whoever looks at its objects again looks at the new time.
        world.change::<Node>("n1", &format!(r#"{{"metadata":{{"labels":{{"set":"at{set}"}}}}}}"#)).await;
        for name in &pods {
            let label = format!(r#"{{"metadata":{{"labels":{{"set":"at{set}"}}}}}}"#);
            world.change::<Pod>(name, &label).await;
        }
        let cron = format!(r#"{{"metadata":{{"labels":{{"set":"at{set}"}}}}}}"#);
        world.change::<CronJob>("often", &cron).await;
        // A new ReplicaSet is acted on after all that came before it.
        let set = format!("after{}", jobs.len());
        world.make::<ReplicaSet>(&replicas(&set, 1)).await;
        world
            .until_all::<Pod>("a pod of the new set", |all| {
                all.iter().any(|pod| pod.metadata().name().starts_with(&set))
            })
            .await;
        let node = world.get::<Node>("n1").await;
        assert!(node.is_ready(), "{set}: {:?}", node.status().conditions());
        let tainted = node.spec().taints().iter().any(|taint| taint.key() != TAINT);
        assert!(!tainted, "{set}: {:?}", node.spec().taints());
        let all = world.all::<Pod>().await;
        for name in &pods {
            let pod = all.iter().find(|pod| pod.metadata().name() == name.as_str());
            assert!(pod.is_some_and(|pod| !pod.is_terminating()), "{set}: {name} was evicted");
        }
        jobs.push(world.all::<Job>().await.len());
    }
    // One for each time that the clock went ahead, and one a minute for as long as the test takes.
    let most = 4 + usize::try_from(GRACE.as_secs() / 60).expect("few");
    assert!(jobs.last().is_some_and(|count| *count < most), "a storm of jobs: {jobs:?}");
    let grew = jobs.windows(2).map(|two| two[1] - two[0]).max();
    assert!(grew < Some(20), "a storm of jobs: {jobs:?}");
    assert_eq!(led.load(Ordering::Relaxed), 1, "it leads, and did not have to begin anew");
    leader.stop().await;
    world.stop().await;
}

/// The taint that the pods tolerate for a while.
const TAINT: &str = "clock-test";

/// A node that is ready and has a taint, and pods on it that tolerate the taint for half an hour.
async fn bind_pods(world: &World) -> Vec<Text> {
    world.node("n1").await;
    let ready = r#"{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":"2026-01-01T00:00:00Z"}]}}"#;
    let status = client::Patch::Merge(object::from_json(ready.as_bytes()).expect("JSON"));
    let key = object::Key::new("", "n1");
    world.api::<Node>().patch_status(&key, &status).await.expect("a status");
    let taint = format!(
        r#"{{"spec":{{"taints":[{{"key":"{TAINT}","effect":"NoExecute"}}]}}}}"#
    );
    world.change::<Node>("n1", &taint).await;
    let mut names = Vec::new();
    for n in 0..3 {
        let pod = format!(
            r#"{{"metadata":{{"name":"stays-{n}"}},"spec":{{"nodeName":"n1","containers":[{{"name":"c","image":"i"}}],
            "tolerations":[{{"key":"{TAINT}","operator":"Exists","effect":"NoExecute","tolerationSeconds":1800}}]}}}}"#
        );
        let made = world.make::<Pod>(&pod).await;
        names.push(Text::from(made.metadata().name()));
    }
    names
}

fn replicas(name: &str, count: usize) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"replicas":{count},"selector":{{"matchLabels":{{"app":"{name}"}}}},
        "template":{{"metadata":{{"labels":{{"app":"{name}"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
    )
}
