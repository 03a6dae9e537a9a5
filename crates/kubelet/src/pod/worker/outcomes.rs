//! Results of steps, and the events that are recorded for them.

use runtime::Severity;
use tokio::time::sleep;
use tracing::warn;

use super::{FIRST_BACKOFF, LAST_BACKOFF, RETRY, Worker};
use crate::{
    pod::{
        plan::{Backoff, RESIZE, SANDBOX, SECOND},
        steps::Outcome,
    },
    resize,
};

impl Worker {
    /// Events for containers that have begun to wait.
    pub(super) fn record_backoff_events(&mut self) {
        let now = self.host.nanos();
        let pod = &self.desired.pod;
        for (name, (reason, message)) in &mut self.memory.waiting {
            let waits = self.memory.not_before.get(name).is_some_and(|at| *at > now);
            if reason == "ErrImagePull" && waits && self.recorded_reasons.get(name) == Some(reason)
            {
                let specs = pod.spec();
                let spec = specs.all_containers().find(|one| one.name() == name);
                let image = spec.map(|spec| spec.image().to_owned()).unwrap_or_default();
                let short = format!("Back-off pulling image \"{image}\"");
                self.host.record_event(pod, name, Severity::Normal, "BackOff", short.clone());
                self.host.record_event(
                    pod,
                    name,
                    Severity::Warning,
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
                    self.host.record_event(pod, name, Severity::Warning, "BackOff", message);
                }
            }
        }
    }

    pub(super) async fn learn(&mut self, outcome: Outcome) -> bool {
        let pod = self.desired.pod.clone();
        match outcome {
            Outcome::Done => true,
            Outcome::Failed(error) => {
                warn!(pod = self.name(), %error, "a step failed; will retry");
                sleep(RETRY).await;
                false
            }
            Outcome::Prepared(Ok(places)) => {
                self.places = Some(places);
                self.memory.prepared = true;
                true
            }
            Outcome::Prepared(Err(error)) => {
                self.record_failed_mount(error).await;
                self.put_off(SANDBOX, 1, 120);
                false
            }
            Outcome::Resized(Ok(())) => {
                if self.memory.resizing {
                    let message = resize::event_message(&pod, "completed", None);
                    self.host.record_event(&pod, "", Severity::Normal, "ResizeCompleted", message);
                }
                self.memory.resizing = false;
                self.memory.resize = None;
                // a runtime that reports other limits than it was given is not updated again and again
                self.put_off(RESIZE, 1, LAST_BACKOFF);
                true
            }
            Outcome::Resized(Err(error)) => {
                let message = resize::event_message(&pod, "error", Some(&error));
                self.host.record_event(&pod, "", Severity::Warning, "ResizeError", message);
                self.memory.resize = Some(error);
                self.put_off(RESIZE, FIRST_BACKOFF, LAST_BACKOFF);
                false
            }
            Outcome::Sandboxed(Ok(())) => {
                self.memory.backoffs.remove(SANDBOX);
                true
            }
            Outcome::Sandboxed(Err((_, error))) => {
                self.host.record_event(
                    &pod,
                    "",
                    Severity::Warning,
                    "FailedCreatePodSandBox",
                    error,
                );
                self.put_off(SANDBOX, 1, 60);
                false
            }
            Outcome::Started { name, places, result } => {
                self.replaced.remove(&name);
                self.places = places.or(self.places.take());
                match result {
                    Ok(()) => {
                        self.memory.waiting.remove(&name);
                        self.memory.not_before.remove(&name);
                        self.memory.backoffs.remove(&format!("start {name}"));
                        self.recorded_reasons.remove(&name);
                        true
                    }
                    Err(why) => {
                        self.memory.waiting.insert(name.clone(), why);
                        let key = format!("start {name}");
                        let wait = self.put_off(&key, FIRST_BACKOFF, LAST_BACKOFF);
                        self.memory.not_before.insert(name, wait);
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
            self.host.record_event(pod, "", Severity::Warning, "FailedMount", error);
        }
    }

    /// Waits longer each time; says until when.
    fn put_off(&mut self, what: &str, first: i64, longest: i64) -> i64 {
        let now = self.host.nanos();
        let last = self.memory.backoffs.get(what).map(|last| last.seconds);
        let seconds = last.map_or(first, |last| (last * 2).min(longest));
        self.memory.backoffs.insert(what.into(), Backoff { seconds, updated: now });
        let until = now + seconds * SECOND;
        self.memory.not_before.insert(what.into(), until);
        until
    }
}
