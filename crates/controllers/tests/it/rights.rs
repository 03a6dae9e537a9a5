//! Tests least privilege by removing it: without its role a component gets Forbidden, and no other
//! component does. The audit log shows which user got which response.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use api::{
    core::{Namespace, Service, ServiceAccount},
    rbac::{ClusterRoleBinding, RoleBinding},
};
use client::{Api, Client, Error, Patch, Selectors};
use controllers::{CONTROLLERS, Config};
use object::{NamespacedName, ObjectMeta, SystemClock, Value, from_json, yaml::from_yaml};
use runtime::Context;
use schema::Kind;
use testkit::TestCluster;
use tokio::time::{Instant, sleep};

const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
                      rules: [{level: Metadata}]\n";
const ACCOUNT: &str = "system:serviceaccount:kube-system:";
/// How long a component may take to act, on a busy host.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long to watch for requests that must not be forbidden.
const QUIET: Duration = Duration::from_secs(4);
/// Objects that give every component work, created in a namespace of their own.
const WORK: &str = include_str!("rights.yaml");
/// Service accounts that act rarely, or on objects that this test does not create.
const IDLE: [&str; 12] = [
    "certificate-controller",
    "expand-controller",
    "horizontal-pod-autoscaler",
    "kube-apiserver-serving-clustertrustbundle-publisher",
    "legacy-service-account-token-cleaner",
    "pod-garbage-collector",
    "podcertificaterequestcleaner",
    "pv-protection-controller",
    "pvc-protection-controller",
    "service-cidrs-controller",
    "ttl-after-finished-controller",
    "volumeattributesclass-protection-controller",
];

struct Place {
    cluster: TestCluster,
    admin: Client,
    log: PathBuf,
    /// How much of the audit log has been read, in bytes.
    read: usize,
    round: usize,
}

impl Place {
    /// The users whose requests were forbidden since the last call.
    fn refused(&mut self) -> BTreeMap<String, String> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let end = text.rfind('\n').map_or(0, |at| at + 1);
        let new = text.get(self.read..end).unwrap_or_default();
        self.read = end;
        let lines = new.lines().filter_map(|line| from_json(line.as_bytes()).ok());
        let refused = lines.filter(|line| {
            let decision = &line["annotations"]["authorization.k8s.io/decision"];
            line["responseStatus"]["code"].as_i64() == Some(403)
                && decision.as_str() == Some("forbid") // a terminating namespace also rejects with 403
        });
        let who = |line: &Value| line["user"]["username"].as_str().unwrap_or_default().to_owned();
        let what = |line: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!("{} {}", text(&line["verb"]), text(&line["requestURI"]))
        };
        refused.map(|line| (who(&line), what(&line))).collect()
    }

    /// Waits until a request of this user is forbidden; without a user, for a fixed time.
    async fn settle(&mut self, user: Option<&str>) -> BTreeMap<String, String> {
        let patience = if user.is_some() { PATIENCE } else { QUIET };
        let (until, mut refused) = (Instant::now() + patience, BTreeMap::new());
        while Instant::now() < until && user.is_none_or(|user| !refused.contains_key(user)) {
            sleep(Duration::from_millis(100)).await;
            refused.extend(self.refused());
        }
        refused
    }

    /// Creates objects for every component to work on.
    async fn work(&mut self) {
        self.round += 1;
        let name = format!("round-{}", self.round);
        let meta = ObjectMeta::new().with_name(&*name);
        let namespaces = Api::<Namespace>::new(&self.admin);
        namespaces.create(Namespace::new().with_metadata(meta)).await.expect("a namespace");
        // pods need the service account, also while its controller may not create it
        let meta = ObjectMeta::new().with_name("default").with_namespace(&*name);
        let accounts = Api::<ServiceAccount>::new(&self.admin);
        match accounts.create(ServiceAccount::new().with_metadata(meta)).await {
            Err(error) if error.is_already_exists() => {}
            made => drop(made.expect("an account")),
        }
        let found = self.admin.discover().await.expect("an answer");
        for text in WORK.split("\n---\n") {
            let object = from_yaml(&text.replace("ROUND", &name)).expect("an object");
            let word = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
            let kind = found.of_kind(&word("apiVersion"), &word("kind")).expect("a kind");
            let api = Api::<Value>::for_resource(&self.admin, kind.resource.clone());
            let space = if kind.resource.namespaced { &*name } else { "" };
            let api = api.namespaced(space);
            let status = object["status"].clone();
            let made = api.create(object).await.unwrap_or_else(|error| panic!("{text}: {error}"));
            if !status.is_null() {
                let mut patch = Value::object();
                patch["status"] = status;
                let key = NamespacedName::new(
                    space,
                    made["metadata"]["name"].as_str().unwrap_or_default(),
                );
                drop(api.patch_status(&key, &Patch::Merge(patch)).await);
            }
        }
        let going = ObjectMeta::new().with_name(format!("{name}-going"));
        let going = namespaces.create(Namespace::new().with_metadata(going)).await;
        let key = NamespacedName::from_meta(going.expect("a namespace").metadata());
        namespaces.delete(&key, &client::DeleteParams::default()).await.expect("it was there");
    }

    /// Deletes all bindings of a subject; returns them.
    async fn unbind(&self, is: impl Fn(&Value) -> bool + Copy) -> Vec<Value> {
        let mut gone = take::<ClusterRoleBinding>(&self.admin, is).await;
        gone.extend(take::<RoleBinding>(&self.admin, is).await);
        gone
    }

    /// Restores bindings. Requests that were sent before are read from the log and ignored.
    async fn bind(&mut self, bindings: Vec<Value>) {
        for mut binding in bindings {
            let space = binding["metadata"]["namespace"].clone();
            let name = binding["metadata"]["name"].clone();
            let cluster_wide = space.as_str().unwrap_or_default().is_empty();
            binding["metadata"] = Value::object();
            (binding["metadata"]["name"], binding["metadata"]["namespace"]) = (name, space);
            let done: Result<(), Error> = if cluster_wide {
                let api = Api::<ClusterRoleBinding>::new(&self.admin);
                api.create(binding.into()).await.map(drop)
            } else {
                Api::<RoleBinding>::new(&self.admin).create(binding.into()).await.map(drop)
            };
            done.expect("it was there before");
        }
        sleep(Duration::from_millis(500)).await;
        self.refused();
    }
}

async fn take<K: Kind>(admin: &Client, is: impl Fn(&Value) -> bool) -> Vec<Value> {
    let api = Api::<K>::new(admin);
    let all = api.list_all(&Selectors::default()).await.expect("a list").items;
    let mut gone = Vec::new();
    for binding in all {
        if binding.tree()["subjects"].items().iter().any(&is) {
            let key = NamespacedName::from_meta(binding.meta());
            api.delete(&key, &client::DeleteParams::default()).await.expect("it was there");
            gone.push(binding.tree().clone());
        }
    }
    gone
}

async fn start() -> (Place, Context, Context) {
    let folder = std::env::temp_dir().join(format!("rights-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("room for a log");
    let (policy, log) = (folder.join("policy"), folder.join("audit.log"));
    fs::write(&policy, POLICY).expect("room for a policy");
    let to = log.clone();
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), move |flags| {
        flags.audit_policy_file = Some(policy);
        flags.audit_log_path = Some(to);
    })
    .await;
    let admin = cluster.admin_client();
    let cx = Context::new(&cluster.client_as("system:kube-controller-manager", &[]));
    let config = Config {
        cluster_cidr: "10.10.0.0/16".into(),
        root_ca: "certificates".into(),
        ..Config::default()
    };
    let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
    controllers::start(&cx, &config, &|account| {
        cluster.client_as(&format!("{ACCOUNT}{account}"), &groups)
    });
    let scheduling = Context::new(&cluster.client_as("system:kube-scheduler", &[]));
    scheduler::start(&scheduling, scheduler::Config::default());
    (Place { cluster, admin, log, read: 0, round: 0 }, cx, scheduling)
}

#[tokio::test]
#[ignore = "takes minutes; run it by name"]
async fn without_its_role_a_component_is_refused_and_no_other() {
    let (mut place, cx, scheduling) = start().await;
    place.work().await;
    let refused = place.settle(None).await;
    assert!(refused.is_empty(), "everybody may do what they do: {refused:#?}");

    let accounts: BTreeSet<&str> = CONTROLLERS
        .iter()
        .filter(|entry| entry.enabled_by_default && !entry.account.is_empty())
        .map(|entry| entry.account)
        .collect();
    let (idle, busy): (Vec<&str>, Vec<&str>) =
        accounts.into_iter().partition(|account| IDLE.contains(account));
    // Idle components cannot be told apart, so they lose their roles together.
    let mut turns: Vec<Vec<&str>> = busy.into_iter().map(|account| vec![account]).collect();
    turns.push(idle);
    // Components that get their roles back may have been denied just before.
    let mut before: Vec<String> = Vec::new();
    for turn in turns {
        let users: Vec<String> = turn.iter().map(|account| format!("{ACCOUNT}{account}")).collect();
        let mut gone = Vec::new();
        for account in &turn {
            let is = |subject: &Value| {
                subject["kind"].as_str() == Some("ServiceAccount")
                    && subject["name"].as_str() == Some(account)
            };
            let own = place.unbind(is).await;
            assert!(!own.is_empty(), "{account} has rights of its own");
            gone.extend(own);
        }
        place.work().await;
        let expected = users.first().filter(|_| users.len() == 1);
        let refused = place.settle(expected.map(String::as_str)).await;
        let own = |who: &String| users.contains(who) || before.contains(who);
        let others: Vec<_> = refused.iter().filter(|(who, _)| !own(who)).collect();
        assert!(others.is_empty(), "without {turn:?}: {others:#?}");
        assert!(expected.is_none_or(|user| refused.contains_key(user)), "{turn:?} was not refused");
        place.bind(gone).await;
        before = users;
    }

    let scheduler = |subject: &Value| subject["name"].as_str() == Some("system:kube-scheduler");
    let gone = place.unbind(scheduler).await;
    place.work().await;
    let refused = place.settle(Some("system:kube-scheduler")).await;
    let others = refused.keys().filter(|who| !before.contains(*who));
    assert_eq!(others.collect::<Vec<_>>(), ["system:kube-scheduler"], "{refused:#?}");
    place.bind(gone).await;

    let proxy = place.cluster.client_as("system:kube-proxy", &["system:node-proxier"]);
    let services = Api::<Service>::new(&proxy);
    assert!(services.list_all(&Selectors::default()).await.is_ok());
    let is = |subject: &Value| subject["name"].as_str() == Some("system:kube-proxy");
    place.unbind(is).await;
    let refused = services.list_all(&Selectors::default()).await;
    assert!(refused.is_err_and(|error| error.is_forbidden()));
    for part in [cx, scheduling] {
        part.stop().await;
    }
    place.cluster.stop().await;
    let _ = fs::remove_dir_all(place.log.parent().expect("a folder"));
}
