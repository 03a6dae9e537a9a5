//! The life of a hollow pod: which stage comes next, and after what delay. The delays and failures are data, in
//! annotations of the pod:
//!
//! | annotation `hollow.tiphys.dev/…` | meaning | default |
//! |---|---|---|
//! | `start-delay` | time until the containers run | `0s` |
//! | `waiting-reason` | the containers never run, and wait for this reason | |
//! | `ready-delay` | time from the start until the pod is ready | `0s` |
//! | `run-for` | time from the start until the containers exit | for ever; pods of Jobs `1s` |
//! | `exit-code` | exit code of the containers | `0` |
//! | `stop-delay` | time from the deletion until the pod is gone | `0s` |

use std::time::Duration;

use api::core::Pod;

const PREFIX: &str = "hollow.tiphys.dev/";
/// How long containers of a Job run.
const JOB: Duration = Duration::from_secs(1);

/// What happens to a pod next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The containers wait for a reason, with a message.
    Wait { reason: String, message: String },
    /// The containers run. `ready`: the pod is ready at once.
    Start { ready: bool },
    /// The pod becomes ready.
    Ready,
    /// The containers exit for good.
    End { exit_code: i32 },
    /// The containers exit and are restarted.
    Restart { exit_code: i32 },
    /// The pod is removed from the API.
    Remove,
}

/// The next stage of a pod, and how long after the previous one it is due; `None`: the pod stays as it is.
pub(crate) fn next(pod: &Pod) -> Option<(Stage, Duration)> {
    match Script::parse(pod) {
        Ok(script) => script.next(pod),
        Err(_) if pod.metadata().is_terminating() => Some((Stage::Remove, Duration::ZERO)),
        Err(_) if !pod.status().phase().is_empty() && has_statuses(pod) => None,
        Err(message) => {
            let reason = "InvalidAnnotation".to_owned();
            Some((Stage::Wait { reason, message }, Duration::ZERO))
        }
    }
}

/// The annotations of a pod.
struct Script {
    start_delay: Duration,
    waiting_reason: String,
    ready_delay: Duration,
    run_for: Option<Duration>,
    exit_code: i32,
    stop_delay: Duration,
}

impl Script {
    fn parse(pod: &Pod) -> Result<Self, String> {
        let text = |name: &str| pod.metadata().annotations().get(&format!("{PREFIX}{name}"));
        let duration = |name: &str| match text(name) {
            None => Ok(None),
            Some(text) => {
                let wrong = || format!("{PREFIX}{name}: {text:?} is not a duration such as 1.5s");
                let nanos = object::Duration::parse_nanos(text).map_err(|_| wrong())?;
                u64::try_from(nanos).map(Duration::from_nanos).map(Some).map_err(|_| wrong())
            }
        };
        let exit_code = text("exit-code").map_or(Ok(0), |text| {
            let code = text.parse::<u8>().map(i32::from);
            code.map_err(|_| format!("{PREFIX}exit-code: {text:?} is not a number from 0 to 255"))
        })?;
        let of_job = pod.metadata().owner_references().iter().any(|owner| owner.kind() == "Job");
        Ok(Self {
            start_delay: duration("start-delay")?.unwrap_or_default(),
            waiting_reason: text("waiting-reason").unwrap_or_default().to_owned(),
            ready_delay: duration("ready-delay")?.unwrap_or_default(),
            run_for: duration("run-for")?.or(of_job.then_some(JOB)),
            exit_code,
            stop_delay: duration("stop-delay")?.unwrap_or_default(),
        })
    }

    fn next(self, pod: &Pod) -> Option<(Stage, Duration)> {
        if pod.metadata().is_terminating() {
            return Some((Stage::Remove, self.stop_delay));
        }
        match pod.status().phase() {
            "Succeeded" | "Failed" => None,
            "Running" if !is_ready(pod) => Some((Stage::Ready, self.ready_delay)),
            "Running" => {
                let (exit_code, restarts) = (self.exit_code, pod.spec().restart_policy());
                let again = restarts == "Always" || restarts == "OnFailure" && exit_code != 0;
                let stage =
                    if again { Stage::Restart { exit_code } } else { Stage::End { exit_code } };
                self.run_for.map(|after| (stage, after))
            }
            _ if self.waiting_reason.is_empty() => {
                Some((Stage::Start { ready: self.ready_delay.is_zero() }, self.start_delay))
            }
            _ if has_statuses(pod) => None,
            _ => {
                let wait = Stage::Wait { reason: self.waiting_reason, message: String::new() };
                Some((wait, self.start_delay))
            }
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    let ready = pod.status().conditions().find(|own| own.type_() == "Ready");
    ready.is_some_and(|condition| condition.status() == "True")
}

fn has_statuses(pod: &Pod) -> bool {
    pod.status().container_statuses().iter().next().is_some()
}

#[cfg(test)]
mod tests {
    use object::{View as _, yaml};

    use super::*;

    fn stage(text: &str) -> Option<(Stage, Duration)> {
        next(Pod::view(&yaml::from_yaml(text).unwrap_or_default()))
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn stages_follow_from_the_pod_and_its_annotations() {
        let annotated = |name: &str, value: &str, rest: &str| {
            stage(&format!(
                "{{metadata: {{annotations: {{'hollow.tiphys.dev/{name}': '{value}'}}}}, {rest}}}"
            ))
        };
        let start = |ready| Some((Stage::Start { ready }, seconds(0)));
        assert_eq!(stage("{metadata: {name: a}}"), start(true));
        assert_eq!(annotated("ready-delay", "2s", "status: {phase: Pending}"), start(false));
        let running = "status: {phase: Running}";
        assert_eq!(annotated("ready-delay", "2s", running), Some((Stage::Ready, seconds(2))));
        let ready = "status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}";
        assert_eq!(stage(&format!("{{{ready}}}")), None);
        let end = Stage::End { exit_code: 0 };
        let never = format!("spec: {{restartPolicy: Never}}, {ready}");
        assert_eq!(annotated("run-for", "3s", &never), Some((end.clone(), seconds(3))));
        let restart = Stage::Restart { exit_code: 0 };
        assert_eq!(annotated("run-for", "3s", ready), Some((restart, seconds(3))));
        let job = format!("{{metadata: {{ownerReferences: [{{kind: Job}}]}}, {never}}}");
        assert_eq!(stage(&job), Some((end, seconds(1))));
        assert_eq!(stage("{status: {phase: Failed}}"), None);
        let deleted =
            "{metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}, status: {phase: Failed}}";
        assert_eq!(stage(deleted), Some((Stage::Remove, seconds(0))));
        let wait = Stage::Wait { reason: "ImagePullBackOff".into(), message: String::new() };
        assert_eq!(annotated("waiting-reason", "ImagePullBackOff", ""), Some((wait, seconds(0))));
    }

    #[test]
    fn wrong_annotations_are_shown_in_the_status() {
        for (name, value) in [("run-for", "soon"), ("run-for", "-1s"), ("exit-code", "256")] {
            let text = format!("{{metadata: {{annotations: {{'{PREFIX}{name}': '{value}'}}}}}}");
            let Some((Stage::Wait { reason, message }, _)) = stage(&text) else {
                panic!("{name}={value} is accepted")
            };
            assert!(reason == "InvalidAnnotation" && message.contains(value), "{message}");
        }
    }
}
