//! The probers of the running containers, and the handling of probe results.

use std::time::Duration;

use runtime::EventType;

use super::Worker;
use crate::{
    pod::{observe::ContainerRunState, plan::ProbeResults},
    probe::{self, ProbeEvent, ProbeTarget, ProbeType},
};

impl Worker {
    /// Starts a prober for each running container and stops those of other containers.
    pub(super) fn sync_probers(&mut self) {
        let running: Vec<_> = self
            .observed
            .containers
            .iter()
            .filter(|one| one.state == ContainerRunState::Running)
            .cloned()
            .collect();
        self.probers.retain(|id, prober| {
            let lives = running.iter().any(|one| one.id == *id);
            if !lives {
                prober.abort();
            }
            lives
        });
        self.state.probes.retain(|id, _| running.iter().any(|one| one.id == *id));
        while self.tasks.try_join_next().is_some() {}
        let pod = &self.desired.pod;
        for container in running {
            let known = self.probers.contains_key(&container.id);
            let spec = pod.spec().all_containers().find(|one| one.name() == container.name);
            let (false, Some(spec)) = (known, spec) else { continue };
            let id = format!("{}://{}", self.host.runtime.name, container.id);
            let old = pod.status();
            let lists = [old.container_statuses(), old.init_container_statuses()];
            let old = lists.iter().find_map(|list| list.find(|one| one.container_id() == id));
            let startup = spec.startup_probe().is_some();
            let probes = ProbeResults {
                started: !startup || old.is_some_and(|old| old.started() == Some(true)),
                ready: match spec.readiness_probe() {
                    Some(_) => old.is_some_and(api::core::ContainerStatus::ready),
                    None => !startup || old.is_some_and(api::core::ContainerStatus::ready),
                },
                failed: None,
            };
            self.state.probes.insert(container.id.clone(), probes);
            let ip = if pod.spec().host_network() {
                self.host.config.node_ip().to_string()
            } else {
                self.observed.sandbox().and_then(|one| one.ips.first().cloned()).unwrap_or_default()
            };
            let target = ProbeTarget {
                runtime: self.host.runtime.clone(),
                container: container.id.clone(),
                ip,
            };
            let began = self.host.nanos().saturating_sub(container.started).max(0).unsigned_abs();
            let asking = probe::run(
                target,
                (pod.clone(), spec.clone()),
                Duration::from_nanos(began),
                self.ending.subscribe(),
                (self.host.probe_metrics.clone(), self.finding_sender.clone()),
            );
            self.probers.insert(container.id, self.tasks.spawn(asking));
        }
    }

    /// Applies a probe result to the worker's state.
    pub(super) fn handle_probe_result(&mut self, id: &str, finding: ProbeEvent) {
        let Some(container) = self.observed.containers.iter().find(|one| one.id == id).cloned()
        else {
            return;
        };
        let Some(probes) = self.state.probes.get_mut(id) else { return };
        let name = container.name;
        match finding {
            ProbeEvent::Started => {
                probes.started = true;
                let specs = self.desired.pod.spec();
                let spec = specs.all_containers().find(|one| one.name() == name);
                probes.ready |= spec.is_some_and(|spec| spec.readiness_probe().is_none());
            }
            ProbeEvent::Ready(ready) => probes.ready = ready,
            ProbeEvent::Failed(role, grace) => {
                let what = if role == ProbeType::Startup { "startup" } else { "liveness" };
                let why = format!("Container {name} failed {what} probe, will be restarted");
                probes.failed = Some((why, grace));
            }
            ProbeEvent::Unhealthy(role, said) => {
                let message = format!("{} probe failed: {said}", role.name());
                let pod = &self.desired.pod;
                self.host.record_event(pod, &name, EventType::Warning, "Unhealthy", message);
            }
            ProbeEvent::Errored(role, why) => {
                let role = role.name();
                let message = format!("{role} probe errored and resulted in unknown state: {why}");
                let pod = &self.desired.pod;
                self.host.record_event(pod, &name, EventType::Warning, "Unhealthy", message);
            }
        }
    }
}
