//! Converts records to CRI messages: statuses and lists of pods and containers.

use std::collections::HashMap;

use super::{
    Inner, matches_labels,
    state::{ContainerRecord, SandboxRecord},
};
use crate::cri::{
    self, ContainerFilter, ContainerResources, ContainerStatus, ContainerUser, LinuxContainerUser,
    LinuxPodSandboxStatus, Namespace, PodIp, PodSandbox, PodSandboxFilter, PodSandboxNetworkStatus,
    PodSandboxState, PodSandboxStatus, RuntimeCondition, RuntimeFeatures, RuntimeHandler,
    RuntimeHandlerFeatures, RuntimeStatus, StatusResponse,
};

impl Inner {
    pub(super) fn sandbox_status(sandbox: &SandboxRecord) -> PodSandboxStatus {
        let config = sandbox.config();
        let mut ips = sandbox.ips.iter().cloned();
        PodSandboxStatus {
            id: sandbox.id.clone(),
            metadata: config.metadata.clone(),
            state: sandbox_state(sandbox).into(),
            created_at: sandbox.created_at,
            network: Some(PodSandboxNetworkStatus {
                ip: ips.next().unwrap_or_default(),
                additional_ips: ips.map(|ip| PodIp { ip }).collect(),
            }),
            linux: Some(LinuxPodSandboxStatus {
                namespaces: Some(Namespace { options: Some(sandbox.namespaces()) }),
            }),
            labels: config.labels.clone(),
            annotations: config.annotations.clone(),
            runtime_handler: sandbox.handler.clone(),
        }
    }

    pub(super) fn container_status(container: &ContainerRecord) -> ContainerStatus {
        let config = container.config();
        let user = LinuxContainerUser {
            uid: i64::from(container.uid),
            gid: i64::from(container.gid),
            supplemental_groups: container.groups.iter().map(|gid| i64::from(*gid)).collect(),
        };
        ContainerStatus {
            id: container.id.clone(),
            metadata: config.metadata.clone(),
            state: container.state().into(),
            created_at: container.created_at,
            started_at: container.started_at,
            finished_at: container.finished_at,
            exit_code: container.exit_code,
            image: config.image.clone(),
            image_ref: container.image_ref.clone(),
            reason: container.reason.clone(),
            message: container.message.clone(),
            labels: config.labels.clone(),
            annotations: config.annotations.clone(),
            mounts: config.mounts.clone(),
            log_path: container.log_path.clone(),
            resources: container
                .resources
                .clone()
                .map(|linux| ContainerResources { linux: Some(linux), windows: None }),
            image_id: container.image_id.clone(),
            user: Some(ContainerUser { linux: Some(user) }),
            stop_signal: config.stop_signal,
        }
    }

    pub(super) fn sandboxes(&self, filter: Option<PodSandboxFilter>) -> Vec<PodSandbox> {
        let filter = filter.unwrap_or_default();
        let wanted = |one: &SandboxRecord| {
            (filter.id.is_empty() || one.id.starts_with(&filter.id))
                && filter.state.is_none_or(|state| state.state() == sandbox_state(one))
                && matches_labels(&filter.label_selector, &one.config().labels)
        };
        self.state.sandboxes().iter().filter(|one| wanted(one)).map(listed_sandbox).collect()
    }

    pub(super) fn containers(&self, filter: Option<ContainerFilter>) -> Vec<cri::Container> {
        let filter = filter.unwrap_or_default();
        let wanted = |one: &ContainerRecord| {
            (filter.id.is_empty() || one.id.starts_with(&filter.id))
                && (filter.pod_sandbox_id.is_empty()
                    || one.sandbox.starts_with(&filter.pod_sandbox_id))
                && filter.state.is_none_or(|state| state.state() == one.state())
                && matches_labels(&filter.label_selector, &one.config().labels)
        };
        self.state.containers().iter().filter(|one| wanted(one)).map(listed_container).collect()
    }

    pub(super) async fn status(&self) -> StatusResponse {
        let condition = |kind: &str, failure: Option<String>| RuntimeCondition {
            r#type: kind.to_owned(),
            status: failure.is_none(),
            reason: failure.as_ref().map(|_| format!("{kind}IsFalse")).unwrap_or_default(),
            message: failure.unwrap_or_default(),
        };
        let network = self.cni.status().await.err().map(|error| error.to_string());
        let features =
            RuntimeHandlerFeatures { recursive_read_only_mounts: true, user_namespaces: true };
        StatusResponse {
            status: Some(RuntimeStatus {
                conditions: vec![
                    condition("RuntimeReady", None),
                    condition("NetworkReady", network),
                ],
            }),
            info: HashMap::new(),
            runtime_handlers: ["", super::NAME]
                .map(|name| RuntimeHandler { name: name.into(), features: Some(features) })
                .into(),
            features: Some(RuntimeFeatures {
                supplemental_groups_policy: true,
                ..RuntimeFeatures::default()
            }),
        }
    }
}

fn sandbox_state(sandbox: &SandboxRecord) -> PodSandboxState {
    if sandbox.ready { PodSandboxState::SandboxReady } else { PodSandboxState::SandboxNotready }
}

fn listed_sandbox(sandbox: &SandboxRecord) -> PodSandbox {
    let config = sandbox.config();
    PodSandbox {
        id: sandbox.id.clone(),
        metadata: config.metadata.clone(),
        state: sandbox_state(sandbox).into(),
        created_at: sandbox.created_at,
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
        runtime_handler: sandbox.handler.clone(),
    }
}

fn listed_container(container: &ContainerRecord) -> cri::Container {
    let config = container.config();
    cri::Container {
        id: container.id.clone(),
        pod_sandbox_id: container.sandbox.clone(),
        metadata: config.metadata.clone(),
        image: config.image.clone(),
        image_ref: container.image_ref.clone(),
        state: container.state().into(),
        created_at: container.created_at,
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
        image_id: container.image_id.clone(),
    }
}
