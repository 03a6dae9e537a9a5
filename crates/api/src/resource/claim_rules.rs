//! The rules for claims of devices. What a field alone must fulfil is said at the field.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use object::{Lens, List, Value, names, to_json};
use schema::{ErrorList, FieldPath};

use super::{
    AllocatedDeviceStatus, AllocationResult, DeviceClaim, DeviceConfiguration, DeviceConstraint,
    DeviceDerivedAttribute, DeviceRequest, DeviceRequestAllocationResult, DeviceSelector,
    DeviceToleration, ResourceClaim, ResourceClaimStatus, slice_rules::check_pool,
};
use crate::{
    core::volume::sources::check_csi_driver,
    expression::{self, CelEnvironment, ExpectedResult},
    rules::{ValidateField, format_go_fields},
};

const MAX_EXPRESSION: usize = 10 * 1024;
const MAX_PARAMETERS: usize = 10 * 1024;
const MAX_CONDITIONS: usize = 8;
/// A configuration or constraint concerns at most as many requests.
const MAX_REQUESTS: usize = 32;
const WHICH: &str = "must be the name of a request in the claim or the name of a request and a \
                     subrequest separated by '/'";

/// The names of requests, each with those of its alternatives.
struct Requests<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Requests<'a> {
    fn of(claim: &'a DeviceClaim) -> Self {
        let named = |request: &'a DeviceRequest| {
            let alternatives = request.first_available().iter();
            (request.name(), alternatives.map(super::DeviceSubRequest::name).collect())
        };
        Self(claim.requests().iter().map(named).collect())
    }

    fn has(&self, name: &str) -> bool {
        match name.split('/').collect::<Vec<_>>()[..] {
            [request] => self.0.contains_key(request),
            [request, sub] => self.0.get(request).is_some_and(|subs| subs.contains(sub)),
            _ => false,
        }
    }

    /// Checks a reference to a request.
    fn check(&self, name: &str, at: &FieldPath, errs: &mut ErrorList) {
        let parts: Vec<_> = name.split('/').collect();
        if parts.len() > 2 {
            return errs.invalid(at, name, WHICH);
        }
        for part in parts {
            errs.label(at, part);
        }
        if !self.has(name) {
            errs.invalid(at, name, WHICH);
        }
    }

    /// A list that is too long is rejected without validating its items.
    fn check_all(&self, all: &List<String>, at: &FieldPath, errs: &mut ErrorList) {
        if all.len() <= MAX_REQUESTS {
            at.field("requests").for_each_item(all.iter(), |name, at| self.check(name, at, errs));
        }
    }
}

impl DeviceClaim {
    pub(super) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let requests = Requests::of(self);
        for (i, request) in self.requests().iter().enumerate() {
            request.check(self.constraints(), &at.field("requests").index(i), errs);
        }
        at.field("constraints").for_each_item(self.constraints().iter(), |constraint, at| {
            requests.check_all(constraint.requests(), at, errs);
            if constraint.match_attribute().is_none() && constraint.distinct_attribute().is_none() {
                let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, \
                           but multiple fields are set";
                errs.required(at, why);
            }
        });
        at.field("config").for_each_item(self.config().iter(), |config, at| {
            requests.check_all(config.requests(), at, errs);
            config.device_configuration().check(at, errs);
        });
    }
}

impl DeviceRequest {
    fn check(&self, constraints: &List<DeviceConstraint>, at: &FieldPath, errs: &mut ErrorList) {
        errs.label(&at.field("name"), self.name());
        match (self.exactly(), self.first_available().is_empty()) {
            (None, true) => {
                errs.required(at, "exactly one of `exactly` or `firstAvailable` is required");
            }
            (Some(_), false) => {
                let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple \
                           fields are set";
                errs.invalid(at, Value::Null, why);
            }
            (Some(exactly), true) => {
                let at = at.field("exactly");
                match exactly.device_class_name() {
                    "" => errs.required(&at.field("deviceClassName"), ""),
                    class => errs.subdomain(&at.field("deviceClassName"), class),
                }
                validate_device_request(
                    (exactly.selectors(), exactly.allocation_mode(), exactly.count()),
                    exactly.tolerations(),
                    &at,
                    errs,
                );
                let derived = exactly.derived_attributes();
                check_derived(derived, self.name(), constraints, &at, errs);
            }
            (None, false) => {
                at.field("firstAvailable").for_each_item(
                    self.first_available().iter(),
                    |sub, at| {
                        errs.label(&at.field("name"), sub.name());
                        validate_device_request(
                            (sub.selectors(), sub.allocation_mode(), sub.count()),
                            sub.tolerations(),
                            at,
                            errs,
                        );
                        let name = format!("{}/{}", self.name(), sub.name());
                        check_derived(sub.derived_attributes(), &name, constraints, at, errs);
                    },
                );
            }
        }
    }
}

/// Which devices are wanted, and how many.
fn validate_device_request(
    (selectors, mode, count): (&List<DeviceSelector>, &str, i64),
    tolerations: &List<DeviceToleration>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    at.field("selectors")
        .for_each_item(selectors.iter(), |selector, at| selector.check(false, at, errs));
    match mode {
        "All" if count != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            errs.invalid(&at.field("count"), count, why);
        }
        "ExactCount" if count <= 0 => {
            errs.invalid(&at.field("count"), count, "must be greater than zero");
        }
        "" => errs.not_supported(&at.field("allocationMode"), mode, &["All", "ExactCount"]),
        _ => {}
    }
    at.field("tolerations")
        .for_each_item(tolerations.iter(), |toleration, at| toleration.check(at, errs));
}

/// Properties that are computed are there for a constraint.
fn check_derived(
    all: &List<DeviceDerivedAttribute>,
    request: &str,
    constraints: &List<DeviceConstraint>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let whole = request.split('/').next().unwrap_or_default();
    let concerns = |constraint: &DeviceConstraint| {
        let mut requests = constraint.requests().iter();
        constraint.requests().is_empty() || requests.any(|it| it == request || it == whole)
    };
    let used: BTreeSet<&str> = constraints
        .iter()
        .filter(|constraint| concerns(constraint))
        .filter_map(|it| it.match_attribute().or(it.distinct_attribute()))
        .collect();
    at.field("derivedAttributes").for_each_item(all.iter(), |attribute, at| {
        if !attribute.name().is_empty() && !used.contains(attribute.name()) {
            let why = "must be referenced by at least one matchAttribute or distinctAttribute \
                       constraint targeting this request";
            errs.invalid(&at.field("name"), attribute.name(), why);
        }
        if !attribute.expression().is_empty() {
            let gives = ExpectedResult::DerivedDeviceAttribute;
            check_expression(attribute.expression(), gives, &at.field("expression"), errs);
        }
    });
}

fn check_expression(text: &str, gives: ExpectedResult, at: &FieldPath, errs: &mut ErrorList) {
    if text.len() > MAX_EXPRESSION {
        return errs.too_long(at, MAX_EXPRESSION);
    }
    let environment = CelEnvironment {
        result_type: gives,
        params: false,
        authorizer: false,
        variables: false,
        is_stored: false,
    };
    expression::Session::start().check(text, &environment, at, errs);
}

impl DeviceSelector {
    /// `stored`: what was taken before is taken again.
    pub(super) fn check(&self, stored: bool, at: &FieldPath, errs: &mut ErrorList) {
        match self.cel() {
            None => errs.required(&at.field("cel"), ""),
            Some(_) if stored => {}
            Some(cel) => {
                let at = at.field("cel");
                check_expression(
                    cel.expression(),
                    ExpectedResult::DeviceSelector,
                    &at.field("expression"),
                    errs,
                );
            }
        }
    }
}

impl DeviceConfiguration {
    pub(super) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let at = at.field("opaque");
        match self.opaque() {
            None => errs.required(&at, ""),
            Some(opaque) => {
                check_object(opaque.tree().get("parameters"), &at.field("parameters"), errs);
            }
        }
    }
}

/// An object that only a driver understands.
fn check_object(value: &Value, at: &FieldPath, errs: &mut ErrorList) {
    if value.is_null() {
        errs.required(at, "");
    } else if to_json(value).len() > MAX_PARAMETERS {
        errs.too_long(at, MAX_PARAMETERS);
    } else if !value.with_raw_expanded().is_object() {
        errs.invalid(at, "<value omitted>", "must be a valid JSON object");
    }
}

impl DeviceToleration {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let (value, at) = (self.value(), at.field("value"));
        match self.operator() {
            "Exists" if !value.is_empty() => {
                errs.invalid(&at, value, "must be empty for operator `Exists`");
            }
            "Equal" => errs.invalid_each(&at, value, names::label_value(value)),
            _ => {}
        }
    }
}

/// A device by its name, or a part of it that is shared.
type DeviceId<'a> = (&'a str, &'a str, &'a str, Option<&'a str>);

pub(super) fn check_status(claim: &ResourceClaim, old: &ResourceClaim, errs: &mut ErrorList) {
    let (new, before, at) = (claim.status(), old.status(), FieldPath::STATUS);
    let requests = Requests::of(claim.spec().devices());
    at.field("reservedFor").for_each_item(new.reserved_for().iter(), |user, at| {
        errs.required_field(at, "resource", user.resource());
        errs.required_field(at, "name", user.name());
        errs.required_field(at, "uid", user.uid());
    });
    let allocated = allocated(new);
    at.field("devices")
        .for_each_item(new.devices().iter(), |device, at| device.check(&allocated, at, errs));
    if !new.reserved_for().is_empty() {
        let at = at.field("reservedFor");
        let before = before.reserved_for().by_key(|user| user.tree());
        let known = |user: &super::ResourceClaimConsumerReference| before.contains_key(user.tree());
        if new.allocation().is_none() {
            errs.forbidden(&at, "may not be specified when `allocated` is not set");
        } else if claim.metadata().is_terminating() && !new.reserved_for().iter().all(known) {
            let why = "new entries may not be added while `deallocationRequested` or \
                       `deletionTimestamp` are set";
            errs.forbidden(&at, why);
        }
    }
    if let (Some(allocation), None) = (new.allocation(), before.allocation()) {
        allocation.check(&requests, &at.field("allocation"), errs);
    }
}

fn allocated(status: &ResourceClaimStatus) -> BTreeSet<DeviceId<'_>> {
    let results = status.allocation().map(|allocation| allocation.devices().results());
    let each = results.into_iter().flat_map(List::iter);
    each.map(|it| (it.driver(), it.pool(), it.device(), it.share_id())).collect()
}

impl ResourceClaimStatus {
    /// Devices that are no longer allocated have no status.
    pub(super) fn drop_deallocated(&mut self, old: &Self) {
        let was: BTreeSet<_> = allocated(old)
            .into_iter()
            .map(|(driver, pool, device, share)| {
                let share = share.map(str::to_owned);
                (driver.to_owned(), pool.to_owned(), device.to_owned(), share)
            })
            .collect();
        let is: BTreeSet<_> = allocated(self)
            .into_iter()
            .map(|(driver, pool, device, share)| {
                let share = share.map(str::to_owned);
                (driver.to_owned(), pool.to_owned(), device.to_owned(), share)
            })
            .collect();
        if self.devices().is_empty() {
            return;
        }
        let kept: List<AllocatedDeviceStatus> = self
            .devices()
            .iter()
            .filter(|it| {
                let id = (
                    it.driver().to_owned(),
                    it.pool().to_owned(),
                    it.device().to_owned(),
                    it.share_id().map(str::to_owned),
                );
                is.contains(&id) || !was.contains(&id)
            })
            .cloned()
            .collect();
        self.set_devices(kept);
    }
}

impl AllocatedDeviceStatus {
    fn check(&self, allocated: &BTreeSet<DeviceId<'_>>, at: &FieldPath, errs: &mut ErrorList) {
        check_csi_driver(&at.field("driver"), self.driver(), errs);
        check_pool(self.pool(), &at.field("pool"), errs);
        errs.label(&at.field("device"), self.device());
        let id = (self.driver(), self.pool(), self.device(), self.share_id());
        if !allocated.contains(&id) {
            let shown = format_go_fields(&[
                ("Driver", self.driver().into()),
                ("Pool", self.pool().into()),
                ("Device", self.device().into()),
                ("ShareID", self.share_id().unwrap_or_default().into()),
            ]);
            errs.invalid_formatted(at, shown, "must be an allocated device in the claim");
        }
        let here = at.field("conditions");
        errs.max_items(&here, self.conditions().len(), MAX_CONDITIONS);
        errs.conditions(&here, self.conditions());
        let data = self.tree().get("data");
        if !data.is_null() {
            check_object(data, &at.field("data"), errs);
        }
        for (i, address) in self.network_data().iter().flat_map(|it| it.ips().iter()).enumerate() {
            let wrong = wrong_interface(address);
            errs.invalid_each(&at.field("networkData").field("ips").index(i), address, wrong);
        }
    }
}

/// What is wrong with an address of an interface: an address and the size of its network.
fn wrong_interface(text: &str) -> Vec<String> {
    let Some((address, size)) = names::sloppy_cidr(text) else {
        let why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return vec![why.to_owned()];
    };
    let (address, size) = match (address.to_canonical(), size) {
        (short @ IpAddr::V4(_), size) if address.is_ipv6() && size >= 96 => (short, size - 96),
        _ => (address, size),
    };
    let canonical = format!("{address}/{size}");
    match text == canonical {
        true => Vec::new(),
        false => vec![format!("must be in canonical form ({canonical:?})")],
    }
}

impl AllocationResult {
    fn check(&self, requests: &Requests<'_>, at: &FieldPath, errs: &mut ErrorList) {
        let devices = at.field("devices");
        for (i, result) in self.devices().results().iter().enumerate() {
            result.check(requests, &devices.field("results").index(i), errs);
        }
        devices.field("config").for_each_item(self.devices().config().iter(), |config, at| {
            requests.check_all(config.requests(), at, errs);
            config.device_configuration().check(at, errs);
        });
        at.if_present("nodeSelector", self.node_selector(), |nodes, at| nodes.check(at, errs));
    }
}

impl DeviceRequestAllocationResult {
    fn check(&self, requests: &Requests<'_>, at: &FieldPath, errs: &mut ErrorList) {
        requests.check(self.request(), &at.field("request"), errs);
        errs.label(&at.field("device"), self.device());
        let failures = self.binding_failure_conditions();
        super::slice_rules::check_binding(self.binding_conditions(), failures, at, errs);
        at.field("tolerations")
            .for_each_item(self.tolerations().iter(), |it, at| it.check(at, errs));
        super::slice_rules::validate_skipped_operations(self.skip_node_operations(), at, errs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create_errors, created_from_json};

    #[test]
    fn constraints_name_requests() {
        let claim: ResourceClaim = created_from_json(
            r#"{"metadata":{"name":"c"},"spec":{"devices":{
                "requests":[{"name":"a","exactly":{"deviceClassName":"d"}}],
                "constraints":[{"requests":["b"],"matchAttribute":"x.y/z"}]}}}"#,
        );
        let at = "spec.devices.constraints[0].requests[0]";
        assert_eq!(create_errors(&claim), [format!("{at}: Invalid value: \"b\": {WHICH}")]);
    }
}
