//! The volumes that a pod claims: those it has already, and those that will be made
//! once its node is known.

use std::sync::Arc;

use api::{
    core::{PersistentVolume, PersistentVolumeClaim, Pod, Volume},
    storage::StorageClass,
};
use client::{Error, Patch};
use object::{Key, Text, Value};
use runtime::{Cache, Context, Objects};
use schema::Kind;

/// Tells who makes the volume for which node it is to be.
const SELECTED: &str = "volume.kubernetes.io/selected-node";
/// Of classes whose volumes are made by hand.
const BY_HAND: &str = "kubernetes.io/no-provisioner";

#[derive(Clone, Debug, Default)]
pub struct Claimed {
    pub bound: Vec<PersistentVolume>,
    /// Claims whose volumes are still to be made.
    pub unmade: Vec<Key>,
    /// The node for which they are being made.
    pub selected: Option<Text>,
    /// Whether nobody makes them.
    pub by_hand: bool,
}

#[derive(Debug)]
pub(crate) struct Claims {
    objects: Objects<PersistentVolumeClaim>,
    volumes: Arc<Cache<PersistentVolume>>,
    classes: Arc<Cache<StorageClass>>,
}

impl Claims {
    pub(crate) fn new(cx: &Context) -> Self {
        Self { objects: cx.objects(), volumes: cx.cache(), classes: cx.cache() }
    }

    /// Calls `woken` at every change that may help a pod.
    pub(crate) fn on_change(&self, woken: impl Fn() + Clone + Send + 'static) {
        let (a, b, c) = (woken.clone(), woken.clone(), woken);
        self.objects.cache().on_change(move |_, _| a());
        self.volumes.on_change(move |_, _| b());
        self.classes.on_change(move |_, _| c());
    }

    /// What the pod claims, or why it cannot run anywhere yet.
    pub(crate) fn of(&self, pod: &Pod) -> Result<Claimed, String> {
        let mut all = Claimed::default();
        for volume in pod.spec().volumes().iter() {
            if let Some(claim) = self.find(pod, volume)? {
                self.add(&claim, &mut all)?;
            }
        }
        Ok(all)
    }

    /// Asks for the volumes to be made for this node.
    pub(crate) async fn select(&self, pod: &Pod, keys: &[Key], node: &str) -> Result<(), Error> {
        let claims = self.objects.because(&pod.causes(&format!("fits best on {node}")));
        let mut body = Value::object();
        body["metadata"]["annotations"][SELECTED] = node.into();
        for key in keys {
            claims.patch(key, &Patch::Merge(body.clone())).await?;
        }
        Ok(())
    }

    fn find(&self, pod: &Pod, volume: &Volume) -> Result<Option<PersistentVolumeClaim>, String> {
        let (meta, source) = (pod.metadata(), volume.volume_source());
        let ephemeral = source.ephemeral().is_some();
        let name = match source.persistent_volume_claim() {
            Some(claim) => claim.claim_name().to_owned(),
            None if ephemeral => format!("{}-{}", meta.name(), volume.name()),
            None => return Ok(None),
        };
        let Some(claim) = self.objects.get(&Key::new(meta.namespace(), &name)) else {
            let waits = "waiting for ephemeral volume controller to create the";
            return Err(if ephemeral {
                format!("{waits} persistentvolumeclaim {name:?}")
            } else {
                format!("persistentvolumeclaim {name:?} not found")
            });
        };
        let owner = claim.metadata().controller().map(|owner| owner.uid().to_owned());
        if claim.status().phase() == "Lost" {
            let volume = claim.spec().volume_name();
            let lost = "bound to non-existent persistentvolume";
            return Err(format!("persistentvolumeclaim {name:?} {lost} {volume:?}"));
        } else if claim.metadata().is_terminating() {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        } else if ephemeral && owner.as_deref() != Some(meta.uid()) {
            let (space, pod) = (meta.namespace(), meta.name());
            let not = format!("was not created for pod {space}/{pod} (pod is not owner)");
            return Err(format!("PVC {space}/{name} {not}"));
        }
        Ok(Some(claim))
    }

    fn add(&self, claim: &PersistentVolumeClaim, all: &mut Claimed) -> Result<(), String> {
        let (meta, volume) = (claim.metadata(), claim.spec().volume_name());
        let bound = meta.annotations().get("pv.kubernetes.io/bind-completed").is_some();
        if !volume.is_empty() && bound {
            let found = self.volumes.get(&Key::new("", volume));
            let gone = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
            all.bound.push(found.ok_or(gone)?);
            return Ok(());
        }
        let class = self.classes.get(&Key::new("", claim.class()));
        let waits = |class: &StorageClass| class.volume_binding_mode() == "WaitForFirstConsumer";
        let Some(class) = class.filter(waits).filter(|_| volume.is_empty()) else {
            return Err("pod has unbound immediate PersistentVolumeClaims".into());
        };
        all.by_hand |= class.provisioner() == BY_HAND;
        all.unmade.push(Key::of(meta));
        all.selected = meta.annotations().get(SELECTED).map(Text::from).or(all.selected.take());
        Ok(())
    }
}
