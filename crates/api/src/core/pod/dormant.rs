//! Fields that the API has, but that do nothing yet: they are dropped, as upstream
//! drops them while their feature is off.

use object::List;

use super::{ContainerStatus, PodSpec, PodStatus};
use crate::core::{Container, HTTPGetAction, Lifecycle, LifecycleHandler, Probe, Volume};

pub(super) fn drop_dormant(spec: &mut PodSpec) {
    if spec.scheduling_group().is_some() {
        spec.clear_scheduling_group();
    }
    if !spec.eviction_responders().is_empty() {
        spec.set_eviction_responders(List::default());
    }
}

impl PodStatus {
    /// What is new in a status and belongs to what is off.
    pub(super) fn drop_dormant(&mut self, old: &Self) {
        if old.volume_health().is_empty() {
            self.set_volume_health(List::default());
        }
        if old.node_allocatable_resource_claim_statuses().is_empty() {
            self.set_node_allocatable_resource_claim_statuses(List::default());
        }
        if !self.container_statuses().is_empty() {
            drop_volume_statuses(self.container_statuses_mut());
        }
        if !self.init_container_statuses().is_empty() {
            drop_volume_statuses(self.init_container_statuses_mut());
        }
        if !self.ephemeral_container_statuses().is_empty() {
            drop_volume_statuses(self.ephemeral_container_statuses_mut());
        }
    }
}

fn drop_volume_statuses(statuses: &mut List<ContainerStatus>) {
    for status in statuses.iter_mut().filter(|status| !status.volume_mounts().is_empty()) {
        for mount in status.volume_mounts_mut().iter_mut() {
            mount.clear_volume_status();
        }
    }
}

impl Container {
    pub(super) fn drop_dormant(&mut self) {
        if self.volume_mounts().iter().any(|mount| !mount.bind_mount_options().is_empty()) {
            for mount in self.volume_mounts_mut().iter_mut() {
                mount.set_bind_mount_options(List::default());
            }
        }
        if let Some(lifecycle) = self.lifecycle() {
            let signals = lifecycle.stop_signal().is_some();
            self.lifecycle_mut().drop_dormant();
            if signals && *self.lifecycle_mut() == Lifecycle::new() {
                self.clear_lifecycle();
            }
        }
        if self.liveness_probe().is_some() {
            self.liveness_probe_mut().drop_dormant();
        }
        if self.readiness_probe().is_some() {
            self.readiness_probe_mut().drop_dormant();
        }
        if self.startup_probe().is_some() {
            self.startup_probe_mut().drop_dormant();
        }
    }
}

impl Lifecycle {
    fn drop_dormant(&mut self) {
        if self.stop_signal().is_some() {
            self.clear_stop_signal();
        }
        let asks = |handler: Option<&LifecycleHandler>| {
            handler.and_then(LifecycleHandler::http_get).and_then(HTTPGetAction::protocol).is_some()
        };
        if asks(self.post_start()) {
            self.post_start_mut().http_get_mut().clear_protocol();
        }
        if asks(self.pre_stop()) {
            self.pre_stop_mut().http_get_mut().clear_protocol();
        }
    }
}

impl Probe {
    fn drop_dormant(&mut self) {
        let handler = self.probe_handler();
        let http = handler.http_get().and_then(HTTPGetAction::protocol).is_some();
        let grpc = handler.grpc().is_some_and(|grpc| grpc.mode().is_some());
        if http {
            self.probe_handler_mut().http_get_mut().clear_protocol();
        }
        if grpc {
            self.probe_handler_mut().grpc_mut().clear_mode();
        }
    }
}

impl Volume {
    pub(super) fn drop_dormant(&mut self) {
        let source = self.volume_source_mut();
        if source.empty_dir().is_some_and(|dir| dir.mode().is_some()) {
            source.empty_dir_mut().clear_mode();
        }
        if source.config_map().is_some() {
            let map = source.config_map_mut();
            map.clear_default_user();
            drop_users(map.items().is_empty(), map.items_mut());
        }
        if source.secret().is_some() {
            let secret = source.secret_mut();
            secret.clear_default_user();
            drop_users(secret.items().is_empty(), secret.items_mut());
        }
        if source.downward_api().is_some() {
            let downward = source.downward_api_mut();
            downward.clear_default_user();
            if !downward.items().is_empty() {
                downward
                    .items_mut()
                    .iter_mut()
                    .for_each(super::super::volume::DownwardAPIVolumeFile::clear_user);
            }
        }
        if source.projected().is_some() {
            source.projected_mut().drop_dormant();
        }
    }
}

fn drop_users(empty: bool, items: &mut List<crate::core::KeyToPath>) {
    if !empty {
        items.iter_mut().for_each(super::super::volume::KeyToPath::clear_user);
    }
}

impl crate::core::ProjectedVolumeSource {
    fn drop_dormant(&mut self) {
        self.clear_default_user();
        if self.sources().is_empty() {
            return;
        }
        for source in self.sources_mut().iter_mut() {
            if source.secret().is_some_and(|it| !it.items().is_empty()) {
                drop_users(false, source.secret_mut().items_mut());
            }
            if source.config_map().is_some_and(|it| !it.items().is_empty()) {
                drop_users(false, source.config_map_mut().items_mut());
            }
            if source.downward_api().is_some_and(|it| !it.items().is_empty()) {
                let files = source.downward_api_mut().items_mut().iter_mut();
                files.for_each(super::super::volume::DownwardAPIVolumeFile::clear_user);
            }
            if source.service_account_token().is_some() {
                source.service_account_token_mut().clear_user();
            }
            if source.pod_certificate().is_some() {
                source.pod_certificate_mut().clear_user();
            }
            if source.cluster_trust_bundle().is_some() {
                source.cluster_trust_bundle_mut().clear_user();
            }
        }
    }
}
