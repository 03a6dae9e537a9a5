//! core/v1: ResourceQuota.

use std::collections::BTreeSet;

use macros::api;
use object::{List, Map, ObjectMeta, Quantity, Value};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn, WarningList};

use super::resources::rules::{check_amount, check_resource_name, is_standard};
use crate::shown::format_go;

/// Limits for the total resources and the number of objects of a namespace.
#[api]
pub struct ResourceQuota {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: ResourceQuotaSpec,
    /// Observed state.
    status: ResourceQuotaStatus,
}

#[api]
pub struct ResourceQuotaSpec {
    /// Largest total amount of each resource, such as requests.cpu or count/pods.
    #[api(go_type = "v1.ResourceList")]
    hard: Map<Quantity>,
    /// Scopes that an object must match to be counted.
    #[api(go_type = "[]v1.ResourceQuotaScope", enum_values = &SCOPES)]
    scopes: List<String>,
    /// Further scopes, with operators and values.
    scope_selector: Option<ScopeSelector>,
}

#[api(atomic)]
pub struct ScopeSelector {
    /// The rules, all of which must fit.
    match_expressions: List<ScopedResourceSelectorRequirement>,
}

#[api]
pub struct ScopedResourceSelectorRequirement {
    /// What is looked at.
    #[api(go_type = "v1.ResourceQuotaScope", enum_values = &SCOPES)]
    scope_name: Must<String>,
    /// How it is compared: In, NotIn, Exists or DoesNotExist.
    #[api(
        go_type = "v1.ScopeSelectorOperator",
        enum_values("DoesNotExist", "Exists", "In", "NotIn")
    )]
    operator: Must<String>,
    /// What it is compared with.
    values: List<String>,
}

#[api]
pub struct ResourceQuotaStatus {
    /// Limits that are enforced.
    #[api(go_type = "v1.ResourceList")]
    hard: Map<Quantity>,
    /// Amounts in use.
    #[api(go_type = "v1.ResourceList")]
    used: Map<Quantity>,
}

impl Kind for ResourceQuota {
    const NAMES: ResourceNames =
        ResourceNames::new("", "v1", "ResourceQuota", "resourcequotas").short(&["quota"]);
    const SHOWS_DELETED: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("ResourceQuota").writes_metadata()];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Request", |quota, _| quota.usage(false).into()),
        TableColumn::text("Limit", |quota, _| quota.usage(true).into()),
        TableColumn::AGE,
    ];

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        let hard = self.spec().hard();
        for name in
            ["cpu", "memory", "storage", "ephemeral-storage"].iter().filter(|_| old.is_none())
        {
            let mut of = format!("requests.{name}");
            if hard.get(&of).is_none() && matches!(*name, "cpu" | "memory") {
                (*name).clone_into(&mut of);
            }
            let limits = format!("limits.{name}");
            if let (Some(request), Some(limit)) = (hard.get(&of), hard.get(&limits))
                && request > limit
            {
                warnings.push(format!(
                    "ResourceQuota {of} ({request}) should be less than {limits} ({limit})"
                ));
            }
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        let (spec, at) = (self.spec(), FieldPath::SPEC);
        check_amounts(spec.hard(), &at.field("hard"), errs);
        spec.check_scopes(&at.field("scopes"), errs);
        if let Some(selector) = spec.scope_selector() {
            let at = at.field("scopeSelector");
            spec.check_selector(selector, &at.field("matchExpressions"), errs);
        }
    }

    fn validate_status(&self, _old: &Self, errs: &mut ErrorList) {
        let (status, at) = (self.status(), FieldPath::STATUS);
        check_amounts(status.hard(), &at.field("hard"), errs);
        check_amounts(status.used(), &at.field("used"), errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.validate(errs);
        let seen =
            [self.spec(), old.spec()].map(|spec| spec.scopes().iter().collect::<BTreeSet<_>>());
        if seen[0] != seen[1] {
            let shown = Value::from(self.spec().scopes().clone());
            errs.invalid(&FieldPath::SPEC.field("scopes"), shown, "field is immutable");
        }
    }
}

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
/// Nothing is in both.
const OPPOSITES: [[&str; 2]; 2] =
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
/// What pods compute with.
const COMPUTED: [&str; 6] =
    ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

fn check_amounts(amounts: &Map<Quantity>, at: &FieldPath, errs: &mut ErrorList) {
    for (name, amount) in amounts.iter() {
        check_resource_name(name, &at.key(name), errs);
        if !name.contains('/') && !is_quota_standard(name) {
            errs.invalid(&at.key(name), name, "must be a standard resource for quota");
        }
        check_amount(name, &amount, &at.key(name), errs);
    }
}

/// Whether a quota counts the resource by default.
fn is_quota_standard(name: &str) -> bool {
    is_standard(name) && name != "storage"
}

/// Whether a scope has something to say about a resource.
fn applies(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        scope if SCOPES.contains(&scope) => resource == "pods" || COMPUTED.contains(&resource),
        _ => true,
    }
}

impl ResourceQuotaSpec {
    /// The resources that this scope says nothing about.
    fn beyond(&self, scope: &str) -> usize {
        let names = self.hard().iter().map(|(name, _)| name);
        names.filter(|name| is_quota_standard(name) && !applies(scope, name)).count()
    }

    fn check_scopes(&self, at: &FieldPath, errs: &mut ErrorList) {
        let shown = || Value::from(self.scopes().clone());
        for scope in self.scopes().iter() {
            if !SCOPES.contains(&scope) {
                errs.invalid(at, shown(), "unsupported scope");
            }
            if self.beyond(scope) > 0 {
                errs.invalid(at, shown(), "unsupported scope applied to resource");
            }
        }
        let has = |name: &str| self.scopes().iter().any(|scope| scope == name);
        if OPPOSITES.iter().any(|pair| pair.iter().all(|scope| has(scope))) {
            errs.invalid(at, shown(), "conflicting scopes");
        }
    }

    fn check_selector(&self, selector: &ScopeSelector, at: &FieldPath, errs: &mut ErrorList) {
        for requirement in selector.match_expressions().iter() {
            let scope = requirement.scope_name();
            if !SCOPES.contains(&scope) {
                errs.invalid(&at.field("scopeName"), scope, "unsupported scope");
            }
            if self.beyond(scope) > 0 {
                let why = "unsupported scope applied to resource";
                errs.invalid_formatted(at, format_go(selector), why);
            }
            requirement.check(at, errs);
        }
        let all = selector.match_expressions();
        let has = |name: &str| all.iter().any(|one| one.scope_name() == name);
        if OPPOSITES.iter().any(|pair| pair.iter().all(|scope| has(scope))) {
            let scopes = Some(self.scopes()).filter(|scopes| !scopes.is_empty());
            let shown = scopes.map_or(Value::Null, |scopes| Value::from(scopes.clone()));
            errs.invalid(at, shown, "conflicting scopes");
        }
    }
}

impl ScopedResourceSelectorRequirement {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let (scope, operator, values) = (self.scope_name(), self.operator(), self.values());
        let valued = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if SCOPES.contains(&scope) && !valued && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                       ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                       ResourceQuotaScopeNotBestEffort or \
                       ResourceQuotaScopeCrossNamespacePodAffinity";
            errs.invalid(&at.field("operator"), operator, why);
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope \
                           selector";
                errs.required(&at.field("values"), why);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope \
                           selector";
                errs.invalid(&at.field("values"), Value::from(values.clone()), why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errs.invalid(&at.field("operator"), operator, "not a valid selector operator"),
        }
    }
}

impl ResourceQuota {
    /// What is used of what is allowed, of limits or of all else.
    fn usage(&self, limits: bool) -> String {
        let status = self.status();
        let of = status.hard().iter().filter(|(name, _)| name.starts_with("limits.") == limits);
        let each = of.map(|(name, hard)| {
            let used = status.used().get(name).unwrap_or_default();
            format!("{name}: {used}/{hard}")
        });
        each.collect::<Vec<_>>().join(", ")
    }
}
