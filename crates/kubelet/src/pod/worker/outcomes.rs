//! Results of steps, and the events that are recorded for them.

use runtime::EventType;
use tokio::time::sleep;
use tracing::warn;

use super::{FIRST_BACKOFF, LAST_BACKOFF, RETRY, Worker};
use crate::{
    pod::{
        plan::{Backoff, RESIZE_BACKOFF_KEY, SANDBOX_BACKOFF_KEY, SECOND},
        steps::StepOutcome,
    },
    resize,
};

impl Worker {
    /// Records events for containers that have newly entered a back-off.
    pub(super) fn record_backoff_events(&mut self) {
        let now = self.host.nanos();
        let pod = &self.desired.pod;
        for (name, (reason, message)) in &mut self.state.waiting_reasons {
            let waits = self.state.retry_at.get(name).is_some_and(|at| *at > now);
            if reason == "ErrImagePull" && waits && self.recorded_reasons.get(name) == Some(reason)
            {
                let specs = pod.spec();
                let spec = specs.all_containers().find(|one| one.name() == name);
                let image = spec.map(|spec| spec.image().to_owned()).unwrap_or_default();
                let short = format!("Back-off pulling image \"{image}\"");
                self.host.record_event(pod, name, EventType::Normal, "BackOff", short.clone());
                self.host.record_event(
                    pod,
                    name,
                    EventType::Warning,
                    "Failed",
                    "Error: ImagePullBackOff".into(),
                );
                *message = format!("{short}: ErrImagePull: {message}");
                *reason = "ImagePullBackOff".into();
            }
            if self.recorded_reasons.get(name) != Some(reason) {
                self.recorded_reasons.insert(name.clone(), reason.clone());
                if reason == "CrashLoopBackOff" {
                    let meta = pod.metadata();
                    let message = format!(
                        "Back-off restarting failed container {name} in pod {}_{}({})",
                        meta.name(),
                        meta.namespace(),
                        meta.uid()
                    );
                    self.host.record_event(pod, name, EventType::Warning, "BackOff", message);
                }
            }
        }
    }

    /// Applies the result of a step to the worker's state. Returns whether the step succeeded.
    pub(super) async fn apply_outcome(&mut self, outcome: StepOutcome) -> bool {
        let pod = self.desired.pod.clone();
        match outcome {
            StepOutcome::Done => true,
            StepOutcome::Failed(error) => {
                warn!(pod = self.name(), %error, "a step failed; will retry");
                sleep(RETRY).await;
                false
            }
            StepOutcome::Prepared(Ok(places)) => {
                self.mounted_volumes = Some(places);
                self.state.volumes_ready = true;
                true
            }
            StepOutcome::Prepared(Err(error)) => {
                self.record_failed_mount(error).await;
                self.back_off(SANDBOX_BACKOFF_KEY, 1, 120);
                false
            }
            StepOutcome::Resized(Ok(())) => {
                if self.state.resize_in_progress {
                    let message = resize::event_message(&pod, "completed", None);
                    self.host.record_event(&pod, "", EventType::Normal, "ResizeCompleted", message);
                }
                self.state.resize_in_progress = false;
                self.state.resize_error = None;
                // prevents an update loop with a runtime that reports other limits than it was given
                self.back_off(RESIZE_BACKOFF_KEY, 1, LAST_BACKOFF);
                true
            }
            StepOutcome::Resized(Err(error)) => {
                let message = resize::event_message(&pod, "error", Some(&error));
                self.host.record_event(&pod, "", EventType::Warning, "ResizeError", message);
                self.state.resize_error = Some(error);
                self.back_off(RESIZE_BACKOFF_KEY, FIRST_BACKOFF, LAST_BACKOFF);
                false
            }
            StepOutcome::Sandboxed(Ok(())) => {
                self.state.backoffs.remove(SANDBOX_BACKOFF_KEY);
                true
            }
            StepOutcome::Sandboxed(Err((_, error))) => {
                self.host.record_event(
                    &pod,
                    "",
                    EventType::Warning,
                    "FailedCreatePodSandBox",
                    error,
                );
                self.back_off(SANDBOX_BACKOFF_KEY, 1, 60);
                false
            }
            StepOutcome::Started { name, places, result } => {
                self.replaced.remove(&name);
                self.mounted_volumes = places.or(self.mounted_volumes.take());
                match result {
                    Ok(()) => {
                        self.state.waiting_reasons.remove(&name);
                        self.state.retry_at.remove(&name);
                        self.state.backoffs.remove(&format!("start {name}"));
                        self.recorded_reasons.remove(&name);
                        true
                    }
                    Err(why) => {
                        self.state.waiting_reasons.insert(name.clone(), why);
                        let key = format!("start {name}");
                        let wait = self.back_off(&key, FIRST_BACKOFF, LAST_BACKOFF);
                        self.state.retry_at.insert(name, wait);
                        false
                    }
                }
            }
        }
    }

    /// Records a FailedMount event, unless the pod is being deleted, which is looked up in the API: the objects
    /// that its volumes refer to are often deleted together with it.
    pub(super) async fn record_failed_mount(&self, error: String) {
        let pod = &self.desired.pod;
        if self.desired_updates.borrow().ending.is_none() && self.host.is_wanted(pod).await {
            self.host.record_event(pod, "", EventType::Warning, "FailedMount", error);
        }
    }

    /// Doubles the back-off of `what`; returns when it ends.
    fn back_off(&mut self, what: &str, first: i64, longest: i64) -> i64 {
        let now = self.host.nanos();
        let last = self.state.backoffs.get(what).map(|last| last.seconds);
        let seconds = last.map_or(first, |last| (last * 2).min(longest));
        self.state.backoffs.insert(what.into(), Backoff { seconds, updated: now });
        let until = now + seconds * SECOND;
        self.state.retry_at.insert(what.into(), until);
        until
    }
}
