//! The time of day is set while controllers count: what lasts goes on lasting as long as it should.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use api::core::{Node, Pod};
use controllers::Config;
use object::{Clock, SystemClock, Time};
use schema::Kind;
use tokio::time::sleep;

use crate::World;

const HOUR: i64 = 3_600;
const TEN_YEARS: i64 = 10 * 365 * 24 * HOUR;

/// The time of day, which a test sets.
#[derive(Debug, Default)]
struct Set(AtomicI64);

impl Set {
    fn by(&self, seconds: i64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

impl Clock for Set {
    fn now(&self) -> i64 {
        SystemClock.now() + self.0.load(Ordering::Relaxed)
    }
}

async fn start(controllers: &[&str]) -> (World, Arc<Set>) {
    let clock = Arc::new(Set::default());
    let config = Config {
        controllers: controllers.iter().map(ToString::to_string).collect(),
        clock: clock.clone(),
        ..Config::default()
    };
    (World::start_with(config).await, clock)
}

fn pod(name: &str, node: &str, tolerated: i64) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"{node}","containers":[
        {{"name":"c","image":"i"}}],"tolerations":[{{"key":"k","operator":"Exists",
        "effect":"NoExecute","tolerationSeconds":{tolerated}}}]}}}}"#
    )
}

async fn is_there(world: &World, name: &str) -> bool {
    let all = world.all::<Pod>().await;
    all.iter().any(|pod| pod.metadata().name() == name && !pod.is_terminating())
}

/// A pod that tolerates a taint for a while is not evicted because the clock is set ahead, and is
/// evicted in time though it is set back.
#[tokio::test]
async fn a_toleration_lasts_as_long_as_it_says() {
    let (world, clock) = start(&["taint-eviction-controller"]).await;
    world.node("n").await;
    world.make::<Pod>(&pod("patient", "n", 300)).await;
    world.make::<Pod>(&pod("impatient", "n", 4)).await;
    let began = Instant::now();
    let taint = r#"{"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}}"#;
    world.change::<Node>("n", taint).await;
    sleep(Duration::from_secs(1)).await; // both are counted by now
    for jump in [HOUR, -HOUR, TEN_YEARS, -TEN_YEARS, -HOUR] {
        clock.by(jump);
        // Any change of the node makes the controller look at its pods.
        world
            .change::<Node>("n", &format!(r#"{{"metadata":{{"labels":{{"j":"x{jump}"}}}}}}"#))
            .await;
        sleep(Duration::from_millis(200)).await;
        let early = began.elapsed() < Duration::from_secs(3);
        assert!(!early || is_there(&world, "impatient").await, "evicted after a jump of {jump} s");
    }
    world.until_one::<Pod>("impatient", "it is evicted", Pod::is_terminating).await;
    assert!(began.elapsed() >= Duration::from_secs(3), "after {:?}", began.elapsed());
    assert!(is_there(&world, "patient").await);
    world.stop().await;
}

/// A node that has reported stays as it is while the clock jumps; its timestamps follow the clock.
#[tokio::test]
async fn nodes_stay_ready_when_the_clock_is_set() {
    let (world, clock) = start(&["node-lifecycle-controller"]).await;
    world.node("n").await;
    let ready = format!(
        r#"{{"status":{{"conditions":[{{"type":"Ready","status":"True","reason":"KubeletReady",
        "lastHeartbeatTime":"{}"}}]}}}}"#,
        Time::format(SystemClock.now())
    );
    let patch = client::Patch::Merge(crate::world::tree(&ready));
    let key = crate::world::key::<Node>("n");
    world.api::<Node>().patch_status(&key, &patch).await.expect("a status");
    world.until_event("n", "RegisteredNode").await;
    for jump in [HOUR, -HOUR, TEN_YEARS, -TEN_YEARS] {
        clock.by(jump);
        world
            .change::<Node>("n", &format!(r#"{{"metadata":{{"labels":{{"j":"x{jump}"}}}}}}"#))
            .await;
        sleep(Duration::from_millis(500)).await;
        let node = world.get::<Node>("n").await;
        assert!(node.is_ready(), "after a jump of {jump} s");
        assert!(node.spec().taints().is_empty(), "after a jump of {jump} s");
    }
    world.stop().await;
}

/// The pods of a node that is missing wait for it, whatever the clock says.
#[tokio::test]
async fn a_missing_node_is_waited_for() {
    let (world, clock) = start(&["pod-garbage-collector-controller"]).await;
    world.make::<Pod>(&pod("orphan", "nowhere", 300)).await;
    sleep(Duration::from_secs(1)).await; // its node is missed by now
    for jump in [HOUR, TEN_YEARS] {
        clock.by(jump);
        let label = format!(r#"{{"metadata":{{"labels":{{"j":"x{jump}"}}}}}}"#);
        world.change::<Pod>("orphan", &label).await;
        sleep(Duration::from_millis(500)).await;
        assert!(is_there(&world, "orphan").await, "deleted after a jump of {jump} s");
    }
    world.stop().await;
}
