//! ResourceClaims are created for pods from templates, and released with the pods.

use api::{
    core::Pod,
    resource::{ResourceClaim, ResourceClaimTemplate},
};
use client::Patch;
use object::{Lens, NamespacedName};

use crate::{World, world::tree};

const POD: &str = r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i",
    "resources":{"claims":[{"name":"gpu"}]}}],
    "resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"t"}]}}"#;
const TEMPLATE: &str = r#"{"metadata":{"name":"t"},"spec":{"metadata":{"labels":{"a":"b"}},"spec":{"devices":{
    "requests":[{"name":"r","exactly":{"deviceClassName":"gpu.example.com"}}]}}}}"#;

#[tokio::test]
async fn a_pod_has_the_claims_that_its_templates_say() {
    let world = World::start(&["resourceclaim-controller"]).await;
    world.node("n").await;
    let pod = world.make::<Pod>(POD).await;
    world.until_event("p", "FailedResourceClaimCreation").await;
    world.make::<ResourceClaimTemplate>(TEMPLATE).await;
    let noted = |pod: &Pod| pod.status().resource_claim_statuses().iter().next().is_some();
    let known = world.until_one::<Pod>("p", "the name of its claim", noted).await;
    let status = known.status().resource_claim_statuses().iter().next().unwrap().clone();
    let name = status.resource_claim_name().expect("it has one").to_owned();
    assert!(name.starts_with("p-gpu-"), "{name}");
    let claim = world.get::<ResourceClaim>(&name).await;
    let owner = claim.metadata().controller_ref().map(object::OwnerReference::uid);
    assert_eq!(owner, Some(pod.metadata().uid()));
    assert_eq!(claim.metadata().labels().get("a"), Some("b"));
    assert_eq!(claim.spec().devices().requests().iter().count(), 1);
    // The claim is allocated without the scheduler: the controller reserves it for the pod.
    let allocation = r#"{"metadata":{"finalizers":["resource.kubernetes.io/delete-protection"]}}"#;
    world.change::<ResourceClaim>(&name, allocation).await;
    let allocated = tree(
        r#"{"status":{"allocation":{"devices":{"results":[{"request":"r","driver":"gpu.example.com",
        "pool":"n","device":"d0"}]}}}}"#,
    );
    let key = NamespacedName::new("default", &name);
    let claims = world.api::<ResourceClaim>();
    claims.patch_status(&key, &Patch::Merge(allocated)).await.expect("a status");
    let reserved = |claim: &ResourceClaim| claim.status().reserved_for().iter().next().is_some();
    world.until_one::<ResourceClaim>(&name, "a reservation", reserved).await;
    // The pod finishes: the claim is released, and deleted, because it was created for the pod.
    world.phase(&known, "Succeeded", false).await;
    world.until_all::<ResourceClaim>("no claim", <[_]>::is_empty).await;
    world.stop().await;
}

#[tokio::test]
async fn a_claim_of_a_user_is_freed_and_stays() {
    let world = World::start(&["resourceclaim-controller"]).await;
    let text = r#"{"metadata":{"name":"own"},"spec":{"devices":{"requests":[{"name":"r",
        "exactly":{"deviceClassName":"gpu.example.com"}}]}}}"#;
    world.make::<ResourceClaim>(text).await;
    let status = tree(
        r#"{"status":{"allocation":{"devices":{"results":[{"request":"r","driver":"gpu.example.com",
        "pool":"n","device":"d0"}]}},"reservedFor":[{"resource":"pods","name":"gone","uid":"1"}]}}"#,
    );
    let key = NamespacedName::new("default", "own");
    world.api::<ResourceClaim>().patch_status(&key, &Patch::Merge(status)).await.expect("a status");
    let free = |claim: &ResourceClaim| {
        let status = claim.tree().get("status");
        status.get("reservedFor").items().is_empty() && status.get("allocation").is_null()
    };
    world.until_one::<ResourceClaim>("own", "nobody has it", free).await;
    world.stop().await;
}
