//! The node lease in `kube-node-lease`: the kubelet's heartbeat, renewed every ten seconds.

use std::{sync::Arc, time::Duration};

use api::{coordination::Lease, core::Node};
use client::{Api, Error};
use object::{Clock, Lens, MicroTime, NamespacedName, SystemClock, Value};
use tokio::time::sleep;
use tracing::warn;

use crate::KubeletContext;

const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(1);
const LEASE_DURATION_SECONDS: i32 = 40;
const NAMESPACE: &str = "kube-node-lease";

pub(crate) fn start(host: &Arc<KubeletContext>) {
    let host = host.clone();
    let cx = host.cx.clone();
    cx.spawn("node lease", async move {
        let mut known = None;
        loop {
            let renewed = panics::contain("node lease", renew(&host, known.take())).await;
            match renewed.unwrap_or_else(|why| Err(Error::Invalid(why.to_string()))) {
                Ok(lease) => {
                    known = Some(lease);
                    sleep(RENEW).await;
                }
                Err(error) => {
                    warn!(%error, "cannot renew the node lease; will retry");
                    sleep(RETRY).await;
                }
            }
        }
    });
}

async fn renew(host: &KubeletContext, known: Option<Lease>) -> Result<Lease, Error> {
    let api = Api::<Lease>::new(host.cx.client());
    let key = NamespacedName::new(NAMESPACE, &host.config.node_name);
    let found = match known {
        Some(lease) => Some(lease),
        None => match api.get(&key).await {
            Err(error) if error.is_not_found() => None,
            found => Some(found?),
        },
    };
    let exists = found.is_some();
    let mut tree = found.map_or_else(Value::object, |lease| lease.tree().clone());
    tree["metadata"]["name"] = (&*host.config.node_name).into();
    tree["metadata"]["namespace"] = NAMESPACE.into();
    let spec = &mut tree["spec"];
    spec["holderIdentity"] = (&*host.config.node_name).into();
    spec["leaseDurationSeconds"] = LEASE_DURATION_SECONDS.into();
    spec["renewTime"] = MicroTime::format(SystemClock.now_micros()).into();
    if tree["metadata"]["ownerReferences"].is_null()
        && let Ok(node) = owner(host).await
    {
        tree["metadata"]["ownerReferences"] = [node].into_iter().collect();
    }
    let lease = Lease::from(tree);
    if exists { api.update(lease).await } else { api.create(lease).await }
}

async fn owner(host: &KubeletContext) -> Result<Value, Error> {
    let node = if let Some(node) = host.node() {
        node
    } else {
        let key = NamespacedName::new("", &host.config.node_name);
        Api::<Node>::new(host.cx.client()).get(&key).await?
    };
    let mut owner = Value::object();
    (owner["apiVersion"], owner["kind"]) = ("v1".into(), "Node".into());
    (owner["name"], owner["uid"]) = (node.metadata().name().into(), node.metadata().uid().into());
    Ok(owner)
}
