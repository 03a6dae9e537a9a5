//! Protection controllers for PersistentVolumeClaims, PersistentVolumes and
//! VolumeAttributesClasses: a finalizer keeps each object until it is deleted and no longer in use.

use api::{
    core::{PersistentVolume, PersistentVolumeClaim, Pod, Volume},
    storage::VolumeAttributesClass,
};
use client::{Api, Error, ListParams, Selectors};
use object::{List, NamespacedName, Text};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};
use schema::Kind;

use crate::Config;

/// Name of the index of pods by the claims they use.
pub(crate) const CLAIM_INDEX: &str = "claims";

pub(crate) fn start_claims(cx: &Context, _: &Config) {
    let claims = Claims { claims: cx.cached_api(), pods: cx.cached_api() };
    index_claims(&claims.pods);
    Controller::new("pvc-protection", cx, claims)
        .queue_named("pvcprotection")
        .watches::<Pod>(|pod| claim_keys(pod).collect())
        .start();
}

pub(crate) fn start_volumes(cx: &Context, _: &Config) {
    let volumes = Volumes { volumes: cx.cached_api() };
    Controller::new("pv-protection", cx, volumes).queue_named("pvprotection").start();
}

pub(crate) fn start_classes(cx: &Context, _: &Config) {
    let classes =
        Classes { classes: cx.cached_api(), claims: cx.cached_api(), volumes: cx.cached_api() };
    Controller::new("vac-protection", cx, classes)
        .queue_named("vacprotection")
        .watches::<PersistentVolumeClaim>(|claim| class_names(claim).map(key).collect())
        .watches::<PersistentVolume>(|volume| {
            volume.spec().volume_attributes_class_name().map(key).into_iter().collect()
        })
        .start();
}

/// Adds the index of pods by the claims they use: `namespace/name`.
pub(crate) fn index_claims(pods: &CachedApi<Pod>) {
    pods.cache().add_index(CLAIM_INDEX, |pod| {
        claim_keys(pod).map(|key| Text::from(key.to_string())).collect()
    });
}

/// The claim of a pod's volume. The claim of a generic ephemeral volume is named after the pod and
/// the volume.
pub(crate) fn claim_of(pod: &Pod, volume: &Volume) -> Option<Text> {
    let source = volume.volume_source();
    if let Some(claim) = source.persistent_volume_claim() {
        return Some(claim.claim_name().into());
    }
    source.ephemeral()?;
    Some(format!("{}-{}", pod.metadata().name(), volume.name()).into())
}

fn claim_keys(pod: &Pod) -> impl Iterator<Item = NamespacedName> {
    let namespace = pod.metadata().namespace();
    let names = pod.spec().volumes().iter().filter_map(|volume| claim_of(pod, volume));
    names.map(|name| NamespacedName::new(namespace, &name))
}

fn key(name: &str) -> NamespacedName {
    NamespacedName::new("", name)
}

/// Reconciler of PersistentVolumeClaims.
#[derive(Debug)]
struct Claims {
    claims: CachedApi<PersistentVolumeClaim>,
    pods: CachedApi<Pod>,
}

impl Reconcile for Claims {
    type Kind = PersistentVolumeClaim;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        claim: Option<PersistentVolumeClaim>,
    ) -> Result<Requeue, Error> {
        let Some(claim) = claim else { return Ok(Requeue::OnChange) };
        let used = claim.is_terminating() && self.is_used(key, &claim).await?;
        protect(&self.claims, claim, "kubernetes.io/pvc-protection", used).await
    }
}

impl Claims {
    /// Whether a pod uses the claim, by the cache or else by the API server: a new pod may not be
    /// in the cache.
    async fn is_used(
        &self,
        key: &NamespacedName,
        claim: &PersistentVolumeClaim,
    ) -> Result<bool, Error> {
        let known = self.pods.by_index(CLAIM_INDEX, &key.to_string());
        if known.iter().any(|pod| uses(pod, claim)) {
            return Ok(true);
        }
        let pods: Api<Pod> = self.pods.api().namespaced(&key.namespace);
        let mut page = ListParams { limit: 500, ..ListParams::default() };
        loop {
            let list = pods.list(&Selectors::default(), &page).await?;
            if list.items.iter().any(|pod| uses(pod, claim)) {
                return Ok(true);
            }
            if list.continue_.is_empty() {
                return Ok(false);
            }
            page.continue_ = list.continue_;
        }
    }
}

/// Whether a scheduled pod uses the claim.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let name = claim.metadata().name();
    let owns = || {
        let owner = claim.metadata().controller_ref();
        owner.is_some_and(|owner| owner.uid() == pod.metadata().uid())
    };
    pod.is_scheduled()
        && pod.spec().volumes().iter().any(|volume| {
            let named = claim_of(pod, volume).as_deref() == Some(name);
            let lasting = volume.volume_source().persistent_volume_claim().is_some();
            named && (lasting || !pod.is_finished() && owns())
        })
}

/// Reconciler of PersistentVolumes.
#[derive(Debug)]
struct Volumes {
    volumes: CachedApi<PersistentVolume>,
}

impl Reconcile for Volumes {
    type Kind = PersistentVolume;

    async fn reconcile(
        &self,
        _: &NamespacedName,
        volume: Option<PersistentVolume>,
    ) -> Result<Requeue, Error> {
        let Some(volume) = volume else { return Ok(Requeue::OnChange) };
        let used = volume.status().phase() == "Bound";
        protect(&self.volumes, volume, "kubernetes.io/pv-protection", used).await
    }
}

/// Reconciler of VolumeAttributesClasses.
#[derive(Debug)]
struct Classes {
    classes: CachedApi<VolumeAttributesClass>,
    claims: CachedApi<PersistentVolumeClaim>,
    volumes: CachedApi<PersistentVolume>,
}

impl Reconcile for Classes {
    type Kind = VolumeAttributesClass;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        class: Option<VolumeAttributesClass>,
    ) -> Result<Requeue, Error> {
        let Some(class) = class else { return Ok(Requeue::OnChange) };
        let used = class.is_terminating()
            && (self.claims.all().iter().any(|it| class_names(it).any(|name| name == &*key.name))
                || self.volumes.all().iter().any(|volume| {
                    volume.spec().volume_attributes_class_name() == Some(&*key.name)
                }));
        protect(&self.classes, class, "kubernetes.io/vac-protection", used).await
    }
}

/// The VolumeAttributesClasses of a claim: requested, current and target.
fn class_names(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &str> {
    let status = claim.status();
    let target = status.modify_volume_status();
    let names = [
        claim.spec().volume_attributes_class_name(),
        status.current_volume_attributes_class_name(),
        target.map(api::core::ModifyVolumeStatus::target_volume_attributes_class_name),
    ];
    names.into_iter().flatten().filter(|name| !name.is_empty())
}

/// A kind whose metadata can be modified.
pub(crate) trait MetadataMut: Kind {
    fn meta_mut(&mut self) -> &mut object::ObjectMeta;
}

impl MetadataMut for PersistentVolumeClaim {
    fn meta_mut(&mut self) -> &mut object::ObjectMeta {
        self.metadata_mut()
    }
}

impl MetadataMut for PersistentVolume {
    fn meta_mut(&mut self) -> &mut object::ObjectMeta {
        self.metadata_mut()
    }
}

impl MetadataMut for VolumeAttributesClass {
    fn meta_mut(&mut self) -> &mut object::ObjectMeta {
        self.metadata_mut()
    }
}

/// Adds the finalizer, or removes it from a terminating object that is not in use.
async fn protect<K: MetadataMut>(
    objects: &CachedApi<K>,
    mut object: K,
    finalizer: &str,
    used: bool,
) -> Result<Requeue, Error> {
    let Some(wanted) = finalizers(&object, finalizer, used) else { return Ok(Requeue::OnChange) };
    let because = object.write_cause(if object.is_terminating() {
        "it is not used any more"
    } else {
        "it must not go while it is used"
    });
    object.meta_mut().set_finalizers(wanted);
    match objects.with_cause(&because).update(object).await {
        Err(error) if error.is_not_found() => {}
        done => drop(done?),
    }
    Ok(Requeue::OnChange)
}

/// The finalizers that the object should have; `None` if it has them.
fn finalizers<K: Kind>(object: &K, own: &str, used: bool) -> Option<List<String>> {
    let known = object.meta().finalizers();
    let has = known.iter().any(|one| one == own);
    match (object.is_terminating(), has) {
        (true, true) if !used => Some(known.iter().filter(|one| *one != own).collect()),
        (false, false) => Some(known.iter().chain([own]).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use object::{View, from_json};

    use super::*;

    #[test]
    fn finalizers_come_and_go() {
        let mut volume = PersistentVolume::new();
        let named = |volume: &PersistentVolume, used| {
            let list = finalizers(volume, "p", used);
            list.map(|list| list.iter().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(named(&volume, true), Some(vec!["p".to_owned()]));
        volume.metadata_mut().set_finalizers(["x", "p"]);
        assert_eq!(named(&volume, true), None);
        volume.metadata_mut().set_deletion_timestamp("2030-01-01T00:00:00Z");
        assert_eq!(
            (named(&volume, true), named(&volume, false)),
            (None, Some(vec!["x".to_owned()]))
        );
    }

    #[test]
    fn pods_on_nodes_use_claims() {
        let pod = |node: &str, volume: &str, phase: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"p","namespace":"n","uid":"u"}},"status":{{"phase":"{phase}"}},
                "spec":{{"nodeName":"{node}","volumes":[{{"name":"v",{volume}}}]}}}}"#
            );
            Pod::view(&from_json(text.as_bytes()).unwrap()).clone()
        };
        let claim = |name: &str, owner: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"n",
                "ownerReferences":[{{"uid":"{owner}","controller":true}}]}}}}"#
            );
            PersistentVolumeClaim::view(&from_json(text.as_bytes()).unwrap()).clone()
        };
        let lasting = r#""persistentVolumeClaim":{"claimName":"c"}"#;
        assert!(uses(&pod("a", lasting, "Failed"), &claim("c", "")));
        assert!(!uses(&pod("", lasting, "Pending"), &claim("c", "")));
        assert!(!uses(&pod("a", lasting, "Running"), &claim("d", "")));
        let own = r#""ephemeral":{}"#;
        assert!(uses(&pod("a", own, "Running"), &claim("p-v", "u")));
        assert!(!uses(&pod("a", own, "Running"), &claim("p-v", "other")));
        assert!(!uses(&pod("a", own, "Succeeded"), &claim("p-v", "u")));
    }
}
