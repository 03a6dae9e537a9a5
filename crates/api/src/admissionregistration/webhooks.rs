//! The rules for webhooks, mutating and validating alike.

use std::collections::BTreeSet;

use object::{LabelSelector, Lens, List, Value, View, names};
use schema::{ErrorList, FieldPath};

use super::{
    MatchCondition, ServiceReference, ValidatingWebhook, WebhookClientConfig,
    rules::{FAILURE_POLICIES, check_conditions},
};
use crate::rules::ValidateField;

/// The versions of reviews that this server speaks.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const HARMLESS: [&str; 2] = ["None", "NoneOnDryRun"];
const ANY_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
pub(crate) const URL_FORMAT_HINT: &str = "; desired format: https://host[/path]";

/// What was wrong before may stay wrong.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each was wrong or not, apart from the others")]
struct RatchetingOptions {
    effects: bool,
    reviews: bool,
    names: bool,
    conditions: bool,
    selectors: bool,
}

/// Checks webhooks, or a change of `old` ones. A mutating webhook is one that may
/// say more than a validating one: it is seen as such.
pub(super) fn check<H>(new: &List<H>, old: Option<&List<H>>, errs: &mut ErrorList)
where
    for<'a> H: Lens + View<Ref<'a> = &'a H>,
{
    let at = FieldPath::Root.field("webhooks");
    let new = as_validating(new);
    let old = old.map(as_validating).unwrap_or_default();
    let tolerance = RatchetingOptions::of(&new, &old);
    let conditions: Vec<_> = old.iter().flat_map(|hook| hook.match_conditions().iter()).collect();
    let mut seen = BTreeSet::new();
    for (i, hook) in new.iter().enumerate() {
        hook.check(tolerance, &conditions, &at.index(i), errs);
        if !hook.name().is_empty() && !seen.insert(hook.name()) && !tolerance.names {
            errs.duplicate(&at.index(i).field("name"), hook.name());
        }
    }
}

/// Fills in what matches when nothing is said.
pub(super) fn default_selectors(hook: &mut ValidatingWebhook) {
    if hook.namespace_selector().is_none() {
        hook.set_namespace_selector(LabelSelector::new());
    }
    if hook.object_selector().is_none() {
        hook.set_object_selector(LabelSelector::new());
    }
}

fn as_validating<H>(hooks: &List<H>) -> Vec<&ValidatingWebhook>
where
    for<'a> H: Lens + View<Ref<'a> = &'a H>,
{
    hooks.iter().map(|hook| ValidatingWebhook::view(hook.tree())).collect()
}

impl RatchetingOptions {
    fn of(new: &[&ValidatingWebhook], old: &[&ValidatingWebhook]) -> Self {
        let mut names = BTreeSet::new();
        let known = |hook: &&&ValidatingWebhook| {
            let versions = hook.admission_review_versions();
            versions.is_empty() || versions.iter().any(|version| REVIEWS.contains(&version))
        };
        let selects_badly = |hook: &&ValidatingWebhook| {
            let mut errs = ErrorList::default();
            errs.selector(&FieldPath::Root, hook.namespace_selector());
            errs.selector(&FieldPath::Root, hook.object_selector());
            !errs.is_empty()
        };
        let conditions = |hooks: &[&ValidatingWebhook]| -> Vec<List<MatchCondition>> {
            hooks.iter().map(|hook| hook.match_conditions().clone()).collect()
        };
        Self {
            effects: !old
                .iter()
                .all(|hook| hook.side_effects().is_some_and(|effects| HARMLESS.contains(&effects))),
            reviews: !old.iter().all(|hook| known(&hook)),
            names: !old.iter().all(|hook| names.insert(hook.name())),
            conditions: !old.is_empty() && conditions(new) == conditions(old),
            selectors: old.iter().any(selects_badly),
        }
    }
}

impl ValidatingWebhook {
    fn check(
        &self,
        tolerance: RatchetingOptions,
        old: &[&MatchCondition],
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        check_name(self.name(), &at.field("name"), errs);
        at.field("rules").for_each_item(self.rules().iter(), |rule, at| rule.check(at, errs));
        errs.one_of(&at.field("failurePolicy"), self.failure_policy(), &FAILURE_POLICIES);
        let policies = ["Equivalent", "Exact"];
        errs.one_of(&at.field("matchPolicy"), self.match_policy(), &policies);
        self.check_effects(tolerance.effects, &at.field("sideEffects"), errs);
        if !(1..=30).contains(&self.timeout_seconds()) {
            let why = "the timeout value must be between 1 and 30 seconds";
            errs.invalid(&at.field("timeoutSeconds"), self.timeout_seconds(), why);
        }
        if !tolerance.selectors {
            errs.selector(&at.field("namespaceSelector"), self.namespace_selector());
            errs.selector(&at.field("objectSelector"), self.object_selector());
        }
        self.client_config().check(&at.field("clientConfig"), errs);
        if !tolerance.conditions {
            let at = at.field("matchConditions");
            check_conditions(self.match_conditions(), old, false, &at, errs);
        }
        self.check_reviews(tolerance.reviews, &at.field("admissionReviewVersions"), errs);
    }

    fn check_effects(&self, any: bool, at: &FieldPath, errs: &mut ErrorList) {
        let allowed: &[&str] = if any { &ANY_EFFECTS } else { &HARMLESS };
        match self.side_effects() {
            None => errs.required(at, format!("must specify one of {}", allowed.join(", "))),
            Some(effects) => errs.one_of(at, effects, allowed),
        }
    }

    fn check_reviews(&self, any: bool, at: &FieldPath, errs: &mut ErrorList) {
        let versions = self.admission_review_versions();
        let known = REVIEWS.join(", ");
        if versions.is_empty() {
            return errs.required(at, format!("must specify one of {known}"));
        }
        let mut seen = BTreeSet::new();
        for (i, version) in versions.iter().enumerate() {
            if seen.insert(version) {
                errs.invalid_each(&at.index(i), version, names::dns1035_label(version));
            } else {
                errs.invalid(&at.index(i), version, "duplicate version");
            }
        }
        if !any && !versions.iter().any(|version| REVIEWS.contains(&version)) {
            let why = format!("must include at least one of {known}");
            errs.invalid(at, Value::from(versions.clone()), why);
        }
    }
}

fn check_name(name: &str, at: &FieldPath, errs: &mut ErrorList) {
    if name.is_empty() {
        return errs.required(at, "");
    }
    let wrong = names::dns1123_subdomain(name);
    if !wrong.is_empty() {
        errs.invalid(at, name, wrong.join(","));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errs.invalid(at, name, why);
    }
}

impl WebhookClientConfig {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        match (self.url(), self.service()) {
            (Some(url), None) => check_url(url, &at.field("url"), errs),
            (None, Some(service)) => service.check(&at.field("service"), errs),
            _ => errs.required(at, "exactly one of url or service is required"),
        }
    }
}

/// An address of the form https://host[/path].
fn check_url(url: &str, at: &FieldPath, errs: &mut ErrorList) {
    if let Some(why) = url_parse_error(url) {
        let why = format!("url must be a valid URL: parse {url:?}: {why}{URL_FORMAT_HINT}");
        return errs.required(at, why);
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_lowercase(), rest),
        _ => (String::new(), rest),
    };
    let authority = rest.strip_prefix("//").unwrap_or_default();
    let authority = authority.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(u, h)| (Some(u), h));
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{URL_FORMAT_HINT}");
        errs.invalid(at, scheme, why);
    }
    if host.is_empty() {
        errs.invalid(at, host, format!("host must be specified{URL_FORMAT_HINT}"));
    }
    if let Some(user) = user {
        errs.invalid(at, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        errs.invalid(at, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        errs.invalid(at, query, "query parameters are not permitted in the URL");
    }
}

pub(crate) fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Why a text is no address at all, as Go says it.
fn url_parse_error(url: &str) -> Option<String> {
    if url.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Some("net/url: invalid control character in URL".to_owned());
    }
    if url.starts_with(':') {
        return Some("missing protocol scheme".to_owned());
    }
    let has_scheme = url.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
    if !has_scheme && url.split('/').next().is_some_and(|first| first.contains(':')) {
        return Some("first path segment in URL cannot contain colon".to_owned());
    }
    for (at, _) in url.match_indices('%') {
        let code: String = url[at..].chars().take(3).collect();
        if code.len() < 3 || !code[1..].chars().all(|c| c.is_ascii_hexdigit()) {
            return Some(format!("invalid URL escape {code:?}"));
        }
    }
    let host = url.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    let odd = host?.chars().find(|c| " <>\"^`{}|\\".contains(*c))?;
    Some(format!("invalid character {:?} in host name", odd.to_string()))
}

impl ServiceReference {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        // Upstream looks for the one under the other's name.
        errs.required_field(at, "name", self.namespace());
        errs.required_field(at, "namespace", self.name());
        check_port(self.port(), &at.field("port"), errs);
        at.if_present("path", self.path(), |path, at| check_path(path, at, errs));
    }
}

/// The port of a service.
pub(crate) fn check_port(port: i32, at: &FieldPath, errs: &mut ErrorList) {
    let wrong = names::port_number(port.into());
    if !wrong.is_empty() {
        errs.invalid(at, port, format!("port is not valid: {}", wrong.join(", ")));
    }
}

/// The path at which a service is asked.
pub(crate) fn check_path(path: &str, at: &FieldPath, errs: &mut ErrorList) {
    match path {
        "" | "/" => return,
        "//" => return errs.invalid(at, path, "segment[0] may not be empty"),
        _ => {}
    }
    if !path.starts_with('/') {
        errs.invalid(at, path, "must start with a '/'");
    }
    let rest: String = path.chars().skip(1).collect();
    let rest = rest.strip_suffix('/').unwrap_or(&rest);
    for (i, segment) in rest.split('/').enumerate() {
        if segment.is_empty() {
            errs.invalid(at, path, format!("segment[{i}] may not be empty"));
            continue;
        }
        for wrong in names::dns1123_subdomain(segment) {
            errs.invalid(at, path, format!("segment[{i}]: {wrong}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain() {
        let told = |url: &str| {
            let mut errs = ErrorList::default();
            check_url(url, &FieldPath::Root.field("url"), &mut errs);
            errs.0.into_iter().map(|error| error.detail).collect::<Vec<_>>()
        };
        assert!(told("https://a.example.com/path").is_empty());
        assert_eq!(
            told("http://a")[0],
            format!("'https' is the only allowed URL scheme{URL_FORMAT_HINT}")
        );
        assert_eq!(told("https://u@a")[0], "user information is not permitted in the URL");
        assert!(told(":x")[0].contains("missing protocol scheme"));
    }
}
