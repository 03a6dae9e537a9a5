//! Ephemeral volume controller: creates the PersistentVolumeClaims of generic ephemeral volumes.

use std::sync::Arc;

use api::core::{PersistentVolumeClaim, Pod, Volume};
use client::Error;
use object::{NamespacedName, ObjectMeta};
use runtime::{
    CachedApi, Context, Controller, EventRecorder, Reconcile, Requeue,
    metrics::{Counter, Family},
};
use schema::Kind;

use crate::{Config, protection::claim_of};

const CREATIONS: Family = Family::counter(
    "ephemeral_volume_controller_create_total",
    "[ALPHA] Number of PersistentVolumeClaim creation requests",
    &[],
);
const FAILED_CREATIONS: Family = Family::counter(
    "ephemeral_volume_controller_create_failures_total",
    "[ALPHA] Number of PersistentVolumeClaim creation requests",
    &[],
);

pub(crate) fn start(cx: &Context, _: &Config) {
    let volumes = Ephemeral {
        claims: cx.cached_api(),
        creations: cx.metrics().counter(&CREATIONS, &[]),
        failures: cx.metrics().counter(&FAILED_CREATIONS, &[]),
        events: EventRecorder::start(cx, "ephemeral_volume", ""),
    };
    Controller::new("ephemeral-volume", cx, volumes)
        .queue_named("ephemeral_volume")
        .owns::<PersistentVolumeClaim>()
        .start();
}

/// Reconciler of pods with generic ephemeral volumes.
#[derive(Debug)]
struct Ephemeral {
    claims: CachedApi<PersistentVolumeClaim>,
    creations: Arc<Counter>,
    failures: Arc<Counter>,
    events: EventRecorder,
}

impl Reconcile for Ephemeral {
    type Kind = Pod;

    async fn reconcile(&self, _: &NamespacedName, pod: Option<Pod>) -> Result<Requeue, Error> {
        let Some(pod) = pod.filter(|pod| !pod.is_terminating()) else {
            return Ok(Requeue::OnChange);
        };
        for volume in pod.spec().volumes().iter() {
            if let Err(error) = self.provide(&pod, volume).await {
                let message = format!("ephemeral volume {}: {error}", volume.name());
                self.events.warning(&pod, "FailedBinding", message);
                return Err(error);
            }
        }
        Ok(Requeue::OnChange)
    }
}

impl Ephemeral {
    async fn provide(&self, pod: &Pod, volume: &Volume) -> Result<(), Error> {
        let Some(claim) = new_claim(pod, volume) else { return Ok(()) };
        let key = NamespacedName::from_meta(claim.metadata());
        if let Some(known) = self.claims.get(&key) {
            let owner = known.metadata().controller_ref();
            if owner.is_some_and(|owner| owner.uid() == pod.metadata().uid()) {
                return Ok(());
            }
            return Err(Error::Invalid(format!(
                "PVC {key} was not created for pod {} (pod is not owner)",
                NamespacedName::from_meta(pod.metadata())
            )));
        }
        let because = pod.write_cause("a volume of the pod has no claim");
        let made = self.claims.with_cause(&because).create(claim).await;
        self.creations.add(1);
        self.failures.add(made.is_err().into());
        match made {
            Err(error) if error.is_namespace_terminating() => Ok(()),
            made => made.map(drop),
        }
    }
}

/// The claim of a generic ephemeral volume; `None` for other volumes.
fn new_claim(pod: &Pod, volume: &Volume) -> Option<PersistentVolumeClaim> {
    let template = volume.volume_source().ephemeral()?.volume_claim_template()?;
    let metadata = ObjectMeta::new()
        .with_name(claim_of(pod, volume)?)
        .with_namespace(pod.metadata().namespace())
        .with_labels(template.metadata().labels().clone())
        .with_annotations(template.metadata().annotations().clone())
        .with_owner_references([pod.controller_ref()]);
    Some(PersistentVolumeClaim::new().with_metadata(metadata).with_spec(template.spec().clone()))
}

#[test]
fn only_such_volumes_have_a_claim_of_their_own() {
    let text = r#"{"metadata":{"name":"p","namespace":"n","uid":"u"},"spec":{"volumes":[
        {"name":"a","emptyDir":{}},{"name":"b","ephemeral":{"volumeClaimTemplate":
        {"metadata":{"labels":{"x":"y"}},"spec":{"storageClassName":"gold"}}}}]}}"#;
    let pod = Pod::from(object::from_json(text.as_bytes()).unwrap());
    let claims: Vec<_> =
        pod.spec().volumes().iter().filter_map(|volume| new_claim(&pod, volume)).collect();
    let [claim] = &*claims else { panic!("one") };
    assert_eq!((claim.metadata().name(), claim.class()), ("p-b", "gold"));
    assert_eq!(claim.metadata().controller_ref().map(object::OwnerReference::uid), Some("u"));
}
