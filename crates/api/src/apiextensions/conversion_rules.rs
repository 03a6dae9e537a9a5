//! What a CRD must keep that says how its objects are converted.

use std::collections::HashSet;

use object::{Value, names};
use schema::{ErrorList, FieldPath};

use super::{
    CustomResourceConversion, CustomResourceDefinition, WebhookClientConfig, WebhookConversion,
    rules::choice, webhook,
};

const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// How much is asked of a conversion.
#[derive(Clone, Copy)]
pub(super) struct ConversionOptions {
    /// One of the known forms of reviews must be there.
    reviews: bool,
    /// Certificates must be such.
    bundles: bool,
}

impl ConversionOptions {
    /// Nobody uses it yet.
    pub(super) const NEW: Self = Self { reviews: true, bundles: false };

    /// No more than the old form kept.
    pub(super) fn for_update(old: &CustomResourceDefinition) -> Self {
        let webhook = old.spec().conversion().and_then(CustomResourceConversion::webhook);
        let known = |webhook: &WebhookConversion| {
            let versions = webhook.conversion_review_versions();
            versions.is_empty() || versions.iter().any(|version| REVIEWS.contains(&version))
        };
        let right = |config: &WebhookClientConfig| {
            config.ca_bundle().is_empty() || webhook::is_ca_bundle(config.ca_bundle())
        };
        let config = webhook.and_then(WebhookConversion::client_config);
        Self {
            reviews: webhook.is_none_or(known),
            bundles: old.is_true("Established") && config.is_none_or(right),
        }
    }
}

pub(super) fn check_conversion(
    conversion: &CustomResourceConversion,
    terms: ConversionOptions,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    choice(&at.field("strategy"), conversion.strategy(), &["None", "Webhook"], errs);
    let webhook = conversion.webhook();
    let config = webhook.and_then(WebhookConversion::client_config);
    let (here, reviews) = (at.field("webhookClientConfig"), at.field("conversionReviewVersions"));
    let versions: Vec<&str> = webhook
        .map(|webhook| webhook.conversion_review_versions().iter().collect())
        .unwrap_or_default();
    if conversion.strategy() != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errs.forbidden(&here, why);
        }
        if !versions.is_empty() {
            errs.forbidden(&reviews, why);
        }
        return;
    }
    match config {
        None => errs.required(&here, "required when strategy is set to Webhook"),
        Some(config) => {
            match (config.url(), config.service()) {
                (Some(url), None) => webhook::check_url(url, &here.field("url"), errs),
                (None, Some(service)) => {
                    webhook::check_service(service, &here.field("service"), errs);
                }
                _ => errs.required(&here, "exactly one of url or service is required"),
            }
            if !config.ca_bundle().is_empty() && terms.bundles {
                webhook::check_ca_bundle(config.ca_bundle(), &here.field("caBundle"), errs);
            }
        }
    }
    check_reviews(&versions, terms.reviews, &reviews, errs);
}

fn check_reviews(versions: &[&str], recognized: bool, at: &FieldPath, errs: &mut ErrorList) {
    if versions.is_empty() {
        return errs.required(at, "");
    }
    let mut seen = HashSet::new();
    for (i, version) in versions.iter().enumerate() {
        if !seen.insert(version) {
            errs.invalid(&at.index(i), *version, "duplicate version");
            continue;
        }
        errs.invalid_each(&at.index(i), version, names::dns1035_label(version));
    }
    if recognized && !versions.iter().any(|version| REVIEWS.contains(version)) {
        let all: Value = versions.iter().copied().collect();
        errs.invalid(at, all, format!("must include at least one of {}", REVIEWS.join(", ")));
    }
}
