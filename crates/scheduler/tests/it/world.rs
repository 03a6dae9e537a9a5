//! A cluster with a scheduler. Nodes are API objects only: no pod runs, and pods end when the test
//! deletes them.

use std::ops::Deref;

use api::core::Pod;
use runtime::Context;
use scheduler::Config;
use testkit::{Objects, TestCluster};

pub(crate) struct World {
    cluster: TestCluster,
    objects: Objects,
    cx: Context,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(Config::default()).await
    }

    /// The scheduler runs as the user `system:kube-scheduler`, with upstream's permissions.
    pub(crate) async fn start_with(config: Config) -> Self {
        let cluster = TestCluster::start().await;
        let objects = Objects::new(&cluster.admin_client());
        objects.create_default_account().await;
        let cx = Context::new(&cluster.client_as("system:kube-scheduler", &[]));
        scheduler::start(&cx, config);
        Self { cluster, objects, cx }
    }

    /// A pod that requests this much CPU, with further fields of its spec, such as `"nodeSelector":{…},`.
    pub(crate) async fn pod(&self, name: &str, cpu: &str, spec: &str) -> Pod {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"app":"web"}}}},"spec":{{{spec}
            "containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}"#
        );
        self.create::<Pod>(&json).await
    }

    #[track_caller]
    pub(crate) fn until_placed(&self, name: &str, node: &str) -> impl Future<Output = Pod> {
        let what = format!("{name} on {node}");
        let node = node.to_owned();
        self.until::<Pod>(name, what, move |pod| pod.spec().node_name() == node)
    }

    /// Waits until the scheduler has reported that no node fits, and why.
    #[track_caller]
    pub(crate) fn until_unschedulable(
        &self,
        name: &str,
        message: &str,
    ) -> impl Future<Output = Pod> {
        let expected = Some(("False".to_owned(), "Unschedulable".to_owned(), message.to_owned()));
        self.until::<Pod>(name, message.to_owned(), move |pod| {
            pod.spec().node_name().is_empty() && testkit::condition(pod, "PodScheduled") == expected
        })
    }

    pub(crate) async fn stop(self) {
        self.cx.stop().await;
        self.cluster.stop().await;
    }
}

impl Deref for World {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}
