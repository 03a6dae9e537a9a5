//! Hollow nodes against a real API server in the test's own process.

use api::{
    coordination::Lease,
    core::{ContainerStateTerminated, Node, Pod},
};
use client::{Api, Selectors};
use hollow::Config;
use object::NamespacedName;
use runtime::Context;
use testkit::{Objects, TestCluster};

const NODES: u32 = 20;

struct World {
    cluster: TestCluster,
    objects: Objects,
    cx: Context,
}

impl World {
    async fn start() -> Self {
        let cluster = TestCluster::start().await;
        let objects = Objects::new(&cluster.admin_client());
        objects.create_default_account().await;
        let cx = Context::new(&cluster.admin_client());
        hollow::start(&cx, &Config { nodes: NODES, zones: 3, ..Config::default() });
        Self { cluster, objects, cx }
    }

    /// Creates a pod that is bound to a node.
    async fn pod(&self, name: &str, annotations: &str, spec: &str) {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","annotations":{{{annotations}}}}},"spec":{{{spec}
            "nodeName":"hollow-7","containers":[{{"name":"c","image":"i"}}]}}}}"#
        );
        self.objects.create::<Pod>(&json).await;
    }

    async fn stop(self) {
        self.cx.stop().await;
        self.cluster.stop().await;
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status().phase()
}

#[tokio::test]
async fn nodes_register_and_renew_their_leases() {
    let world = World::start().await;
    let node = world
        .objects
        .until::<Node>("hollow-19", "it is ready".to_owned(), |node| {
            node.status().conditions().find(|own| own.type_() == "Ready").is_some()
        })
        .await;
    assert_eq!(node.metadata().labels().get("topology.kubernetes.io/zone"), Some("zone-1"));
    assert_eq!(node.metadata().labels().get(hollow::LABEL), Some("true"));
    let leases = Api::<Lease>::new(&world.cluster.admin_client());
    let key = NamespacedName::new("kube-node-lease", "hollow-0");
    let first = testkit::until("a lease", async || leases.get(&key).await).await;
    assert_eq!(first.metadata().owner_references().iter().count(), 1);
    testkit::until("a renewed lease", async || {
        let now = leases.get(&key).await.map_err(|error| error.to_string())?;
        let is_renewed = now.spec().renew_time() != first.spec().renew_time();
        if is_renewed {
            Ok(())
        } else {
            Err(now.spec().renew_time().unwrap_or_default().to_owned())
        }
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn pods_live_as_their_annotations_ask() {
    let world = World::start().await;
    let pods = &world.objects;
    world.pod("web", "", "").await;
    world.pod("other", "", "").await;
    let web = pods.until::<Pod>("web", "it runs".to_owned(), |pod| phase(pod) == "Running").await;
    let other =
        pods.until::<Pod>("other", "it runs".to_owned(), |pod| phase(pod) == "Running").await;
    assert_ne!(web.status().pod_ip(), other.status().pod_ip());
    let ready = testkit::condition(&web, "Ready").map(|(status, ..)| status);
    assert_eq!(ready.as_deref(), Some("True"));

    let never = r#""restartPolicy":"Never","#;
    world
        .pod(
            "fails",
            r#""hollow.tiphys.dev/run-for":"100ms","hollow.tiphys.dev/exit-code":"3""#,
            never,
        )
        .await;
    let failed =
        pods.until::<Pod>("fails", "it fails".to_owned(), |pod| phase(pod) == "Failed").await;
    let codes = failed.status().container_statuses().iter();
    let codes =
        codes.filter_map(|own| own.state().terminated()).map(ContainerStateTerminated::exit_code);
    assert_eq!(codes.collect::<Vec<_>>(), [3]);

    world
        .pod(
            "crashes",
            r#""hollow.tiphys.dev/run-for":"100ms","hollow.tiphys.dev/exit-code":"1""#,
            "",
        )
        .await;
    pods.until::<Pod>("crashes", "it was restarted twice".to_owned(), |pod| {
        pod.status().container_statuses().iter().any(|own| own.restart_count() >= 2)
    })
    .await;

    world.pod("waits", r#""hollow.tiphys.dev/waiting-reason":"ImagePullBackOff""#, "").await;
    pods.until::<Pod>("waits", "it waits".to_owned(), |pod| {
        let statuses = pod.status().container_statuses();
        let mut reasons = statuses.iter().filter_map(|own| own.state().waiting());
        reasons.any(|waiting| waiting.reason() == "ImagePullBackOff")
    })
    .await;

    // Deletion with a grace period ends as a kubelet would end it.
    for name in ["web", "waits", "crashes"] {
        pods.delete::<Pod>(name).await;
        pods.until_gone::<Pod>(name).await;
    }
    let left = pods.api::<Pod>().list_all(&Selectors::default()).await.map(|all| all.items.len());
    assert_eq!(left.ok(), Some(2), "the other pods stay");
    world.stop().await;
}
