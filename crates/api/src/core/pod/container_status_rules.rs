//! The rules for what is told of containers, and of devices that they got beside their claims.

use std::collections::BTreeSet;

use object::{List, names};
use schema::{ErrorList, FieldPath};

use super::{ContainerStatus, Pod, PodExtendedResourceClaimStatus, PodSpec, ResourceStatus};
use crate::{core::Container, rules::ValidateField};

const MAX_UID: i64 = u32::MAX as i64;
const MAX_MESSAGE: usize = 4096;

pub(super) fn check(pod: &Pod, errs: &mut ErrorList) {
    let (status, spec) = (pod.status(), pod.spec());
    let windows = spec.os().is_some_and(|os| os.name() == "windows");
    for (name, all, containers) in [
        ("containerStatuses", status.container_statuses(), Some(spec.containers())),
        ("initContainerStatuses", status.init_container_statuses(), Some(spec.init_containers())),
        ("ephemeralContainerStatuses", status.ephemeral_container_statuses(), None),
    ] {
        let at = FieldPath::STATUS.field(name);
        at.for_each_item(all.iter(), |container, at| {
            check_user(container, windows, at, errs);
            let devices = container.allocated_resources_status();
            let at = at.field("allocatedResourcesStatus");
            match containers {
                None if !devices.is_empty() => {
                    errs.forbidden(&at, "must not be specified in container status");
                }
                None => {}
                Some(containers) => {
                    let of = containers.find(|one| one.name() == container.name());
                    check_devices(devices, of, pod, &at, errs);
                }
            }
        });
    }
    if let Some(claim) = status.extended_resource_claim_status() {
        claim.check(spec, &FieldPath::STATUS.field("extendedResourceClaimStatus"), errs);
    }
}

fn check_user(status: &ContainerStatus, windows: bool, at: &FieldPath, errs: &mut ErrorList) {
    let Some(user) = status.user().and_then(|user| user.linux()) else { return };
    let at = at.field("user");
    let at = at.field("linux");
    if windows {
        return errs.forbidden(&at, "cannot be set for a windows pod");
    }
    if !(0..=MAX_UID).contains(&user.uid()) {
        let why = format!("must be between 0 and {MAX_UID}, inclusive");
        errs.invalid(&at.field("uid"), user.uid(), why);
    }
    errs.user_or_group_id(&at.field("gid"), Some(user.gid()));
    for (i, group) in user.supplemental_groups().iter().enumerate() {
        errs.user_or_group_id(&at.field("supplementalGroups").index(i), Some(group));
    }
}

fn check_devices(
    devices: &List<ResourceStatus>,
    container: Option<&Container>,
    pod: &Pod,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    at.for_each_item(devices.iter(), |device, at| {
        if let Some(container) = container
            && let Some(why) = unexpected_device_reason(device.name(), container, pod)
        {
            errs.invalid(&at.field("name"), device.name(), why);
        }
        let mut seen = BTreeSet::new();
        at.field("resources").for_each_item(device.resources().iter(), |health, at| {
            let known = ["Healthy", "Unhealthy", "Unknown"];
            errs.one_of(&at.field("health"), health.health(), &known);
            match health.message() {
                Some("") => errs.required(&at.field("message"), "must be non-empty if specified"),
                Some(text) if text.len() > MAX_MESSAGE => {
                    errs.too_long(&at.field("message"), MAX_MESSAGE);
                }
                _ => {}
            }
            errs.unique(&mut seen, &at.field("resourceID"), health.resource_id());
        });
    });
}

/// Why a container has no such device.
fn unexpected_device_reason(name: &str, container: &Container, pod: &Pod) -> Option<&'static str> {
    let resources = container.resources();
    let Some(claimed) = name.strip_prefix("claim:") else {
        let asked = resources.requests().get(name).is_some();
        return (!asked).then_some("must match one of the container's resource requests");
    };
    let (claim, request) = claimed.split_once('/').unwrap_or((claimed, ""));
    let own = resources.claims().find(|own| own.name() == claim && own.request() == request);
    let extended = pod.status().extended_resource_claim_status().is_some_and(|status| {
        status.resource_claim_name() == claim
            && status.request_mappings().iter().any(|mapping| {
                mapping.container_name() == container.name() && mapping.request_name() == request
            })
    });
    (own.is_none() && !extended).then_some(
        "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' \
         when container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty",
    )
}

impl PodExtendedResourceClaimStatus {
    fn check(&self, spec: &PodSpec, at: &FieldPath, errs: &mut ErrorList) {
        let mappings = at.field("requestMappings");
        if self.request_mappings().is_empty() {
            errs.required(&mappings, "at least one request mapping is required");
        }
        let mut seen = BTreeSet::new();
        for (i, mapping) in self.request_mappings().iter().enumerate() {
            let here = mappings.index(i);
            let (name, resource) = (mapping.container_name(), mapping.resource_name());
            let request = mapping.request_name();
            match spec.all_containers().find(|container| container.name() == name) {
                None => {
                    let why = "must match the name of an entry in spec.initContainers.name or \
                               spec.containers.name";
                    errs.invalid(&here.field("containerName"), name, why);
                }
                Some(container) if container.resources().requests().get(resource).is_none() => {
                    let why = "must match the extended resource name of an entry in \
                               spec.initContainers.resources.requests or \
                               spec.containers.resources.requests";
                    errs.invalid(&here.field("resourceName"), resource, why);
                }
                Some(_) => {}
            }
            errs.label(&at.field("requestName"), request);
            if !seen.insert((name, resource, request)) {
                errs.duplicate(&here.field("containerName"), name);
                errs.duplicate(&here.field("resourceName"), resource);
                errs.duplicate(&here.field("requestName"), request);
            }
        }
        let claim = self.resource_claim_name();
        errs.required_field(at, "resourceClaimName", claim);
        if !claim.is_empty() {
            let wrong = names::dns1123_subdomain(claim);
            errs.invalid_each(&at.field("resourceClaimName"), claim, wrong);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{PodStatus, ResourceHealth};

    #[test]
    fn devices_are_sound_or_not_and_none_is_of_a_guest() {
        let device = ResourceStatus::new()
            .with_name("x")
            .with_resources([ResourceHealth::new().with_health("Fine")]);
        let status = ContainerStatus::new().with_allocated_resources_status([device]);
        let pod = Pod::new().with_status(
            PodStatus::new()
                .with_container_statuses([status.clone()])
                .with_ephemeral_container_statuses([status]),
        );
        let mut errs = ErrorList::default();
        check(&pod, &mut errs);
        let paths: Vec<_> = errs.0.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health",
                "status.ephemeralContainerStatuses[0].allocatedResourcesStatus",
            ]
        );
    }
}
