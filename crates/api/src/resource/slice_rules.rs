//! The rules for devices that drivers offer.

use std::collections::BTreeSet;

use object::{Lens, List, Value, names, saturating_i32};
use schema::{ErrorList, FieldPath};

use super::{
    CounterSet, Device, DeviceAttribute, DeviceCounterConsumption, DeviceTaint, ResourceSliceSpec,
    capacity_rules::check_policy,
};
use crate::{
    core::volume::sources::check_csi_driver,
    rules::{ValidateField, is_negative, or_null},
    shown::{format_go, format_go_list},
};

const MAX_DEVICES: usize = 128;
const MAX_ADVANCED: usize = 64;
const MAX_PROPERTIES: usize = 32;
const MAX_VALUES: usize = 48;
const MAX_TAINTS: usize = 16;
const MAX_COUNTERS: usize = 32;
const MAX_POOL: usize = 253;
const MAX_ID: usize = 32;
const MAX_KEY: usize = 63 + 1 + MAX_ID;
const MAX_VALUE: usize = 64;

/// The name of a pool: domains with slashes between them.
pub(super) fn check_pool(name: &str, at: &FieldPath, errs: &mut ErrorList) {
    if name.is_empty() {
        return errs.required(at, "");
    }
    errs.max_bytes(at, name, MAX_POOL);
    for part in name.split('/') {
        errs.subdomain(at, part);
    }
}

impl ResourceSliceSpec {
    pub(super) fn check(&self, old: Option<&Self>, at: &FieldPath, errs: &mut ErrorList) {
        check_csi_driver(&at.field("driver"), self.driver(), errs);
        let (pool, here) = (self.pool(), at.field("pool"));
        check_pool(pool.name(), &here.field("name"), errs);
        if pool.resource_slice_count() <= 0 {
            let at = here.field("resourceSliceCount");
            errs.invalid(&at, pool.resource_slice_count(), "must be greater than zero");
        }
        if pool.generation() < 0 {
            let at = here.field("generation");
            errs.invalid(&at, pool.generation(), "must be greater than or equal to zero");
        }
        if let Some(old) = old {
            let name = |spec: &Self| Value::from(spec.pool().name());
            errs.immutable(&here.field("name"), &name(self), &name(old));
            let driver = |spec: &Self| Value::from(spec.driver());
            errs.immutable(&at.field("driver"), &driver(self), &driver(old));
            let node = |spec: &Self| or_null(spec.node_name());
            errs.immutable(&at.field("nodeName"), &node(self), &node(old));
        }
        self.check_nodes(at, errs);
        let given = |name| !self.tree().get(name).is_null();
        if given("sharedCounters") && given("devices") {
            errs.invalid(at, "", "only one of `sharedCounters` or `devices` is allowed");
        }
        self.check_devices(old, &at.field("devices"), errs);
        at.field("sharedCounters")
            .for_each_item(self.shared_counters().iter(), |it, at| it.check(at, errs));
        self.check_partitions(at, errs);
        validate_skipped_operations(self.skip_node_operations(), at, errs);
    }

    fn check_nodes(&self, at: &FieldPath, errs: &mut ErrorList) {
        let mut set = Vec::new();
        match self.node_name() {
            None => {}
            Some("") => {
                let why = "must be either unset or set to a non-empty string";
                errs.invalid(&at.field("nodeName"), "", why);
            }
            Some(name) => {
                set.push("`nodeName`");
                errs.subdomain(&at.field("nodeName"), name);
            }
        }
        if let Some(nodes) = self.node_selector() {
            set.push("`nodeSelector`");
            let at = at.field("nodeSelector");
            nodes.check(&at, errs);
            if nodes.node_selector_terms().len() != 1 {
                let shown = format_go_list(nodes.node_selector_terms());
                let why = "must have exactly one node selector term";
                errs.invalid_formatted(&at.field("nodeSelectorTerms"), shown, why);
            }
        }
        for (name, shown, value) in [
            ("allNodes", "`allNodes`", self.all_nodes()),
            (
                "perDeviceNodeSelection",
                "`perDeviceNodeSelection`",
                self.per_device_node_selection(),
            ),
        ] {
            match value {
                None => {}
                Some(true) => set.push(shown),
                Some(false) => {
                    errs.invalid(&at.field(name), false, "must be either unset or set to true");
                }
            }
        }
        let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, \
                   `perDeviceNodeSelection` is required";
        match set.len() {
            0 => errs.required(at, one),
            1 => {}
            _ => {
                let why = format!("{one}, but multiple fields are set");
                errs.invalid(at, format!("{{{}}}", set.join(", ")), why);
            }
        }
    }

    fn check_devices(&self, old: Option<&Self>, at: &FieldPath, errs: &mut ErrorList) {
        let devices = self.devices();
        let advanced = |device: &Device| {
            !device.taints().is_empty()
                || !device.consumes_counters().is_empty()
                || device.attributes().iter().any(|(_, attribute)| attribute.lists() > 0)
        };
        let max = if devices.iter().any(advanced) { MAX_ADVANCED } else { MAX_DEVICES };
        if devices.len() > max {
            return errs.too_many_with_count(at, devices.len(), max);
        }
        let mut seen = BTreeSet::new();
        let before = old.map(|old| old.devices().by_key(|it| it.name())).unwrap_or_default();
        for (i, device) in devices.iter().enumerate() {
            let old = before.get(device.name()).copied();
            let selects = self.per_device_node_selection() == Some(true);
            device.check(old, selects, &at.index(i), errs);
            errs.unique(&mut seen, &at.index(i), device.name());
        }
    }

    /// Requires the attribute that distinguishes kinds of partitions, where it is needed.
    fn check_partitions(&self, at: &FieldPath, errs: &mut ErrorList) {
        let Some(name) = self.partition_type_attribute() else { return };
        let consumes = |device: &Device| !device.consumes_counters().is_empty();
        if !self.devices().iter().any(consumes) {
            let why = "may only be set on a slice which declares devices that consume counters";
            return errs.invalid(&at.field("partitionTypeAttribute"), name, why);
        }
        let bare = name.strip_prefix(&format!("{}/", self.driver())).unwrap_or(name);
        for (i, device) in self.devices().iter().enumerate().filter(|(_, it)| consumes(it)) {
            let at = at.field("devices");
            let at = at.index(i);
            let at = at.field("attributes");
            let attributes = device.attributes();
            match attributes.get(name).or(attributes.get(bare)) {
                None => {
                    let why = "device consumes counters and `partitionTypeAttribute` names this \
                               attribute, so it must be set";
                    errs.required(&at.key(name), why);
                }
                Some(attribute) if attribute.string().is_none() => {
                    let shown = format_go(attribute);
                    let why = "must be a string value because `partitionTypeAttribute` names this attribute";
                    errs.invalid_formatted(&at.key(name), shown, why);
                }
                Some(_) => {}
            }
        }
    }
}

/// What is prepared must be undone.
pub(super) fn validate_skipped_operations(
    skipped: &List<String>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let has = |name: &str| skipped.iter().any(|it| it == name);
    if has("NodePrepareResources") && !has("NodeUnprepareResources") && !has("*") {
        let why =
            "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped";
        errs.invalid(&at.field("skipNodeOperations"), Value::from(skipped.clone()), why);
    }
}

impl Device {
    fn check(&self, old: Option<&Self>, selects: bool, at: &FieldPath, errs: &mut ErrorList) {
        errs.label(&at.field("name"), self.name());
        let properties = self.attributes().iter().len() + self.capacity().iter().len();
        if properties > MAX_PROPERTIES {
            let why = format!(
                "the total number of attributes and capacities must not exceed {MAX_PROPERTIES}"
            );
            errs.invalid(at, saturating_i32(properties), why);
        }
        let values: usize = self.attributes().iter().map(|(_, it)| it.lists().max(1)).sum();
        if values > MAX_VALUES {
            let why = format!("the total number of attribute values must not exceed {MAX_VALUES}");
            errs.invalid(at, saturating_i32(values), why);
        }
        for (name, attribute) in self.attributes().iter() {
            let at = at.field("attributes");
            check_property(name, &at, errs);
            attribute.check(&at.key(&shortened(name)), errs);
        }
        if old.is_none_or(|old| old.capacity() != self.capacity()) {
            self.check_capacity(&at.field("capacity"), errs);
        }
        if old.is_none_or(|old| old.taints() != self.taints()) {
            let at = at.field("taints");
            if self.taints().len() > MAX_TAINTS {
                errs.too_many_with_count(&at, self.taints().len(), MAX_TAINTS);
            } else {
                at.for_each_item(self.taints().iter(), |taint, at| taint.check(at, errs));
            }
        }
        for (i, consumption) in self.consumes_counters().iter().enumerate() {
            consumption.check(&at.field("consumesCounters").index(i), errs);
        }
        self.check_nodes(selects, at, errs);
        let failures = self.binding_failure_conditions();
        check_binding(self.binding_conditions(), failures, at, errs);
        self.check_node_resources(&at.field("nodeAllocatableResources"), errs);
    }

    fn check_capacity(&self, at: &FieldPath, errs: &mut ErrorList) {
        for (name, capacity) in self.capacity().iter() {
            check_property(name, at, errs);
            let (key, Some(policy)) = (shortened(name), capacity.request_policy()) else {
                continue;
            };
            let here = at.key(&key);
            let here = here.field("requestPolicy");
            if self.allow_multiple_allocations() == Some(true) {
                check_policy(&capacity.value(), policy, &here, errs);
            } else {
                errs.forbidden(&here, "allowMultipleAllocations must be true");
            }
        }
    }

    fn check_nodes(&self, selects: bool, at: &FieldPath, errs: &mut ErrorList) {
        let (name, nodes, all) = (self.node_name(), self.node_selector(), self.all_nodes());
        if !selects {
            if name.is_some() || nodes.is_some() || all.is_some() {
                let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if \
                           `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
                errs.invalid(at, Value::Null, why);
            }
            return;
        }
        let mut set = Vec::new();
        match name {
            None => {}
            Some("") => errs.invalid(&at.field("nodeName"), "", "must not be empty"),
            Some(name) => {
                set.push("`nodeName`");
                errs.subdomain(&at.field("nodeName"), name);
            }
        }
        if let Some(nodes) = nodes {
            set.push("`nodeSelector`");
            nodes.check(&at.field("nodeSelector"), errs);
        }
        match all {
            None => {}
            Some(true) => set.push("`allNodes`"),
            Some(false) => {
                errs.invalid(&at.field("allNodes"), false, "must be either unset or set to true");
            }
        }
        let one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                   `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        match set.len() {
            0 => errs.required(at, one),
            1 => {}
            _ => errs.invalid(at, format!("{{{}}}", set.join(", ")), one),
        }
    }

    fn check_node_resources(&self, at: &FieldPath, errs: &mut ErrorList) {
        for (name, resource) in self.node_allocatable_resources().iter() {
            let at = at.key(name);
            let of_nodes = matches!(name, "cpu" | "memory" | "ephemeral-storage")
                || name.starts_with("hugepages-");
            if !of_nodes {
                errs.invalid(&at, name, "must be a node allocatable resource name");
            }
            if let Some(mapping) = resource.mapping() {
                let at = at.field("mapping");
                match mapping.capacity_key() {
                    Some("") => {
                        let why = "capacityKey must not be an empty string";
                        errs.invalid(&at.field("capacityKey"), "", why);
                    }
                    Some(key) if self.capacity().get(key).is_none() => {
                        errs.not_found(&at.field("capacityKey"), key);
                    }
                    _ => {}
                }
            }
            if let Some(overhead) = resource.overhead() {
                for name in ["perPod", "perContainer"] {
                    let amount = overhead.tree().get(name);
                    if is_negative(amount) {
                        let at = at.field("overhead");
                        errs.invalid(&at.field(name), amount.clone(), "must be non-negative");
                    }
                }
            }
        }
    }
}

impl DeviceAttribute {
    /// How many values it has in lists.
    fn lists(&self) -> usize {
        self.ints().len() + self.bools().len() + self.strings().len() + self.versions().len()
    }

    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        if self.string().is_some_and(|text| text.len() > MAX_VALUE) {
            errs.too_long(&at.field("string"), MAX_VALUE);
        }
        at.field("strings")
            .for_each_item(self.strings().iter(), |it, at| errs.max_bytes(at, it, MAX_VALUE));
        at.if_present("version", self.version(), |version, at| check_version(version, at, errs));
        at.field("versions")
            .for_each_item(self.versions().iter(), |it, at| check_version(it, at, errs));
    }
}

fn check_version(text: &str, at: &FieldPath, errs: &mut ErrorList) {
    if !is_semantic(text) {
        errs.invalid(at, text, "must be a string compatible with semver.org spec 2.0.0");
    }
    errs.max_bytes(at, text, MAX_VALUE);
}

/// Whether a version has three numbers, and perhaps words after `-` and `+`.
fn is_semantic(text: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (text, build) = text.split_once('+').map_or((text, None), |(a, b)| (a, Some(b)));
    let (core, release) = text.split_once('-').map_or((text, None), |(a, b)| (a, Some(b)));
    let numbers: Vec<_> = core.split('.').collect();
    numbers.len() == 3
        && numbers.into_iter().all(number)
        && build.is_none_or(|build| build.split('.').all(word))
        && release.is_none_or(|it| it.split('.').all(|p| word(p) && (!digits(p) || number(p))))
}

impl CounterSet {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let counters = self.counters().iter().len();
        if counters > MAX_COUNTERS {
            errs.too_many_with_count(&at.field("counters"), counters, MAX_COUNTERS);
        }
    }
}

impl DeviceCounterConsumption {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let counters = self.counters().iter().len();
        if counters > MAX_COUNTERS {
            errs.too_many_with_count(&at.field("counters"), counters, MAX_COUNTERS);
        }
    }
}

impl DeviceTaint {
    pub(super) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.qualified(&at.field("key"), self.key());
        if !self.value().is_empty() {
            let wrong = names::label_value(self.value());
            errs.invalid_each(&at.field("value"), self.value(), wrong);
        }
    }
}

/// The name of a property: an identifier, perhaps with a domain before it.
fn check_property(name: &str, at: &FieldPath, errs: &mut ErrorList) {
    let identifier = |name: &str, errs: &mut ErrorList| {
        errs.max_bytes(at, name, MAX_ID);
        errs.invalid_each(at, name, names::c_identifier(name));
    };
    match name.split('/').collect::<Vec<_>>()[..] {
        [name] => identifier(name, errs),
        [domain, name] => {
            match domain {
                "" => errs.invalid(at, "", "the domain must not be empty"),
                domain => check_csi_driver(at, domain, errs),
            }
            match name {
                "" => errs.invalid(at, "", "the name must not be empty"),
                name => identifier(name, errs),
            }
        }
        _ => {}
    }
}

/// A name in a path: what is too long is shown without its middle.
fn shortened(name: &str) -> String {
    if name.len() <= MAX_KEY || !name.is_ascii() {
        return name.to_owned();
    }
    let rest = MAX_KEY - 3;
    format!("{}...{}", &name[..rest.div_ceil(2)], &name[name.len() - rest / 2..])
}

/// Validates the conditions that must be true, and those that must be false, before a pod is bound.
pub(super) fn check_binding(
    good: &List<String>,
    bad: &List<String>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    for (name, list) in [("bindingConditions", good), ("bindingFailureConditions", bad)] {
        let at = at.field(name);
        let mut seen = BTreeSet::new();
        for (i, condition) in list.iter().enumerate() {
            errs.qualified(&at.index(i), condition);
            errs.unique(&mut seen, &at.index(i), condition);
        }
    }
    let here = at.field("bindingFailureConditions");
    let known = good.by_key(|condition| *condition);
    for (i, condition) in bad.iter().enumerate() {
        if known.contains_key(condition) {
            let why = "bindingFailureConditions must not overlap with bindingConditions";
            errs.invalid(&here.index(i), condition, why);
        }
    }
    if good.is_empty() && !bad.is_empty() {
        let why = "bindingConditions are required to use bindingFailureConditions";
        errs.invalid(&at.field("bindingConditions"), Value::Null, why);
    }
    if bad.is_empty() && !good.is_empty() {
        let why = "bindingFailureConditions are required to use bindingConditions";
        errs.invalid(&here, Value::Null, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semantic() {
        for good in ["1.2.3", "0.0.0", "1.2.3-rc.1", "1.2.3-0a+b.1"] {
            assert!(is_semantic(good), "{good}");
        }
        for bad in ["1.2", "01.2.3", "1.2.3-", "1.2.3-01", "v1.2.3", ""] {
            assert!(!is_semantic(bad), "{bad}");
        }
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"x".repeat(200)).len(), MAX_KEY);
    }
}
