//! Metrics of the ResourceClaim controller, under upstream's names.

use std::{collections::BTreeMap, sync::Arc};

use api::resource::ResourceClaim;
use object::Lens;
use runtime::{
    Cache,
    metrics::{Family, Metrics},
};

/// Annotation of claims that the scheduler creates for extended resources.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";

const CREATIONS: Family = Family::counter(
    "dynamic_resource_allocation_resourceclaim_creates_total",
    "[ALPHA] Number of ResourceClaims creation requests, categorized by creation status, admin access, and owning API group and kind (either Pod or scheduling.k8s.io/PodGroup)",
    &["admin_access", "owner_api_group", "owner_api_kind", "status"],
);
const CLAIMS: Family = Family::gauge(
    "dynamic_resource_allocation_resource_claims",
    "[ALPHA] Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be 'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty (manually created by a user).",
    &["admin_access", "allocated", "source"],
);

/// Records that a claim was created, or could not be.
pub(super) fn created(metrics: &Metrics, claim: &ResourceClaim, ok: bool) {
    let owner = claim.metadata().controller_ref();
    let version = owner.map_or("", |owner| owner.api_version());
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let kind = owner.map_or("", |owner| owner.kind());
    let status = if ok { "success" } else { "failure" };
    metrics.counter(&CREATIONS, &[admin_access(claim), group, kind, status]).add(1);
}

/// Counts the claims in the cache whenever the metrics are read.
pub(super) fn report_claims(metrics: &Metrics, claims: &Arc<Cache<ResourceClaim>>) {
    metrics.on_read(claims, |claims, metrics| {
        let mut counts = BTreeMap::<[&str; 3], usize>::new();
        let all = claims.all();
        for claim in &all {
            let allocated = if claim.status().allocation().is_some() { "true" } else { "false" };
            *counts.entry([admin_access(claim), allocated, source(claim)]).or_default() += 1;
        }
        metrics.clear(&CLAIMS);
        for (labels, count) in counts {
            metrics.gauge(&CLAIMS, &labels).set_count(count);
        }
    });
}

fn source(claim: &ResourceClaim) -> &'static str {
    let annotations = claim.metadata().annotations();
    if annotations.get(EXTENDED) == Some("true") {
        "extended_resource"
    } else if annotations.get(super::ANNOTATION).is_some_and(|name| !name.is_empty()) {
        "resource_claim_template"
    } else {
        ""
    }
}

fn admin_access(claim: &ResourceClaim) -> &'static str {
    let requests = claim.tree().get("spec").get("devices").get("requests");
    let admin = requests
        .items()
        .iter()
        .any(|request| request.get("exactly").get("adminAccess").as_bool() == Some(true));
    if admin { "true" } else { "false" }
}
