use api::{
    batch::{CronJob, Job},
    core::Pod,
};
use object::{NamespacedName, Time};

use crate::World;

const TEMPLATE: &str = r#""template":{"spec":{"restartPolicy":"Never",
    "containers":[{"name":"c","image":"i"}]}}"#;

fn job(name: &str, spec: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{{spec}{TEMPLATE}}}}}"#)
}

fn active(pods: &[Pod]) -> usize {
    pods.iter().filter(|pod| pod.is_active()).count()
}

#[tokio::test]
async fn a_job_counts_its_pods_and_ends() {
    let world = World::start(&["job", "ttl-after-finished"]).await;
    let spec = r#""completions":3,"parallelism":2,"completionMode":"Indexed",
        "ttlSecondsAfterFinished":1,"#;
    world.make::<Job>(&job("j", spec)).await;
    let pods = world.until_all::<Pod>("two pods", |pods| active(pods) == 2).await;
    for pod in &pods {
        world.phase(pod, "Succeeded", false).await;
    }
    let is_last = |pod: &Pod| {
        pod.is_active()
            && pod.metadata().annotations().get("batch.kubernetes.io/job-completion-index")
                == Some("2")
    };
    let pods = world
        .until_all::<Pod>("the third", |pods| active(pods) == 1 && pods.iter().any(is_last))
        .await;
    let last = pods.iter().find(|pod| is_last(pod)).expect("it was found");
    let known = |job: &Job| job.status().completed_indexes() == "0,1" && job.status().active() == 1;
    world.until_one::<Job>("j", "two counted", known).await;
    world.phase(last, "Succeeded", false).await;
    world.until_event("j", "Completed").await;
    world
        .until_all::<Job>("its time is over", |jobs| {
            jobs.is_empty() || jobs.iter().all(|job| job.metadata().is_terminating())
        })
        .await;
    let held = |pod: &Pod| !pod.metadata().finalizers().is_empty();
    assert!(!world.all::<Pod>().await.iter().any(held), "nothing is held any more");
    world.stop().await;
}

#[tokio::test]
async fn a_failing_job_ends_and_a_deleted_one_lets_go() {
    let world = World::start(&["job-controller"]).await;
    world.make::<Job>(&job("bad", r#""backoffLimit":0,"#)).await;
    let pods = world.until_all::<Pod>("a pod", |pods| active(pods) == 1).await;
    world.phase(&pods[0], "Failed", false).await;
    let failed = |job: &Job| job.has_condition("Failed") && job.status().failed() == 1;
    world.until_one::<Job>("bad", "failed", failed).await;
    world.until_event("bad", "BackoffLimitExceeded").await;

    world.make::<Job>(&job("gone", "")).await;
    world.until_all::<Pod>("a pod", |pods| active(pods) == 1).await;
    world.delete::<Job>("gone").await;
    let free = |pods: &[Pod]| pods.iter().all(|pod| pod.metadata().finalizers().is_empty());
    world.until_all::<Pod>("no pod is held", free).await;
    world.stop().await;
}

#[tokio::test]
async fn a_cron_job_starts_jobs() {
    let world = World::start(&["cronjob", "job"]).await;
    let text = format!(
        r#"{{"metadata":{{"name":"c"}},"spec":{{"schedule":"@every 1s","concurrencyPolicy":"Forbid",
        "jobTemplate":{{"spec":{{{TEMPLATE}}}}}}}}}"#
    );
    world.make::<CronJob>(&text).await;
    let jobs = world.until_all::<Job>("a job", |jobs| jobs.len() == 1).await;
    let at =
        jobs[0].metadata().annotations().get("batch.kubernetes.io/cronjob-scheduled-timestamp");
    assert!(at.and_then(Time::parse_seconds).is_some());
    let noted = |cron: &CronJob| cron.status().active().len() == 1;
    let cron = world.until_one::<CronJob>("c", "it is noted", noted).await;
    assert!(cron.status().last_schedule_time().is_some());
    world.until_event("c", "JobAlreadyActive").await;
    let pods = world.until_all::<Pod>("a pod", |pods| active(pods) == 1).await;
    world.phase(&pods[0], "Succeeded", false).await;
    world.until_event("c", "SawCompletedJob").await;
    let key = NamespacedName::new("default", jobs[0].metadata().name());
    assert!(world.api::<Job>().get(&key).await.expect("kept").has_condition("Complete"));
    world.stop().await;
}
