//! A cluster without kubelets: the test itself writes the nodes and the status of pods.

use std::fmt::Debug;

use api::core::{Event, Node, Pod, PodCondition, PodStatus, ServiceAccount};
use client::{Api, Client};
use controllers::Config;
use object::{NamespacedName, Time};
use runtime::Context;
use schema::{Kind, Scope};
use testkit::TestCluster;
pub(crate) use testkit::{tree, until};

/// The cluster, and an admin client of it.
pub(crate) struct World {
    pub(crate) cluster: TestCluster,
    pub(crate) admin: Client,
    cx: Context,
}

impl World {
    /// Starts the cluster with these controllers, each as its own service account.
    pub(crate) async fn start(controllers: &[&str]) -> Self {
        Self::start_with(Config {
            controllers: controllers.iter().map(ToString::to_string).collect(),
            ..Config::default()
        })
        .await
    }

    pub(crate) async fn start_with(config: Config) -> Self {
        let cluster = TestCluster::start().await;
        let admin = cluster.admin_client();
        let cx = Context::new(&cluster.client_as("system:kube-controller-manager", &[]));
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        controllers::start(&cx, &config, &|account| {
            cluster.client_as(&format!("system:serviceaccount:kube-system:{account}"), &groups)
        });
        let world = Self { cluster, admin, cx };
        world.make::<ServiceAccount>(r#"{"metadata":{"name":"default"}}"#).await;
        world
    }

    /// The API of a kind, in the namespace `default`.
    pub(crate) fn api<K: Kind>(&self) -> Api<K> {
        let api = Api::new(&self.admin);
        if K::SCOPE == Scope::Namespaced { api.namespaced("default") } else { api }
    }

    pub(crate) async fn make<K: Kind>(&self, text: &str) -> K {
        self.api().create(K::from(tree(text))).await.expect("it is well formed")
    }

    /// Creates a node that is ready; a new node is not, and has a taint.
    pub(crate) async fn node(&self, name: &str) {
        self.make::<Node>(&format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)).await;
        self.change::<Node>(name, r#"{"spec":{"taints":null}}"#).await;
    }

    pub(crate) async fn get<K: Kind>(&self, name: &str) -> K {
        self.api::<K>().get(&key::<K>(name)).await.expect("it is there")
    }

    pub(crate) async fn all<K: Kind>(&self) -> Vec<K> {
        self.api::<K>().list_all(&client::Selectors::default()).await.expect("a list").items
    }

    /// Changes an object with a merge patch.
    pub(crate) async fn change<K: Kind>(&self, name: &str, patch: &str) -> K {
        let patch = client::Patch::Merge(tree(patch));
        self.api::<K>().patch(&key::<K>(name), &patch).await.expect("it may be changed")
    }

    pub(crate) async fn delete<K: Kind>(&self, name: &str) {
        let now =
            client::DeleteParams { grace_seconds: Some(0), ..client::DeleteParams::default() };
        self.api::<K>().delete(&key::<K>(name), &now).await.expect("it was there");
    }

    /// Waits until the list of all objects of a kind satisfies a condition.
    #[track_caller]
    pub(crate) fn until_all<K: Kind>(
        &self,
        what: impl Debug,
        mut is: impl FnMut(&[K]) -> bool,
    ) -> impl Future<Output = Vec<K>> {
        until(what, async move || {
            let all = self.all::<K>().await;
            if is(&all) { Ok(all) } else { Err(all) }
        })
    }

    /// Waits until one object satisfies a condition.
    #[track_caller]
    pub(crate) fn until_one<K: Kind>(
        &self,
        name: &str,
        what: impl Debug,
        mut is: impl FnMut(&K) -> bool,
    ) -> impl Future<Output = K> {
        let name = name.to_owned();
        let found = self.until_all::<K>(what, {
            let name = name.clone();
            move |all| all.iter().any(|one| one.meta().name() == name && is(one))
        });
        async move {
            let mut found = found.await.into_iter();
            found.find(|one| one.meta().name() == name).expect("it was found")
        }
    }

    /// Acts as the kubelets: marks every pod of `default` as running and ready.
    pub(crate) async fn run_pods(&self) {
        for pod in self.all::<Pod>().await {
            if pod.is_active() && !pod.is_ready() {
                self.phase(&pod, "Running", true).await;
            }
        }
    }

    pub(crate) async fn phase(&self, pod: &Pod, phase: &str, ready: bool) {
        let since = Time::format(Time::parse_seconds("2026-01-01T00:00:00Z").expect("a time"));
        let condition = PodCondition::new()
            .with_type("Ready")
            .with_status(if ready { "True" } else { "False" })
            .with_last_transition_time(since);
        let mut pod = pod.clone();
        pod.set_status(PodStatus::new().with_phase(phase).with_conditions([condition]));
        match self.api::<Pod>().update_status(pod).await {
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            written => drop(written.expect("a status")),
        }
    }

    /// Waits for an event about the object of this name.
    #[track_caller]
    pub(crate) fn until_event(&self, about: &str, reason: &str) -> impl Future<Output = Event> {
        let (about, reason) = (about.to_owned(), reason.to_owned());
        let is = {
            let (about, reason) = (about.clone(), reason.clone());
            move |event: &Event| event.involved_object().name() == about && event.reason() == reason
        };
        let found = self.until_all::<Event>(format!("{reason} about {about}"), {
            let is = is.clone();
            move |all| all.iter().any(&is)
        });
        async move { found.await.into_iter().find(|event| is(event)).expect("it was found") }
    }

    /// Waits until the metrics of the controllers contain all these lines. A line that ends with
    /// ` +` is a prefix of one whose value is not zero.
    #[track_caller]
    pub(crate) fn until_metrics(&self, lines: &[&str]) -> impl Future<Output = ()> {
        let metrics = self.cx.metrics().clone();
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        until("metrics", async move || {
            let mut text = String::new();
            metrics.write(&mut text);
            let is = |wanted: &String, line: &str| match wanted.strip_suffix('+') {
                Some(start) => line.strip_prefix(start).is_some_and(|value| value != "0"),
                None => line == wanted,
            };
            let missing = lines.iter().filter(|wanted| !text.lines().any(|line| is(wanted, line)));
            let missing: Vec<_> = missing.collect();
            let same = |line: &&str| {
                let name = |line: &str| line.split(['{', ' ']).next().map(str::to_owned);
                missing.iter().any(|wanted| name(wanted) == name(line))
            };
            let seen: Vec<_> = text.lines().filter(same).collect();
            if missing.is_empty() { Ok(()) } else { Err(format!("{missing:#?} seen {seen:#?}")) }
        })
    }

    pub(crate) async fn stop(self) {
        self.cx.stop().await;
        self.cluster.stop().await;
    }
}

pub(crate) fn key<K: Kind>(name: &str) -> NamespacedName {
    NamespacedName::new(if K::SCOPE == Scope::Namespaced { "default" } else { "" }, name)
}
