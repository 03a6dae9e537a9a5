//! Lets go of pods that no Job will ever count: theirs is gone, or they have none.

use api::{batch::Job, core::Pod};
use client::Error;
use object::Key;
use runtime::{Context, Controller, Next, Objects, Reconcile};
use schema::Kind;

use super::pod::{is_tracked, release};

pub(super) fn start(cx: &Context) {
    let orphans = Orphans { jobs: cx.objects(), pods: cx.objects() };
    let pods = orphans.pods.clone();
    Controller::new("job-orphans", cx, orphans)
        .watches::<Job>(move |job| {
            pods.owned_by(job).iter().map(|pod| Key::of(pod.metadata())).collect()
        })
        .start();
}

#[derive(Debug)]
struct Orphans {
    jobs: Objects<Job>,
    pods: Objects<Pod>,
}

impl Reconcile for Orphans {
    type Kind = Pod;

    async fn reconcile(&self, key: &Key, pod: Option<Pod>) -> Result<Next, Error> {
        let Some(pod) = pod.filter(is_tracked) else { return Ok(Next::OnChange) };
        let owner = pod.metadata().controller();
        let job = owner.filter(|owner| owner.kind() == "Job").and_then(|owner| {
            let job = self.jobs.get(&Key::new(&key.namespace, owner.name()));
            job.filter(|job| job.metadata().uid() == owner.uid())
        });
        if job.is_none() && !self.is_there(&pod).await? {
            let pods = self.pods.because(&pod.causes("no job will count the pod"));
            match pods.patch(key, &release()).await {
                Err(error) if error.is_not_found() => {}
                done => drop(done?),
            }
        }
        Ok(Next::OnChange)
    }
}

impl Orphans {
    /// The pod may be known before its Job is: the server knows better.
    async fn is_there(&self, pod: &Pod) -> Result<bool, Error> {
        let Some(owner) = pod.metadata().controller().filter(|owner| owner.kind() == "Job") else {
            return Ok(false);
        };
        match self.jobs.api().get(&Key::new(pod.metadata().namespace(), owner.name())).await {
            Ok(job) => Ok(job.metadata().uid() == owner.uid()),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}
