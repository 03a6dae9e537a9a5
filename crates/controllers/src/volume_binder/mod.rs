//! PersistentVolume binder: binds claims to volumes, and releases volumes whose claim was deleted.
//!
//! ```text
//!  claim, unbound   a volume matches     ─► volume names claim ─► claim names volume ─► Bound
//!                   none matches         ─► the class's provisioner is requested to create one
//!                   WaitForFirstConsumer ─► the scheduler selects a volume or a node first
//!  volume           its claim is deleted ─► Released; kept, or deleted by its provisioner
//! ```
//!
//! `matching.rs` matches volumes to claims, `plan.rs` decides.

mod matching;
mod plan;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use api::{
    core::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::StorageClass,
};
use client::Error;
use object::{Clock, NamespacedName, WriteCause};
use runtime::{
    CachedApi, Context, Controller, EventRecorder, EventType, InvolvedObject, Reconcile, Requeue,
    WorkQueue,
};
use schema::Kind;

use self::plan::{
    Action, PlanInput, VolumeAction, bound_claim, bound_status, bound_volume, in_phase, plan_claim,
    unbound_volume, unreclaimable, volume_action,
};
use crate::{
    Config,
    protection::{CLAIM_INDEX, index_claims},
};

/// Resync interval of claims: volumes and provisioners appear without an event for the claim.
const RESYNC: Duration = Duration::from_secs(15);

pub(crate) fn start(cx: &Context, config: &Config) {
    let binder = Binder {
        claims: cx.cached_api(),
        volumes: cx.cached_api(),
        classes: cx.cached_api(),
        pods: cx.cached_api(),
        events: EventRecorder::start(cx, "persistentvolume-controller", ""),
        clock: config.clock.clone(),
    };
    index_claims(&binder.pods);
    let claims = Controller::new("persistentvolume-binder", cx, Claims(binder.clone()))
        .queue_named("claims")
        .watches::<PersistentVolume>(|volume| {
            let reference = volume.spec().claim_ref();
            reference.map(|it| NamespacedName::new(it.namespace(), it.name())).into_iter().collect()
        })
        .workers(1); // two claims must not choose the same volume
    let waiting = claims.queue();
    claims.resync_every(RESYNC).start();
    Controller::new("persistentvolume-binder", cx, Volumes { binder, waiting })
        .queue_named("volumes")
        .watches::<PersistentVolumeClaim>(|claim| {
            let name = claim.spec().volume_name();
            (!name.is_empty()).then(|| NamespacedName::new("", name)).into_iter().collect()
        })
        .start();
}

/// The API clients that both reconcilers share.
#[derive(Clone, Debug)]
struct Binder {
    claims: CachedApi<PersistentVolumeClaim>,
    volumes: CachedApi<PersistentVolume>,
    classes: CachedApi<StorageClass>,
    pods: CachedApi<Pod>,
    events: EventRecorder,
    clock: Arc<dyn Clock>,
}

/// Reconciler of PersistentVolumeClaims.
#[derive(Debug)]
struct Claims(Binder);

/// Reconciler of PersistentVolumes.
#[derive(Debug)]
struct Volumes {
    binder: Binder,
    /// The queue of claims to reconcile.
    waiting: Arc<WorkQueue>,
}

impl Reconcile for Claims {
    type Kind = PersistentVolumeClaim;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        claim: Option<PersistentVolumeClaim>,
    ) -> Result<Requeue, Error> {
        let Some(claim) = claim else { return Ok(Requeue::OnChange) };
        let binder = &self.0;
        let waiting: Vec<String> = binder
            .pods
            .by_index(CLAIM_INDEX, &key.to_string())
            .iter()
            .filter(|pod| !pod.is_scheduled() && !pod.is_finished())
            .map(|pod| pod.metadata().name().to_owned())
            .collect();
        let (volumes, classes) = (binder.volumes.all(), binder.classes.all());
        let scene =
            PlanInput { claim: &claim, volumes: &volumes, classes: &classes, waiting: &waiting };
        let because = claim.write_cause("a claim needs a volume");
        for act in plan_claim(scene) {
            binder.act(&claim, act, &because).await?;
        }
        Ok(Requeue::OnChange)
    }
}

impl Reconcile for Volumes {
    type Kind = PersistentVolume;

    async fn reconcile(
        &self,
        _: &NamespacedName,
        volume: Option<PersistentVolume>,
    ) -> Result<Requeue, Error> {
        let Some(volume) = volume else { return Ok(Requeue::OnChange) };
        let binder = &self.binder;
        let reference = volume.spec().claim_ref();
        let key = reference.map(|it| NamespacedName::new(it.namespace(), it.name()));
        let claim = match &key {
            Some(key) => binder.claim(key, &volume).await?,
            None => None,
        };
        let because = volume.write_cause("a volume follows its claim");
        match (volume_action(&volume, claim.as_ref()), claim) {
            (VolumeAction::Phase(phase), _) => {
                drop(binder.set_phase(volume, phase, "", &because).await?);
            }
            (VolumeAction::Released, _) => binder.release(volume, &because).await?,
            (VolumeAction::Unbind, _) => {
                let free = unbound_volume(&volume);
                let free = binder.volumes.with_cause(&because).update(free).await?;
                binder.set_phase(free, "Available", "", &because).await?;
            }
            (VolumeAction::Claim, _) => self.waiting.add(key.expect("it has a claim")),
            (VolumeAction::Mismatch, Some(claim)) => binder.tell_mismatch(&volume, &claim),
            (VolumeAction::Mismatch, None) => {}
        }
        Ok(Requeue::OnChange)
    }
}

impl Binder {
    async fn act(
        &self,
        claim: &PersistentVolumeClaim,
        act: Action,
        because: &WriteCause,
    ) -> Result<(), Error> {
        let claims = self.claims.with_cause(because);
        match act {
            Action::Bind(volume) => self.bind(claim, volume, because).await,
            Action::UpdateClaim(claim) => claims.update(claim).await.map(drop),
            Action::ClaimStatus(status) => {
                claims.update_status(claim.clone().with_status(status)).await.map(drop)
            }
            Action::RecordEvent(severity, reason, why) => {
                self.events.record(InvolvedObject::of(claim), severity, reason, why);
                Ok(())
            }
            Action::Fail(why) => Err(Error::Invalid(why)),
        }
    }

    /// Binds a claim to a volume, in at most four writes. Each can be repeated.
    async fn bind(
        &self,
        claim: &PersistentVolumeClaim,
        mut volume: PersistentVolume,
        because: &WriteCause,
    ) -> Result<(), Error> {
        if let Some(bound) = bound_volume(&volume, claim) {
            volume = self.volumes.with_cause(because).update(bound).await?;
        }
        volume = self.set_phase(volume, "Bound", "", because).await?;
        let mut claim = claim.clone();
        if let Some(bound) = bound_claim(&claim, &volume) {
            claim = self.claims.with_cause(because).update(bound).await?;
        }
        if let Some(status) = bound_status(&claim, &volume) {
            self.claims.with_cause(because).update_status(claim.with_status(status)).await?;
        }
        Ok(())
    }

    /// Sets the phase of a volume.
    async fn set_phase(
        &self,
        volume: PersistentVolume,
        phase: &str,
        why: &str,
        because: &WriteCause,
    ) -> Result<PersistentVolume, Error> {
        match in_phase(&volume, phase, why, self.clock.now()) {
            Some(new) => self.volumes.with_cause(because).update_status(new).await,
            None => Ok(volume),
        }
    }

    async fn release(&self, volume: PersistentVolume, because: &WriteCause) -> Result<(), Error> {
        let phase = volume.status().phase();
        let volume = match phase {
            "Released" | "Failed" => volume,
            _ => self.set_phase(volume, "Released", "", because).await?,
        };
        let failed = unreclaimable(&volume).filter(|_| volume.status().phase() != "Failed");
        if let Some((reason, why)) = failed {
            let volume = self.set_phase(volume, "Failed", &why, because).await?;
            self.events.warning(&volume, reason, why);
        }
        Ok(())
    }

    /// The claim that a volume names. Its absence is confirmed by the API server, because the
    /// volume is then released.
    async fn claim(
        &self,
        key: &NamespacedName,
        volume: &PersistentVolume,
    ) -> Result<Option<PersistentVolumeClaim>, Error> {
        let uid = volume.spec().claim_ref().map_or("", |reference| reference.uid());
        let known = self.claims.get(key).filter(|claim| claim.metadata().uid() == uid);
        if known.is_some() || matches!(volume.status().phase(), "Released" | "Failed") {
            return Ok(known);
        }
        match self.claims.api().get(key).await {
            Ok(claim) => Ok(Some(claim)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn tell_mismatch(&self, volume: &PersistentVolume, claim: &PersistentVolumeClaim) {
        let (own, other) = (volume.metadata().name(), claim.metadata().name());
        let why = format!(
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim {other:?} due to \
             incompatible volumeMode."
        );
        self.events.warning(volume, "VolumeMismatch", why);
        let why = format!(
            "Cannot bind PersistentVolume {own:?} to requested PersistentVolumeClaim due to \
             incompatible volumeMode."
        );
        self.events.record(InvolvedObject::of(claim), EventType::Warning, "VolumeMismatch", why);
    }
}
