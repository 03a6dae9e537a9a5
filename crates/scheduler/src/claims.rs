//! The PersistentVolumeClaims of a pod: bound ones, and those with delayed binding, which are
//! provisioned once a node is selected.

use std::sync::Arc;

use api::{
    core::{PersistentVolume, PersistentVolumeClaim, Pod, Volume},
    storage::StorageClass,
};
use client::{Error, Patch};
use object::{NamespacedName, Text, Value};
use runtime::{Cache, CachedApi, Context};
use schema::Kind;

/// Annotation that tells the provisioner for which node to provision the volume.
const SELECTED_NODE_ANNOTATION: &str = "volume.kubernetes.io/selected-node";
/// Provisioner of classes whose volumes are statically provisioned.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The claims of a pod, resolved for scheduling.
#[derive(Clone, Debug, Default)]
pub struct PodVolumeClaims {
    pub bound_volumes: Vec<PersistentVolume>,
    /// Unbound claims of classes with `WaitForFirstConsumer`.
    pub unbound_delayed: Vec<NamespacedName>,
    /// The node for which their volumes are being provisioned.
    pub selected_node: Option<Text>,
    /// Whether some class has no provisioner, so that its volume must be provisioned statically.
    pub no_provisioner: bool,
}

/// Resolves claims and requests their provisioning.
#[derive(Debug)]
pub(crate) struct VolumeBinder {
    objects: CachedApi<PersistentVolumeClaim>,
    volumes: Arc<Cache<PersistentVolume>>,
    classes: Arc<Cache<StorageClass>>,
}

impl VolumeBinder {
    pub(crate) fn new(cx: &Context) -> Self {
        Self { objects: cx.cached_api(), volumes: cx.cache(), classes: cx.cache() }
    }

    /// Calls `woken` on every change of claims, volumes or classes, which may make a pod
    /// schedulable.
    pub(crate) fn on_change(&self, woken: impl Fn() + Clone + Send + 'static) {
        let (a, b, c) = (woken.clone(), woken.clone(), woken);
        self.objects.cache().on_change(move |_, _| a());
        self.volumes.on_change(move |_, _| b());
        self.classes.on_change(move |_, _| c());
    }

    /// The claims of the pod, or why it cannot be scheduled on any node yet.
    pub(crate) fn pod_volume_claims(&self, pod: &Pod) -> Result<PodVolumeClaims, String> {
        let mut all = PodVolumeClaims::default();
        for volume in pod.spec().volumes().iter() {
            if let Some(claim) = self.find_claim(pod, volume)? {
                self.classify_claim(&claim, &mut all)?;
            }
        }
        Ok(all)
    }

    /// Sets the selected-node annotation on the claims, so that their volumes are provisioned for
    /// this node.
    pub(crate) async fn set_selected_node(
        &self,
        pod: &Pod,
        keys: &[NamespacedName],
        node: &str,
    ) -> Result<(), Error> {
        let claims = self.objects.with_cause(&pod.write_cause(&format!("fits best on {node}")));
        let mut body = Value::object();
        body["metadata"]["annotations"][SELECTED_NODE_ANNOTATION] = node.into();
        for key in keys {
            claims.patch(key, &Patch::Merge(body.clone())).await?;
        }
        Ok(())
    }

    fn find_claim(
        &self,
        pod: &Pod,
        volume: &Volume,
    ) -> Result<Option<PersistentVolumeClaim>, String> {
        let (meta, source) = (pod.metadata(), volume.volume_source());
        let ephemeral = source.ephemeral().is_some();
        let name = match source.persistent_volume_claim() {
            Some(claim) => claim.claim_name().to_owned(),
            None if ephemeral => format!("{}-{}", meta.name(), volume.name()),
            None => return Ok(None),
        };
        let Some(claim) = self.objects.get(&NamespacedName::new(meta.namespace(), &name)) else {
            let waits = "waiting for ephemeral volume controller to create the";
            return Err(if ephemeral {
                format!("{waits} persistentvolumeclaim {name:?}")
            } else {
                format!("persistentvolumeclaim {name:?} not found")
            });
        };
        let owner = claim.metadata().controller_ref().map(|owner| owner.uid().to_owned());
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

    fn classify_claim(
        &self,
        claim: &PersistentVolumeClaim,
        all: &mut PodVolumeClaims,
    ) -> Result<(), String> {
        let (meta, volume) = (claim.metadata(), claim.spec().volume_name());
        let bound = meta.annotations().get("pv.kubernetes.io/bind-completed").is_some();
        if !volume.is_empty() && bound {
            let found = self.volumes.get(&NamespacedName::new("", volume));
            let gone = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
            all.bound_volumes.push(found.ok_or(gone)?);
            return Ok(());
        }
        let class = self.classes.get(&NamespacedName::new("", claim.class()));
        let waits = |class: &StorageClass| class.volume_binding_mode() == "WaitForFirstConsumer";
        let Some(class) = class.filter(waits).filter(|_| volume.is_empty()) else {
            return Err("pod has unbound immediate PersistentVolumeClaims".into());
        };
        all.no_provisioner |= class.provisioner() == NO_PROVISIONER;
        all.unbound_delayed.push(NamespacedName::from_meta(meta));
        all.selected_node = meta
            .annotations()
            .get(SELECTED_NODE_ANNOTATION)
            .map(Text::from)
            .or(all.selected_node.take());
        Ok(())
    }
}
