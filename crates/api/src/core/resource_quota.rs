//! core/v1: ResourceQuota.

use macros::api;
use object::{List, Map, ObjectMeta, Quantity, Value};
use schema::{Column, Errors, Kind, Names, Path, Storage, Subresource, Warnings};

use super::resources::rules::{check_amount, check_resource_name};

use super::resources;

#[api]
pub struct ResourceQuota {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: ResourceQuotaSpec,
    #[api(tag = 3)]
    status: ResourceQuotaStatus,
}

#[api]
pub struct ResourceQuotaSpec {
    #[api(tag = 1, go = "v1.ResourceList")]
    hard: Map<Quantity>,
    #[api(tag = 2, go = "[]v1.ResourceQuotaScope")]
    scopes: List<String>,
    #[api(tag = 3)]
    scope_selector: Option<ScopeSelector>,
}

#[api(atomic)]
pub struct ScopeSelector {
    #[api(tag = 1)]
    match_expressions: List<ScopedResourceSelectorRequirement>,
}

#[api]
pub struct ScopedResourceSelectorRequirement {
    #[api(tag = 1, required, always, go = "v1.ResourceQuotaScope")]
    scope_name: String,
    #[api(tag = 2, required, always, go = "v1.ScopeSelectorOperator")]
    operator: String,
    #[api(tag = 3)]
    values: List<String>,
}

#[api]
pub struct ResourceQuotaStatus {
    #[api(tag = 1, go = "v1.ResourceList")]
    hard: Map<Quantity>,
    #[api(tag = 2, go = "v1.ResourceList")]
    used: Map<Quantity>,
}

impl Kind for ResourceQuota {
    const NAMES: Names = Names {
        group: "",
        version: "v1",
        kind: "ResourceQuota",
        plural: "resourcequotas",
        singular: "resourcequota",
        short: &["quota"],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("resourcequotas", "v1");
    const SHOWS_DELETED: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "ResourceQuota", &["get", "patch", "update"])];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::new("Request", "string", |quota, _| quota.usage(false).into()),
        Column::new("Limit", "string", |quota, _| quota.usage(true).into()),
        Column::AGE,
    ];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn warn(&self, old: Option<&Self>, warnings: &mut Warnings) {
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
                warnings.say(format!(
                    "ResourceQuota {of} ({request}) should be less than {limits} ({limit})"
                ));
            }
        }
    }

    fn validate(&self, errs: &mut Errors) {
        let at = Path::Root.field("spec");
        for (name, amount) in self.spec().hard().iter() {
            let at = at.field("hard");
            check_resource_name(name, &at.key(name), errs);
            check_amount(name, &amount, &at.key(name), errs);
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        self.validate(errs);
        let mut seen =
            [self.spec(), old.spec()].map(|spec| spec.scopes().iter().collect::<Vec<_>>());
        for scopes in &mut seen {
            scopes.sort_unstable();
        }
        if seen[0] != seen[1] {
            let at = Path::Root.field("spec");
            let shown = Value::from(self.spec().scopes().clone());
            errs.invalid(&at.field("scopes"), shown, "field is immutable");
        }
    }

    fn default_fields(&mut self) {
        resources::round_up(self.spec_mut().hard_mut());
        resources::round_up(self.status_mut().hard_mut());
        resources::round_up(self.status_mut().used_mut());
    }

    fn prepare_create(&mut self) {
        self.set_status(ResourceQuotaStatus::new());
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
