//! Container events from the runtime. A runtime that does not implement CRI's `GetContainerEvents` is polled instead
//! (relist).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use container::cri::GetEventsRequest;
use tokio::time::sleep;
use tracing::{debug, info};

use crate::{KubeletContext, runtime::labels};

const RELIST_PERIOD: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_secs(1);

/// Starts the task that wakes the worker of a pod when one of its containers changes.
pub(crate) fn start(host: &Arc<KubeletContext>) {
    let host = host.clone();
    let cx = host.cx.clone();
    cx.keep("container events", move || {
        let host = host.clone();
        async move {
            loop {
                let code = watch_events(&host).await;
                if code == tonic::Code::Unimplemented {
                    info!("the runtime does not support events; polling every second");
                    return relist(&host).await;
                }
                sleep(RETRY).await;
                host.pods.wake_all(); // events may have been missed
            }
        }
    });
}

async fn watch_events(host: &KubeletContext) -> tonic::Code {
    let mut events =
        match host.runtime.cri().runtime.get_container_events(GetEventsRequest {}).await {
            Ok(answer) => answer.into_inner(),
            Err(error) => return error.code(),
        };
    host.pods.wake_all();
    loop {
        match events.message().await {
            Ok(Some(event)) => {
                let uid = event
                    .pod_sandbox_status
                    .and_then(|sandbox| sandbox.metadata)
                    .map(|metadata| metadata.uid);
                match uid {
                    Some(uid) => host.pods.wake(&uid),
                    None => host.pods.wake_all(),
                }
            }
            Ok(None) => return tonic::Code::Unavailable,
            Err(error) => {
                debug!(%error, "the event stream of the runtime ended");
                return error.code();
            }
        }
    }
}

async fn relist(host: &KubeletContext) {
    let mut known: HashMap<String, BTreeMap<String, i32>> = HashMap::new();
    loop {
        sleep(RELIST_PERIOD).await;
        let both = futures_util::future::try_join(
            host.runtime.sandboxes(HashMap::new()),
            host.runtime.containers(HashMap::new()),
        );
        let Ok((sandboxes, containers)) = both.await else { continue };
        let mut now: HashMap<String, BTreeMap<String, i32>> = HashMap::new();
        let states = sandboxes
            .into_iter()
            .map(|one| (one.labels, one.id, one.state))
            .chain(containers.into_iter().map(|one| (one.labels, one.id, one.state)));
        for (labels, id, state) in states {
            if let Some(uid) = labels.get(labels::UID) {
                now.entry(uid.clone()).or_default().insert(id, state);
            }
        }
        let uids = known.keys().chain(now.keys());
        uids.filter(|uid| known.get(*uid) != now.get(*uid)).for_each(|uid| host.pods.wake(uid));
        known = now;
    }
}
