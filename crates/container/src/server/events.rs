//! Container events, for kubelets that subscribe to them instead of polling.

use super::{Inner, now};
use crate::cri::{ContainerEventResponse, ContainerEventType};

impl Inner {
    /// Sends a container event to all subscribers.
    pub(super) fn event(&self, kind: ContainerEventType, container: &str, sandbox: &str) {
        if self.events.receiver_count() == 0 {
            return;
        }
        let containers = self.state.containers_of(sandbox);
        let sandbox =
            self.state.sandbox(sandbox).map(|sandbox| Self::sandbox_status(&sandbox)).ok();
        let event = ContainerEventResponse {
            container_id: container.to_owned(),
            container_event_type: kind.into(),
            created_at: now(),
            pod_sandbox_status: sandbox,
            containers_statuses: containers.iter().map(Self::container_status).collect(),
        };
        let _ = self.events.send(event); // fails if the last subscriber has just left
    }
}
