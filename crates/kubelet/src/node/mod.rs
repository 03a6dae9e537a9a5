//! The node in the API: made once, told of every change, its lease renewed.

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

/// How often the node is looked at.
const STATUS_UPDATE_FREQUENCY: Duration = Duration::from_secs(10);
/// While it is not ready it is looked at more often, and most often right after the start.
const SOON: Duration = Duration::from_millis(200);
const LATER: Duration = Duration::from_secs(2);
const STARTUP_PERIOD: Duration = Duration::from_secs(20);
/// How often the API hears of a node to which nothing happens.
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
                        Err(error) => warn!(%error, "the node cannot be written; will retry"),
                    }
                }
                let wait = match () {
                    () if ready && told.is_some() => STATUS_UPDATE_FREQUENCY,
                    () if began.elapsed() < STARTUP_PERIOD => SOON,
                    () => LATER,
                };
                // a range that the API has just given is passed on at once, and a cordon makes an event
                if let Some(nodes) = host.node_changes() {
                    let _ = timeout(wait, nodes.notified()).await;
                } else {
                    sleep(wait).await;
                }
            }
        }
    });
}

/// The node as it will be in the API, while it is not there yet; known by its name alone.
pub(crate) fn initial_node(config: &Config) -> Node {
    let mut tree = register::new(config, &Value::object());
    tree["metadata"]["uid"] = (&*config.node_name).into();
    Node::from(tree)
}

/// Tells the runtime which addresses are the pods', once they are known.
async fn sync_pod_cidr(host: &KubeletContext, given: &mut String) {
    let of_node = host.node().map(|node| node.spec().pod_cidr().to_owned()).unwrap_or_default();
    let range =
        if host.config.pod_cidr.is_empty() { of_node } else { host.config.pod_cidr.clone() };
    if range.is_empty() || range == *given {
        return;
    }
    match host.runtime.set_pod_cidr(&range).await {
        Ok(()) => *given = range,
        Err(error) => warn!(%error, "the runtime does not take the pods' range; will retry"),
    }
}

/// A field of a tree as text.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
