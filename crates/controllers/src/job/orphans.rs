//! Removes the tracking finalizer from pods that no Job will count: they have no Job, or it was
//! deleted.

use api::{batch::Job, core::Pod};
use client::Error;
use object::NamespacedName;
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};
use schema::Kind;

use super::pod::{is_tracked, release};

pub(super) fn start(cx: &Context) {
    let orphans = Orphans { jobs: cx.cached_api(), pods: cx.cached_api() };
    let pods = orphans.pods.clone();
    Controller::new("job-orphans", cx, orphans)
        .queue_named("job_orphan_pod")
        .watches::<Job>(move |job| {
            pods.owned_by(job).iter().map(|pod| NamespacedName::from_meta(pod.metadata())).collect()
        })
        .start();
}

/// Reconciler of orphaned pods of Jobs.
#[derive(Debug)]
struct Orphans {
    jobs: CachedApi<Job>,
    pods: CachedApi<Pod>,
}

impl Reconcile for Orphans {
    type Kind = Pod;

    async fn reconcile(&self, key: &NamespacedName, pod: Option<Pod>) -> Result<Requeue, Error> {
        let Some(pod) = pod.filter(is_tracked) else { return Ok(Requeue::OnChange) };
        let owner = pod.metadata().controller_ref();
        let job = owner.filter(|owner| owner.kind() == "Job").and_then(|owner| {
            let job = self.jobs.get(&NamespacedName::new(&key.namespace, owner.name()));
            job.filter(|job| job.metadata().uid() == owner.uid())
        });
        if job.is_none() && !self.is_there(&pod).await? {
            let pods = self.pods.with_cause(&pod.write_cause("no job will count the pod"));
            match pods.patch(key, &release()).await {
                Err(error) if error.is_not_found() => {}
                done => drop(done?),
            }
        }
        Ok(Requeue::OnChange)
    }
}

impl Orphans {
    /// Whether the pod's Job exists on the API server: the cache may have the pod before the Job.
    async fn is_there(&self, pod: &Pod) -> Result<bool, Error> {
        let Some(owner) = pod.metadata().controller_ref().filter(|owner| owner.kind() == "Job")
        else {
            return Ok(false);
        };
        match self
            .jobs
            .api()
            .get(&NamespacedName::new(pod.metadata().namespace(), owner.name()))
            .await
        {
            Ok(job) => Ok(job.metadata().uid() == owner.uid()),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}
