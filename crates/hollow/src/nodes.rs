//! The Node objects of hollow nodes and their heartbeats.

use std::{collections::HashMap, net::Ipv4Addr, sync::Arc, time::Duration};

use api::{coordination::Lease, core::Node};
use client::{Api, Client, Error, Patch};
use object::{Clock as _, MicroTime, NamespacedName, SystemClock, Time, Value};
use runtime::Context;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};
use tracing::warn;

use crate::{CONCURRENCY, Config, LABEL, addresses};

/// How often a lease is renewed, and a status without changes is written, as kubelets do.
const LEASE_PERIOD: Duration = Duration::from_secs(10);
const STATUS_PERIOD: Duration = Duration::from_mins(5);
const LEASE_DURATION_SECONDS: i32 = 40;
const LEASE_NAMESPACE: &str = "kube-node-lease";
const RETRY: Duration = Duration::from_secs(1);
const CONDITIONS: [(&str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

/// The nodes by name.
#[derive(Debug)]
pub(crate) struct Nodes {
    numbers: HashMap<String, u32>,
}

impl Nodes {
    pub(crate) fn new(config: &Config) -> Self {
        let names = (0..config.nodes).map(|number| (name(config, number), number));
        Self { numbers: names.collect() }
    }

    /// The address of a node of ours.
    pub(crate) fn address(&self, name: &str) -> Option<Ipv4Addr> {
        self.numbers.get(name).map(|number| addresses::of_node(*number))
    }
}

fn name(config: &Config, number: u32) -> String {
    format!("{}{number}", config.prefix)
}

/// Registers all nodes, and keeps them alive. The heartbeats are spread evenly over their period.
pub(crate) fn start(cx: &Context, config: &Config, nodes: &Arc<Nodes>) {
    let (config, client, tasks) = (Arc::new(config.clone()), cx.client().clone(), cx.clone());
    let limit = Arc::new(Semaphore::new(CONCURRENCY));
    let count = u32::try_from(nodes.numbers.len()).unwrap_or(u32::MAX).max(1);
    cx.spawn("hollow nodes", async move {
        let began = Instant::now();
        for number in 0..config.nodes {
            sleep_until(began + LEASE_PERIOD * number / count).await;
            let (config, client, limit) = (config.clone(), client.clone(), limit.clone());
            tasks.spawn("hollow node", async move {
                keep_alive(&client, &config, number, &limit).await;
            });
        }
    });
}

/// Runs one node, until it is deleted from the API.
async fn keep_alive(client: &Client, config: &Config, number: u32, limit: &Semaphore) {
    let name = name(config, number);
    let (mut uid, mut lease) = (String::new(), None);
    let (mut next, mut status_due) = (Instant::now(), Instant::now());
    loop {
        let beat = async {
            let _turn = limit.acquire().await;
            if Instant::now() >= status_due {
                match report(client, config, number, uid.is_empty()).await? {
                    Some(reported) => uid = reported,
                    None => return Ok(None),
                }
                status_due = Instant::now() + STATUS_PERIOD;
            }
            renew(client, &name, &uid, lease.take()).await.map(Some)
        };
        match beat.await {
            Ok(None) => return,
            Ok(renewed) => {
                lease = renewed;
                next += LEASE_PERIOD;
            }
            Err(error) => {
                warn!(node = name, %error, "the heartbeat failed; will retry");
                status_due = Instant::now(); // the node may have been deleted
                next = Instant::now() + RETRY;
            }
        }
        sleep_until(next.max(Instant::now())).await;
    }
}

/// Writes the status of the node; creates it if it `is_new` and missing. Returns its uid; `None` if it was deleted.
async fn report(
    client: &Client,
    config: &Config,
    number: u32,
    is_new: bool,
) -> Result<Option<String>, Error> {
    let api = Api::<Node>::new(client);
    let key = NamespacedName::new("", &name(config, number));
    let now = SystemClock.now();
    let node = match api.get(&key).await {
        Err(error) if error.is_not_found() && is_new => {
            api.create(Node::from(new(config, number, now))).await?
        }
        Err(error) if error.is_not_found() => return Ok(None),
        found => {
            let mut patch = Value::object();
            patch["status"]["conditions"] = conditions(Some(&found?), now);
            api.patch_status(&key, &Patch::Strategic(patch)).await?
        }
    };
    Ok(Some(node.metadata().uid().to_owned()))
}

/// Renews the lease that was written last; `None`: reads or creates it.
async fn renew(
    client: &Client,
    name: &str,
    uid: &str,
    known: Option<Lease>,
) -> Result<Lease, Error> {
    let api = Api::<Lease>::new(client);
    let found = match known {
        Some(lease) => Some(lease),
        None => match api.get(&NamespacedName::new(LEASE_NAMESPACE, name)).await {
            Err(error) if error.is_not_found() => None,
            found => Some(found?),
        },
    };
    let exists = found.is_some();
    let mut lease = found.map_or_else(Value::object, Value::from);
    lease["metadata"]["name"] = name.into();
    lease["metadata"]["namespace"] = LEASE_NAMESPACE.into();
    let mut owner = Value::object();
    (owner["apiVersion"], owner["kind"]) = ("v1".into(), "Node".into());
    (owner["name"], owner["uid"]) = (name.into(), uid.into());
    lease["metadata"]["ownerReferences"] = std::iter::once(owner).collect();
    lease["spec"]["holderIdentity"] = name.into();
    lease["spec"]["leaseDurationSeconds"] = LEASE_DURATION_SECONDS.into();
    lease["spec"]["renewTime"] = MicroTime::format(SystemClock.now_micros()).into();
    let lease = Lease::from(lease);
    if exists { api.update(lease).await } else { api.create(lease).await }
}

/// A new Node, as a kubelet registers it.
fn new(config: &Config, number: u32, now: i64) -> Value {
    let name = name(config, number);
    let mut node = Value::object();
    node["metadata"]["name"] = name.as_str().into();
    let labels = &mut node["metadata"]["labels"];
    labels["kubernetes.io/hostname"] = name.as_str().into();
    labels["kubernetes.io/os"] = "linux".into();
    labels["kubernetes.io/arch"] = "amd64".into();
    labels[LABEL] = "true".into();
    if let Some(zone) = number.checked_rem(config.zones) {
        labels["topology.kubernetes.io/zone"] = format!("zone-{zone}").into();
    }
    for (key, value) in &config.labels {
        labels[key.as_str()] = value.as_str().into();
    }
    let status = &mut node["status"];
    for (resource, amount) in &config.capacity {
        status["capacity"][resource.as_str()] = amount.as_str().into();
        status["allocatable"][resource.as_str()] = amount.as_str().into();
    }
    let address = |kind: &str, value: String| {
        let mut entry = Value::object();
        entry["type"] = kind.into();
        entry["address"] = value.into();
        entry
    };
    let ip = addresses::of_node(number).to_string();
    status["addresses"] =
        [address("InternalIP", ip), address("Hostname", name)].into_iter().collect();
    status["nodeInfo"]["kubeletVersion"] =
        concat!("v1.37.1-hollow-", env!("CARGO_PKG_VERSION")).into();
    status["nodeInfo"]["operatingSystem"] = "linux".into();
    status["nodeInfo"]["architecture"] = "amd64".into();
    status["nodeInfo"]["containerRuntimeVersion"] = "hollow://".into();
    status["conditions"] = conditions(None, now);
    node
}

/// The conditions of a healthy node; transition times change only with the status.
fn conditions(node: Option<&Node>, now: i64) -> Value {
    let all = CONDITIONS.iter().map(|(kind, status, reason, message)| {
        let old = node.and_then(|node| {
            node.status().conditions().find(|own| own.type_() == *kind && own.status() == *status)
        });
        let since = old.map(|own| own.last_transition_time().to_owned());
        let mut condition = Value::object();
        condition["type"] = (*kind).into();
        condition["status"] = (*status).into();
        condition["reason"] = (*reason).into();
        condition["message"] = (*message).into();
        condition["lastHeartbeatTime"] = Time::format(now).into();
        condition["lastTransitionTime"] =
            since.unwrap_or_else(|| Time::format(now).to_string()).into();
        condition
    });
    all.collect()
}
