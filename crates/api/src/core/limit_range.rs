//! core/v1: LimitRange.

use std::collections::BTreeSet;

use macros::api;
use object::{List, Map, ObjectMeta, Quantity, Text};
use schema::{ErrorList, FieldPath, Kind, ResourceNames};

use super::resources::rules::{can_overcommit, check_container_name, check_resource_name};

/// Limits and defaults for the resources of each pod, container and claim of a namespace.
#[api]
pub struct LimitRange {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: LimitRangeSpec,
}

#[api]
pub struct LimitRangeSpec {
    /// Limits by type of object.
    limits: Must<List<LimitRangeItem>>,
}

#[api]
pub struct LimitRangeItem {
    /// Type of object that the limit applies to: Pod, Container or PersistentVolumeClaim.
    #[api(go_type = "v1.LimitType")]
    type_: Must<String>,
    /// Largest amount of each resource.
    #[api(go_type = "v1.ResourceList")]
    max: Map<Quantity>,
    /// Smallest amount of each resource.
    #[api(go_type = "v1.ResourceList")]
    min: Map<Quantity>,
    /// Limits of containers that set none.
    #[api(go_type = "v1.ResourceList")]
    default: Map<Quantity>,
    /// Requests of containers that set none.
    #[api(go_type = "v1.ResourceList")]
    default_request: Map<Quantity>,
    /// Largest ratio of limit to request.
    #[api(go_type = "v1.ResourceList")]
    max_limit_request_ratio: Map<Quantity>,
}

impl Kind for LimitRange {
    const NAMES: ResourceNames =
        ResourceNames::new("", "v1", "LimitRange", "limitranges").short(&["limits"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const CREATED_BY_UPDATE: bool = true;

    fn prepare_create(&mut self) {
        if self.metadata().name().is_empty() {
            let name = Text::from(self.metadata().uid());
            self.metadata_mut().set_name(name);
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        let at = FieldPath::SPEC.field("limits");
        let mut seen = BTreeSet::new();
        at.for_each_item(self.spec().limits().iter(), |limit, at| {
            errs.unique(&mut seen, &at.field("type"), limit.type_());
            limit.check(at, errs);
        });
    }

    fn default_fields(&mut self) {
        if !self.spec().limits().is_empty() {
            self.spec_mut().limits_mut().iter_mut().for_each(LimitRangeItem::default_fields);
        }
    }
}

impl LimitRangeItem {
    /// What a container gets follows from what it may have.
    fn default_fields(&mut self) {
        if self.type_() != "Container" {
            return;
        }
        let (min, max) = (self.min().clone(), self.max().clone());
        self.default_mut().insert_missing(&max);
        let default = self.default().clone();
        self.default_request_mut().insert_missing(&default);
        self.default_request_mut().insert_missing(&min);
    }
}

/// Amounts, and the name of the field that they stand in.
type Amounts<'a> = (&'static str, &'a Map<Quantity>);

impl LimitRangeItem {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let wrong = object::names::qualified_name(self.type_());
        let standard = matches!(self.type_(), "Pod" | "Container" | "PersistentVolumeClaim");
        if wrong.is_empty() && !standard && !self.type_().contains('/') {
            let why = "must be a standard limit type or fully qualified";
            errs.invalid(&at.field("type"), self.type_(), why);
        }
        errs.invalid_each(&at.field("type"), self.type_(), wrong);
        let pod = self.type_() == "Pod";
        for (name, amounts) in [
            ("max", self.max()),
            ("min", self.min()),
            ("default", self.default()),
            ("defaultRequest", self.default_request()),
            ("maxLimitRequestRatio", self.max_limit_request_ratio()),
        ] {
            if pod && name.starts_with("default") {
                if !amounts.is_empty() {
                    errs.forbidden(&at.field(name), "may not be specified when `type` is 'Pod'");
                }
                continue;
            }
            for (resource, _) in amounts.iter() {
                let at = at.field(name);
                match self.type_() {
                    "Pod" | "Container" => check_container_name(resource, &at.key(resource), errs),
                    _ => check_resource_name(resource, &at.key(resource), errs),
                }
            }
        }
        let bounded = |amounts: &Map<Quantity>| amounts.get("storage").is_some();
        if self.type_() == "PersistentVolumeClaim" && !bounded(self.min()) && !bounded(self.max()) {
            let why =
                "either minimum or maximum storage value is required, but neither was provided";
            errs.required(&at.field("limits"), why);
        }
        self.check_order(pod, at, errs);
        self.check_ratio(at, errs);
    }

    /// Minimum, default request, default limit and maximum do not cross.
    fn check_order(&self, pod: bool, at: &FieldPath, errs: &mut ErrorList) {
        let none = Map::from([] as [(&str, Quantity); 0]);
        let (default, request) =
            if pod { (&none, &none) } else { (self.default(), self.default_request()) };
        let (min, max): (Amounts, Amounts) = (("min value", self.min()), ("max value", self.max()));
        let limit_value = ("default value", default);
        let limit = ("default limit value", default);
        let request = ("default request value", request);
        for (low, high, field, shows_low) in [
            (min, max, "min", true),
            (min, request, "defaultRequest", false),
            (request, max, "defaultRequest", true),
            (request, limit, "defaultRequest", true),
            (min, limit_value, "default", true),
            (limit_value, max, "default", false),
        ] {
            for (name, small) in low.1.iter() {
                let Some(large) = high.1.get(name).filter(|large| small > *large) else { continue };
                let why = format!("{} {small} is greater than {} {large}", low.0, high.0);
                let shown = if shows_low { &small } else { &large };
                errs.invalid(&at.field(field).key(name), shown.to_string(), why);
            }
        }
        for (name, asked) in request.1.iter().filter(|(name, _)| !can_overcommit(name)) {
            if let Some(limit) = default.get(name).filter(|limit| *limit != asked) {
                let why = format!(
                    "default value {limit} must equal to defaultRequest value {asked} in {name}"
                );
                errs.invalid(&at.field("defaultRequest").key(name), asked.to_string(), why);
            }
        }
    }

    fn check_ratio(&self, at: &FieldPath, errs: &mut ErrorList) {
        for (name, ratio) in self.max_limit_request_ratio().iter() {
            let at = at.field("maxLimitRequestRatio");
            if ratio < Quantity::new(1, ratio.format()) {
                let why = format!("ratio {ratio} is less than 1");
                errs.invalid(&at.key(name), ratio.to_string(), why);
            }
            let (Some(min), Some(max)) = (self.min().get(name), self.max().get(name)) else {
                continue;
            };
            let most = max.as_approximate_f64() / min.as_approximate_f64();
            if ratio.as_approximate_f64() > most {
                let why = format!("ratio {ratio} is greater than max/min = {most:.6}");
                errs.invalid(&at.key(name), ratio.to_string(), why);
            }
        }
    }
}
