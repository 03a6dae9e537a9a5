//! The Node object: registration, status updates, events and the lease.

mod events;
mod lease;
pub(crate) mod machine;
mod register;
mod status;

use std::{sync::Arc, time::Duration};

use api::core::Node;
use object::Value;
use runtime::EventType;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use self::events::Recorded;
use crate::{Config, KubeletContext};

/// How often the node status is computed.
const STATUS_UPDATE_FREQUENCY: Duration = Duration::from_secs(10);
/// Interval right after the start while the node is not ready; later it is `LATER`.
const SOON: Duration = Duration::from_millis(200);
const LATER: Duration = Duration::from_secs(2);
const STARTUP_PERIOD: Duration = Duration::from_secs(20);
/// How often an unchanged status is written.
const STATUS_REPORT_FREQUENCY: Duration = Duration::from_mins(5);

pub(crate) fn start(host: &Arc<KubeletContext>, port: u16) {
    if host.config.standalone {
        return;
    }
    let host = host.clone();
    let cx = host.cx.clone();
    lease::start(&host);
    host.record_node_event(EventType::Normal, "Starting", "Starting kubelet.".to_owned());
    cx.keep("node", move || {
        let host = host.clone();
        async move {
            let mut told = None;
            let mut last = Instant::now();
            let began = Instant::now();
            let mut range = String::new();
            let mut recorded = Recorded::new();
            loop {
                sync_pod_cidr(&host, &mut range).await;
                recorded.record_schedulable(&host);
                let status = status::of(&host, port).await;
                let ready = status::is_ready(&status);
                let due = told.as_ref() != Some(&status::without_times(&status))
                    || last.elapsed() >= STATUS_REPORT_FREQUENCY;
                if due {
                    match register::write(&host, &status).await {
                        Ok(before) => {
                            recorded.record_status(&host, before.as_ref(), &status);
                            told = Some(status::without_times(&status));
                            last = Instant::now();
                        }
                        Err(error) => warn!(%error, "cannot update the node status; will retry"),
                    }
                }
                let wait = match () {
                    () if ready && told.is_some() => STATUS_UPDATE_FREQUENCY,
                    () if began.elapsed() < STARTUP_PERIOD => SOON,
                    () => LATER,
                };
                // wakes early when the API server assigns a podCIDR or the node is cordoned
                if let Some(nodes) = host.node_changes() {
                    let _ = timeout(wait, nodes.notified()).await;
                } else {
                    sleep(wait).await;
                }
            }
        }
    });
}

/// The Node as it will be registered, for use before it exists. Its uid is the node's name.
pub(crate) fn initial_node(config: &Config) -> Node {
    let mut tree = register::new(config, &Value::object());
    tree["metadata"]["uid"] = (&*config.node_name).into();
    Node::from(tree)
}

/// Passes the podCIDR to the runtime when it becomes known or changes.
async fn sync_pod_cidr(host: &KubeletContext, given: &mut String) {
    let of_node = host.node().map(|node| node.spec().pod_cidr().to_owned()).unwrap_or_default();
    let range =
        if host.config.pod_cidr.is_empty() { of_node } else { host.config.pod_cidr.clone() };
    if range.is_empty() || range == *given {
        return;
    }
    match host.runtime.set_pod_cidr(&range).await {
        Ok(()) => *given = range,
        Err(error) => warn!(%error, "cannot set the podCIDR in the runtime; will retry"),
    }
}

/// A field of a tree as text.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
