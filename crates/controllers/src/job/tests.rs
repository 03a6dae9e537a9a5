use object::{View, from_json};

use super::*;

const NOW: i64 = 1_900_000_000;

/// A Job and its pods, on which reconciles are simulated.
struct World {
    job: Job,
    pods: Vec<Pod>,
    backoff: Backoff,
    now: i64,
    made: usize,
    said: Vec<String>,
}

impl World {
    fn new(spec: &str) -> Self {
        let text =
            format!(r#"{{"metadata":{{"name":"j","namespace":"n","uid":"j"}},"spec":{{{spec}}}}}"#);
        let mut job = Job::view(&from_json(text.as_bytes()).unwrap()).clone();
        job.default_fields();
        let pods = Vec::new();
        Self { job, pods, backoff: Backoff::default(), now: NOW, made: 0, said: Vec::new() }
    }

    /// Runs one reconcile; returns what was done.
    fn go(&mut self) -> String {
        self.said.clear();
        if self.job.is_finished() {
            return "over".into();
        }
        let (job, pods) = (self.job.clone(), self.pods.clone());
        let scene = JobInput { job: &job, pods: &pods, backoff: self.backoff, now: self.now };
        let sight = JobObservation::of(scene);
        let plan = plan(&sight);
        let mut done = ActionCounts::default();
        for step in plan.steps {
            self.act(step.action, &mut done);
        }
        let tracked = track(&sight, done);
        self.backoff = sight.backoff;
        self.job.set_status(tracked.status);
        let gone: HashSet<&str> = tracked.release.iter().map(|pod| pod.metadata().uid()).collect();
        for pod in &mut self.pods {
            if gone.contains(pod.metadata().uid()) {
                pod.metadata_mut().set_finalizers(object::List::<String>::default());
            }
        }
        self.pods.retain(|pod| !pod.is_terminating() || pod::is_tracked(pod));
        let held: HashSet<&str> = self
            .pods
            .iter()
            .filter(|pod| pod::is_tracked(pod))
            .map(|pod| pod.metadata().uid())
            .collect();
        count_released(self.job.status_mut(), &held);
        if let Some(end) = &tracked.end
            && finish(self.job.status_mut(), end, self.now)
        {
            self.said.push(end.reason.clone());
        }
        self.said.extend(tracked.event.map(|(reason, _)| reason.to_owned()));
        self.said.extend(plan.requeue_after.map(|left| format!("wait {left}")));
        self.said.join(" ")
    }

    fn act(&mut self, act: Action, done: &mut ActionCounts) {
        match act {
            Action::Create(mut pod) => {
                self.made += 1;
                done.created += 1;
                let at = pod::index(&pod, &self.job).map_or_else(String::new, |at| at.to_string());
                self.said.push(format!("+{at}"));
                pod.metadata_mut().set_uid(format!("p{}", self.made));
                self.pods.push(pod);
            }
            Action::Delete(pod) => {
                self.said.push("-".into());
                done.deleted += 1;
                self.of(&pod).metadata_mut().set_deletion_timestamp("2030-01-01T00:00:00Z");
            }
            Action::ReleaseAndDelete(pod) => {
                self.said.push("-".into());
                done.deleted += 1;
                self.pods.retain(|one| *one != pod);
            }
        }
    }

    fn of(&mut self, pod: &Pod) -> &mut Pod {
        self.pods.iter_mut().find(|one| **one == *pod).expect("it is there")
    }

    fn end(&mut self, uid: &str, code: i32) {
        let at = object::Time::format(self.now);
        let pod = self.pods.iter_mut().find(|pod| pod.metadata().uid() == uid).expect("there");
        let text = format!(
            r#"{{"phase":"{}","containerStatuses":[{{"name":"c","state":{{"terminated":
            {{"exitCode":{code},"finishedAt":"{at}"}}}}}}]}}"#,
            if code == 0 { "Succeeded" } else { "Failed" }
        );
        pod.set_status(api::core::PodStatus::from(from_json(text.as_bytes()).unwrap()));
    }

    fn counts(&self) -> (i32, i32, i32) {
        let status = self.job.status();
        (status.active(), status.succeeded(), status.failed())
    }
}

#[test]
fn pods_run_until_enough_have_succeeded() {
    let mut world = World::new(r#""parallelism":2,"completions":3"#);
    assert_eq!(world.go(), "+ +");
    world.end("p1", 0);
    world.end("p2", 0);
    assert_eq!(world.go(), "+");
    assert_eq!(world.counts(), (1, 2, 0));
    world.end("p3", 0);
    assert_eq!(world.go(), "CompletionsReached");
    assert!(world.job.has_condition("Complete") && world.job.has_condition("SuccessCriteriaMet"));
    assert_eq!((world.counts(), world.go()), ((0, 3, 0), "over".into()));
}

#[test]
fn failures_are_waited_for_and_limited() {
    let mut world = World::new(r#""backoffLimit":1"#);
    world.go();
    world.end("p1", 1);
    assert_eq!(world.go(), "wait 10");
    assert_eq!(world.counts(), (0, 0, 1));
    assert_eq!(world.go(), "wait 10", "it is counted once");
    world.now += 10;
    assert_eq!(world.go(), "+");
    world.end("p2", 1);
    assert_eq!(world.go(), "BackoffLimitExceeded");
    assert!(world.job.has_condition("Failed") && world.job.has_condition("FailureTarget"));
    assert_eq!(world.counts(), (0, 0, 2));
}

#[test]
fn a_deadline_ends_it() {
    let mut world = World::new(r#""activeDeadlineSeconds":60"#);
    assert_eq!(world.go(), "+ wait 60");
    world.now += 60;
    assert_eq!(world.go(), "-");
    assert!(!world.job.is_finished(), "a pod is still going");
    assert_eq!(world.go(), "DeadlineExceeded");
}

#[test]
fn a_suspended_job_has_no_pods() {
    let mut world = World::new(r#""parallelism":2,"completions":2"#);
    world.go();
    world.job.spec_mut().set_suspend(true);
    assert_eq!(world.go(), "- - Suspended");
    assert_eq!((world.go(), world.counts()), (String::new(), (0, 0, 0)));
    assert!(world.job.status().start_time().is_none());
    world.job.spec_mut().set_suspend(false);
    assert_eq!(world.go(), "+ + Resumed");
}

#[test]
fn each_index_has_its_pod() {
    let mut world = World::new(
        r#""completionMode":"Indexed","parallelism":2,"completions":4,
        "successPolicy":{"rules":[{"succeededIndexes":"0-2"}]}"#,
    );
    assert_eq!(world.go(), "+0 +1");
    world.end("p2", 0);
    assert_eq!(world.go(), "+2");
    world.end("p1", 0);
    assert_eq!(world.go(), "+3");
    assert_eq!(world.job.status().completed_indexes(), "0,1");
    world.end("p3", 0);
    assert_eq!(world.go(), "-");
    assert_eq!(world.go(), "SuccessPolicy");
    assert_eq!((world.job.status().completed_indexes(), world.counts()), ("0-2", (0, 3, 0)));
}

#[test]
fn an_index_is_given_up_alone() {
    let mut world = World::new(
        r#""completionMode":"Indexed","parallelism":2,"completions":2,"backoffLimitPerIndex":1"#,
    );
    assert_eq!(world.go(), "+0 +1");
    world.end("p1", 1);
    assert_eq!(world.go(), "wait 10");
    world.now += 10;
    assert_eq!(world.go(), "+0");
    world.end("p3", 1);
    assert_eq!(world.go(), "");
    assert_eq!(world.job.status().failed_indexes(), Some("0"));
    world.end("p2", 0);
    assert_eq!(world.go(), "FailedIndexes");
    assert_eq!(world.job.status().completed_indexes(), "1");
}

#[test]
fn rules_say_which_failures_count() {
    let mut world = World::new(
        r#""backoffLimit":0,"podFailurePolicy":{"rules":[
        {"action":"Ignore","onExitCodes":{"operator":"In","values":[1]}},
        {"action":"FailJob","onExitCodes":{"operator":"In","values":[2]}}]}"#,
    );
    world.go();
    world.end("p1", 1);
    assert_eq!((world.go(), world.counts()), ("wait 10".into(), (0, 0, 0)));
    world.now += 10;
    world.go();
    world.end("p2", 2);
    assert_eq!(world.go(), "PodFailurePolicy");
}

#[test]
fn a_pod_that_is_deleted_counts_as_failed_and_is_replaced() {
    let mut world = World::new(r#""completions":1"#);
    world.go();
    world.pods[0].metadata_mut().set_deletion_timestamp(object::Time::format(NOW - 60));
    assert_eq!((world.go(), world.counts()), ("+".into(), (1, 0, 1)));
    let mut patient = World::new(r#""completions":1,"podReplacementPolicy":"Failed""#);
    patient.go();
    patient.pods[0].metadata_mut().set_deletion_timestamp(object::Time::format(NOW - 60));
    assert_eq!((patient.go(), patient.counts()), (String::new(), (0, 0, 0)));
}
