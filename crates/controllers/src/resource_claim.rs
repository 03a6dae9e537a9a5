//! ResourceClaim controller: creates claims from templates for pods, reserves claims for pods that
//! were not bound by the scheduler, and releases claims that no pod uses.

mod metrics;

use std::collections::BTreeMap;

use api::{
    core::{Pod, PodResourceClaim},
    resource::{ResourceClaim, ResourceClaimTemplate},
};
use client::{DeleteParams, Error, Patch};
use object::{NamespacedName, ObjectMeta, Text, Value};
use runtime::{
    CachedApi, Context, Controller, EventRecorder, Reconcile, Requeue, metrics::Metrics,
};
use schema::Kind;

use crate::Config;

/// Annotation with the name of the pod's claim that a ResourceClaim was created for.
const ANNOTATION: &str = "resource.kubernetes.io/pod-claim-name";
/// Finalizer of allocated claims.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
const MANAGER: &str = "ResourceClaimController";
/// Maximum length of `generateName`; the API server appends five characters.
const LONGEST_BASE: usize = 57;
/// Maximum number of consumers of a claim.
const RESERVED_FOR_MAX_SIZE: usize = 256;
/// Index of pods by the templates that they name.
const TEMPLATES: &str = "claim templates";
/// Index of pods by the claims that they use.
const USED: &str = "resource claims";

pub(crate) fn start(cx: &Context, _: &Config) {
    let pods: CachedApi<Pod> = cx.cached_api();
    pods.cache()
        .add_index(TEMPLATES, |pod| named(pod, |claim| claim.resource_claim_template_name()));
    pods.cache().add_index(USED, |pod| {
        let all = pod.spec().resource_claims().iter();
        let names = all.filter_map(|claim| claim_name(pod, claim));
        names.map(|name| format!("{}/{name}", pod.metadata().namespace()).into()).collect()
    });
    let by = |index: &'static str| {
        let cache = pods.cache().clone();
        move |key: NamespacedName| -> Vec<NamespacedName> {
            let found = cache.by_index(index, &key.to_string());
            found.iter().map(|pod| NamespacedName::from_meta(pod.metadata())).collect()
        }
    };
    let (of_template, of_claim) = (by(TEMPLATES), by(USED));
    let wanting = PodClaims {
        pods: pods.clone(),
        claims: cx.cached_api(),
        templates: cx.cached_api(),
        events: EventRecorder::start(cx, "resource_claim", ""),
        metrics: cx.metrics().clone(),
    };
    metrics::report_claims(cx.metrics(), wanting.claims.cache());
    Controller::new("resource-claim-pods", cx, wanting)
        .queue_named("resource_claim_pods")
        .watches::<ResourceClaimTemplate>(move |template| {
            of_template(NamespacedName::from_meta(template.metadata()))
        })
        .watches::<ResourceClaim>(move |claim| {
            of_claim(NamespacedName::from_meta(claim.metadata()))
        })
        .start();
    let releasing = ClaimRelease { pods, claims: cx.cached_api() };
    Controller::new("resource-claim", cx, releasing)
        .queue_named("resource_claim")
        .watches::<Pod>(|pod| {
            let all = pod.spec().resource_claims().iter();
            let names = all.filter_map(|claim| claim_name(pod, claim));
            names.map(|name| NamespacedName::new(pod.metadata().namespace(), &name)).collect()
        })
        .start();
}

fn named<'a>(pod: &'a Pod, name: impl Fn(&'a PodResourceClaim) -> Option<&'a str>) -> Vec<Text> {
    let all = pod.spec().resource_claims().iter().filter_map(name);
    all.map(|name| format!("{}/{name}", pod.metadata().namespace()).into()).collect()
}

/// The name of the ResourceClaim of a pod's claim; `None`: it is not created yet, or not needed.
fn claim_name(pod: &Pod, claim: &PodResourceClaim) -> Option<String> {
    if let Some(name) = claim.resource_claim_name() {
        return Some(name.to_owned());
    }
    let made = pod.status().resource_claim_statuses().find(|own| own.name() == claim.name())?;
    made.resource_claim_name().map(str::to_owned)
}

/// Whether a pod neither uses its claims nor ever will.
fn is_done(pod: &Pod) -> bool {
    pod.is_finished() || (pod.is_terminating() && pod.spec().node_name().is_empty())
}

/// Reconciler of pods with claims.
#[derive(Debug)]
struct PodClaims {
    pods: CachedApi<Pod>,
    claims: CachedApi<ResourceClaim>,
    templates: CachedApi<ResourceClaimTemplate>,
    events: EventRecorder,
    metrics: Metrics,
}

impl Reconcile for PodClaims {
    type Kind = Pod;

    async fn reconcile(&self, key: &NamespacedName, pod: Option<Pod>) -> Result<Requeue, Error> {
        let Some(pod) = pod.filter(|pod| !pod.is_terminating() && !pod.is_finished()) else {
            return Ok(Requeue::OnChange);
        };
        let mut made = BTreeMap::new();
        for claim in pod.spec().resource_claims().iter() {
            match self.create_from_template(&pod, claim).await {
                Ok(Some(name)) => drop(made.insert(claim.name().to_owned(), name)),
                Ok(None) => {}
                Err(error) => {
                    let message = format!("PodResourceClaim {}: {error}", claim.name());
                    self.events.warning(&pod, "FailedResourceClaimCreation", message);
                    return Err(error);
                }
            }
        }
        if !made.is_empty() {
            let status = Patch::Apply {
                object: statuses(&pod, made),
                manager: MANAGER.to_owned(),
                force: true,
            };
            let because = pod.write_cause("claims were made for the pod");
            self.pods.with_cause(&because).patch_status(key, &status).await?;
            return Ok(Requeue::OnChange);
        }
        if !pod.spec().node_name().is_empty() {
            self.reserve(&pod).await?;
        }
        Ok(Requeue::OnChange)
    }
}

impl PodClaims {
    /// Creates a claim from its template, unless it exists. Returns its name if the pod's status
    /// lacks it.
    async fn create_from_template(
        &self,
        pod: &Pod,
        wanted: &PodResourceClaim,
    ) -> Result<Option<String>, Error> {
        let Some(template) = wanted.resource_claim_template_name() else { return Ok(None) };
        let namespace = pod.metadata().namespace();
        let noted = pod.status().resource_claim_statuses().find(|own| own.name() == wanted.name());
        if let Some(noted) = noted {
            let Some(name) = noted.resource_claim_name() else { return Ok(None) };
            let own = self.claims.get(&NamespacedName::new(namespace, name));
            if own.is_some_and(|claim| is_of(&claim, pod)) {
                return Ok(None);
            }
        }
        let made_for = |claim: &ResourceClaim| {
            is_of(claim, pod)
                && claim.metadata().annotations().get(ANNOTATION) == Some(wanted.name())
        };
        if let Some(orphan) = self.claims.in_namespace(namespace).into_iter().find(made_for) {
            return Ok(Some(orphan.metadata().name().to_owned()));
        }
        let found = self.templates.get(&NamespacedName::new(namespace, template));
        let found = found.ok_or_else(|| {
            Error::Invalid(format!(
                "resource claim template {template:?}: resourceclaimtemplate.resource.k8s.io {template:?} not found"
            ))
        })?;
        let because = pod.write_cause("a claim of the pod is made by a template");
        let claim = new_claim(pod, wanted, &found);
        let made = self.claims.with_cause(&because).create(claim.clone()).await;
        metrics::created(&self.metrics, &claim, made.is_ok());
        Ok(Some(made?.metadata().name().to_owned()))
    }

    /// Reserves the pod's allocated claims for it, as the scheduler does for pods that it binds.
    async fn reserve(&self, pod: &Pod) -> Result<(), Error> {
        for wanted in pod.spec().resource_claims().iter() {
            let Some(name) = claim_name(pod, wanted) else { continue };
            let key = NamespacedName::new(pod.metadata().namespace(), &name);
            let Some(mut claim) = self.claims.get(&key) else { return Ok(()) };
            let users = claim.status().reserved_for();
            let has = users.iter().any(|user| user.uid() == pod.metadata().uid());
            if claim.status().allocation().is_none()
                || has
                || users.iter().count() >= RESERVED_FOR_MAX_SIZE
            {
                continue;
            }
            let mut all: Vec<Value> = list(&claim);
            let mut user = Value::object();
            user["resource"] = "pods".into();
            user["name"] = pod.metadata().name().into();
            user["uid"] = pod.metadata().uid().into();
            all.push(user);
            set_users(&mut claim, all);
            let because = pod.write_cause("the pod was not bound by the scheduler");
            self.claims.with_cause(&because).update_status(claim).await?;
        }
        Ok(())
    }
}

fn is_of(claim: &ResourceClaim, pod: &Pod) -> bool {
    let owner = claim.metadata().controller_ref();
    owner.is_some_and(|owner| owner.uid() == pod.metadata().uid())
}

fn new_claim(
    pod: &Pod,
    wanted: &PodResourceClaim,
    template: &ResourceClaimTemplate,
) -> ResourceClaim {
    let (name, claim) = (pod.metadata().name(), wanted.name());
    let mut base = format!("{name}-{claim}-");
    if base.len() > LONGEST_BASE {
        // Both names are shortened proportionally, so that a part of each remains.
        let part = |text: &str| text[..text.len() * LONGEST_BASE / base.len()].to_owned();
        base = format!("{}-{}-", part(name), part(claim));
    }
    let spec = template.spec();
    let mut metadata = ObjectMeta::new()
        .with_generate_name(base)
        .with_namespace(pod.metadata().namespace())
        .with_labels(spec.metadata().labels().clone())
        .with_annotations(spec.metadata().annotations().clone())
        .with_owner_references([pod.controller_ref()]);
    metadata.annotations_mut().insert(ANNOTATION, claim);
    ResourceClaim::new().with_metadata(metadata).with_spec(spec.spec().clone())
}

/// The pod with the statuses of all its claims, known and new, for server-side apply.
fn statuses(pod: &Pod, made: BTreeMap<String, String>) -> Value {
    let known = pod.status().resource_claim_statuses().iter();
    let mut all: BTreeMap<String, String> = known
        .filter_map(|own| Some((own.name().to_owned(), own.resource_claim_name()?.to_owned())))
        .collect();
    all.extend(made);
    let each = all.into_iter().map(|(name, claim)| {
        let mut status = Value::object();
        status["name"] = name.into();
        status["resourceClaimName"] = claim.into();
        status
    });
    let mut object = Value::object();
    object["apiVersion"] = "v1".into();
    object["kind"] = "Pod".into();
    object["metadata"]["name"] = pod.metadata().name().into();
    object["metadata"]["namespace"] = pod.metadata().namespace().into();
    object["status"]["resourceClaimStatuses"] = each.collect();
    object
}

/// Reconciler of ResourceClaims: releases those that are not in use.
#[derive(Debug)]
struct ClaimRelease {
    pods: CachedApi<Pod>,
    claims: CachedApi<ResourceClaim>,
}

impl Reconcile for ClaimRelease {
    type Kind = ResourceClaim;

    async fn reconcile(
        &self,
        _: &NamespacedName,
        claim: Option<ResourceClaim>,
    ) -> Result<Requeue, Error> {
        let Some(mut claim) = claim else { return Ok(Requeue::OnChange) };
        let users = list(&claim);
        let mut valid = Vec::new();
        for user in &users {
            if self.uses(&claim, user).await? {
                valid.push(user.clone());
            }
        }
        let because = claim.write_cause("the claim is not used any more");
        let claims = self.claims.with_cause(&because);
        let protected = claim.metadata().finalizers().iter().any(|own| own == FINALIZER);
        let free = valid.is_empty() && claim.status().allocation().is_some();
        if valid.len() < users.len() || (free && protected && claim.is_terminating()) {
            let none = valid.is_empty();
            set_users(&mut claim, valid.clone());
            if none {
                let mut tree = Value::from(claim);
                tree["status"].remove("allocation");
                claim = ResourceClaim::from(tree);
            }
            claim = claims.update_status(claim).await?;
        }
        if valid.is_empty() && protected && claim.status().allocation().is_none() {
            let left = claim.metadata().finalizers().iter().filter(|own| *own != FINALIZER);
            let left: object::List<String> = left.collect();
            claim.metadata_mut().set_finalizers(left);
            claim = claims.update(claim).await?;
        }
        if valid.is_empty() && !claim.is_terminating() && self.owner_is_done(&claim) {
            match claims.delete_with(&claim, DeleteParams::default()).await {
                Err(error) if error.is_not_found() => {}
                done => done?,
            }
        }
        Ok(Requeue::OnChange)
    }
}

impl ClaimRelease {
    /// Whether a consumer in `reservedFor` can still use the claim.
    async fn uses(&self, claim: &ResourceClaim, user: &Value) -> Result<bool, Error> {
        let text = |name: &str| user.get(name).as_str().unwrap_or_default();
        if text("resource") != "pods" || !text("apiGroup").is_empty() {
            return Ok(true); // not a pod; other controllers know it
        }
        let key = NamespacedName::new(claim.metadata().namespace(), text("name"));
        let known = match self.pods.get(&key) {
            Some(pod) => Some(pod),
            // The cache may be older than the reservation.
            None => match self.pods.api().get(&key).await {
                Err(error) if error.is_not_found() => None,
                found => Some(found?),
            },
        };
        Ok(known.is_some_and(|pod| pod.metadata().uid() == text("uid") && !is_done(&pod)))
    }

    /// Whether the pod that the claim was created for has finished.
    fn owner_is_done(&self, claim: &ResourceClaim) -> bool {
        let Some(owner) = claim.metadata().controller_ref().filter(|owner| owner.kind() == "Pod")
        else {
            return false;
        };
        let pod = self.pods.get(&NamespacedName::new(claim.metadata().namespace(), owner.name()));
        pod.is_some_and(|pod| pod.metadata().uid() == owner.uid() && is_done(&pod))
    }
}

fn list(claim: &ResourceClaim) -> Vec<Value> {
    object::Lens::tree(claim).get("status").get("reservedFor").items().to_vec()
}

fn set_users(claim: &mut ResourceClaim, users: Vec<Value>) {
    let mut tree = Value::from(std::mem::take(claim));
    tree["status"].remove("reservedFor");
    if !users.is_empty() {
        tree["status"]["reservedFor"] = users.into_iter().collect();
    }
    *claim = ResourceClaim::from(tree);
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn pod(text: &str) -> Pod {
        Pod::from(from_json(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_claim_is_known_by_name_or_by_status() {
        let pod = pod(r#"{"metadata":{"name":"p","namespace":"n"},"spec":{"resourceClaims":[
            {"name":"a","resourceClaimName":"x"},{"name":"b","resourceClaimTemplateName":"t"},
            {"name":"c","resourceClaimTemplateName":"t"}]},
            "status":{"resourceClaimStatuses":[{"name":"b","resourceClaimName":"p-b-1"}]}}"#);
        let names: Vec<_> =
            pod.spec().resource_claims().iter().map(|claim| claim_name(&pod, claim)).collect();
        assert_eq!(names, [Some("x".to_owned()), Some("p-b-1".to_owned()), None]);
        let made = BTreeMap::from([("c".to_owned(), "p-c-1".to_owned())]);
        let statuses = statuses(&pod, made);
        assert_eq!(statuses["status"]["resourceClaimStatuses"].items().len(), 2);
    }

    #[test]
    fn a_new_claim_is_its_pods_and_has_a_name_that_fits() {
        let pod = pod(&format!(
            r#"{{"metadata":{{"name":"{}","namespace":"n","uid":"u"}},
            "spec":{{"resourceClaims":[{{"name":"{}"}}]}}}}"#,
            "p".repeat(60),
            "c".repeat(60)
        ));
        let template = ResourceClaimTemplate::from(
            from_json(br#"{"spec":{"metadata":{"labels":{"a":"b"}},"spec":{}}}"#).unwrap(),
        );
        let wanted = pod.spec().resource_claims().iter().next().unwrap();
        let claim = new_claim(&pod, wanted, &template);
        let base = claim.metadata().generate_name();
        assert!(base.len() <= LONGEST_BASE + 2 && base.contains("p-c"), "{base}");
        assert_eq!(claim.metadata().labels().get("a"), Some("b"));
        assert!(is_of(&claim, &pod));
    }
}
