//! Repair of cluster IPs: every cluster IP must have an IPAddress object that refers to its
//! Service, and every such object a Service that has the address.

use std::net::IpAddr;

use api::core::Service;
use object::{Object, Status, Time, Value, View};
use server::{ListOptions, Registry, Selection};

use super::events::{self, EventSubject};
use crate::{
    bootstrap::internal_context,
    service_allocator::{
        ServiceCidr, ServiceResources,
        addresses::{FAMILY, GROUP, MANAGED, family, object, parent, ranges, remove},
    },
};

/// Age in seconds up to which an IPAddress may belong to a write that is still in progress.
const UNDER_WAY: i64 = 60;
/// Time in seconds within which a failed write releases its addresses.
const TAKEN_BACK: i64 = 5;
const WHO: &str = "ipallocator-repair-controller";

/// Repairs all Services, then all IPAddresses.
pub(super) async fn repair(registry: &Registry) -> Result<(), Status> {
    let services = registry.kind("", "services")?;
    let list = registry.list(&services, &Selection::default(), &ListOptions::default())?;
    let ranges = ranges(registry, false)?;
    for version in &list.items {
        repair_service(registry, Service::view(&version.object), &ranges).await?;
    }
    let kind = registry.kind(GROUP, "ipaddresses")?;
    let list = registry.list(&kind, &Selection::default(), &ListOptions::default())?;
    for version in &list.items {
        let address = &version.object;
        let owner = parent(address)
            .and_then(|(namespace, name)| registry.get(&services, namespace, name).ok());
        let owner = owner.as_ref().map(|version| Service::view(&version.object));
        if let Some((reason, note)) = orphan_reason(address, owner, registry.clock().now()) {
            let about = EventSubject::address(Object::view(address).metadata());
            events::warn(registry, about, (WHO, reason, "IPAddressAllocation"), &note).await;
            remove(registry, Object::view(address).metadata().name()).await?;
        }
    }
    Ok(())
}

/// Repairs one Service.
pub(super) async fn repair_one(registry: &Registry, service: &Service) -> Result<(), Status> {
    // Most need no repair, and the CIDRs need not be read to see that.
    let kind = registry.kind(GROUP, "ipaddresses")?;
    let own = owner(service);
    let mut names = ServiceResources::of(service).addresses.into_iter();
    let well = |name: String| {
        let found = registry.get(&kind, "", &name);
        found.is_ok_and(|version| {
            parent(&version.object) == Some(own) && is_labelled(&version.object)
        })
    };
    if names.all(well) {
        return Ok(());
    }
    repair_service(registry, service, &ranges(registry, false)?).await
}

async fn repair_service(
    registry: &Registry,
    service: &Service,
    ranges: &[ServiceCidr],
) -> Result<(), Status> {
    let kind = registry.kind(GROUP, "ipaddresses")?;
    let services = registry.kind("", "services")?;
    for name in ServiceResources::of(service).addresses {
        let found = registry.get(&kind, "", &name).ok();
        let found = found.as_ref().map(|version| &version.object);
        let other = found.and_then(parent).filter(|parent| *parent != owner(service));
        let other =
            other.and_then(|(namespace, name)| registry.get(&services, namespace, name).ok());
        let other = other.as_ref().map(|version| Service::view(&version.object));
        let verdict = verdict(service, &name, (found, other), ranges);
        if let Some((reason, note)) = verdict.wrong {
            let about = EventSubject::service(service);
            events::warn(registry, about, (WHO, reason, "ClusterIPAllocation"), &note).await;
        }
        if verdict.anew {
            if found.is_some() {
                remove(registry, &name).await?;
            }
            let made = object(&name, owner(service));
            match registry.create(&mut internal_context(), &kind, "", made).await {
                Err(status) if !status.has_reason("AlreadyExists") => return Err(status),
                _ => {} // another server was faster
            }
        }
    }
    Ok(())
}

/// The result of checking one cluster IP: the event to record, if any.
#[derive(Debug, Default, PartialEq, Eq)]
struct IpFinding {
    wrong: Option<(&'static str, String)>,
    /// Whether the IPAddress must be created, or deleted and created again.
    anew: bool,
}

/// Checks a cluster IP against its IPAddress object, and the other Service that it refers to.
fn verdict(
    service: &Service,
    name: &str,
    (found, other): (Option<&Value>, Option<&Service>),
    ranges: &[ServiceCidr],
) -> IpFinding {
    let (own, family) = (owner(service), family(name));
    let inside =
        name.parse::<IpAddr>().is_ok_and(|ip| ranges.iter().any(|range| range.contains(ip)));
    let anew =
        |note: String| IpFinding { wrong: Some(("ClusterIPNotAllocated", note)), anew: true };
    if !inside {
        let note = format!(
            "Cluster IP [{family}]: {name} is not within any configured Service CIDR; please \
             recreate service"
        );
        return IpFinding { wrong: Some(("ClusterIPOutOfRange", note)), anew: false };
    }
    let Some(found) = found else {
        return anew(format!("Cluster IP [{family}]: {name} is not allocated; repairing"));
    };
    let elsewhere = || {
        format!(
            "the ClusterIP [{family}]: {name} for Service {}/{} has a wrong reference; repairing",
            own.0, own.1
        )
    };
    match parent(found) {
        None => return anew(elsewhere()),
        Some(parent) if parent == own => {}
        Some(_) => match other {
            None => return anew(elsewhere()),
            Some(other) if ServiceResources::of(other).addresses.iter().any(|ip| ip == name) => {
                let note = format!(
                    "Cluster IP [{family}]:{name} was assigned to multiple services; please \
                     recreate service"
                );
                return IpFinding { wrong: Some(("ClusterIPAlreadyAllocated", note)), anew: false };
            }
            Some(_) => {}
        },
    }
    IpFinding { wrong: None, anew: !is_labelled(found) }
}

/// Why an IPAddress is to be deleted: its Service does not exist or does not have the address.
fn orphan_reason(
    address: &Value,
    owner: Option<&Service>,
    now: i64,
) -> Option<(&'static str, String)> {
    let meta = Object::view(address).metadata();
    let name = meta.name();
    if meta.labels().get(MANAGED.0) != Some(MANAGED.1) {
        return None;
    }
    let Some((namespace, service)) = parent(address) else {
        let note = format!(
            "IPAddress {name} appears to have been modified, not referencing a Service: cleaning up"
        );
        return Some(("IPAddressNotAllocated", note));
    };
    let made = |text: &str| Time::parse_seconds(text).unwrap_or(now);
    let since = made(meta.creation_timestamp());
    let Some(owner) = owner else {
        let note = format!(
            "IPAddress: {name} for Service {namespace}/{service} appears to have leaked: cleaning up"
        );
        return (now - since > UNDER_WAY).then_some(("IPAddressNotAllocated", note));
    };
    let spec = owner.spec();
    let younger = since > made(owner.metadata().creation_timestamp());
    let young = (spec.type_() == "ExternalName" && now - since < UNDER_WAY)
        || (younger && now - since < TAKEN_BACK);
    if ServiceResources::of(owner).addresses.iter().any(|ip| ip == name) || young {
        return None;
    }
    let note = format!(
        "IPAddress: {name} for Service {namespace}/{service} has a wrong reference; cleaning up"
    );
    Some(("IPAddressWrongReference", note))
}

fn owner(service: &Service) -> (&str, &str) {
    (service.metadata().namespace(), service.metadata().name())
}

fn is_labelled(address: &Value) -> bool {
    let meta = Object::view(address).metadata();
    meta.labels().get(FAMILY) == Some(family(meta.name()))
        && meta.labels().get(MANAGED.0) == Some(MANAGED.1)
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn service(name: &str, ip: &str) -> Service {
        let text = format!(
            r#"{{"metadata":{{"namespace":"d","name":"{name}","creationTimestamp":"1970-01-01T00:00:00Z"}},
            "spec":{{"type":"ClusterIP","clusterIPs":["{ip}"]}}}}"#
        );
        Service::from(from_json(text.as_bytes()).unwrap())
    }

    fn address(owner: &str) -> Value {
        let mut address = object("10.0.0.1", ("d", owner));
        address["metadata"]["creationTimestamp"] = Time::format(100).into();
        address
    }

    #[test]
    fn every_address_gets_its_object_back() {
        let (own, ranges) = (service("a", "10.0.0.1"), ["10.0.0.0/24".parse().unwrap()]);
        let look = |found: Option<&Value>, other: Option<&Service>| {
            let verdict = verdict(&own, "10.0.0.1", (found, other), &ranges);
            (verdict.wrong.map_or("", |(reason, _)| reason), verdict.anew)
        };
        assert_eq!(look(None, None), ("ClusterIPNotAllocated", true));
        assert_eq!(look(Some(&address("a")), None), ("", false));
        assert_eq!(look(Some(&address("b")), None), ("ClusterIPNotAllocated", true));
        let twin = service("b", "10.0.0.1");
        let twice = look(Some(&address("b")), Some(&twin));
        assert_eq!(twice, ("ClusterIPAlreadyAllocated", false));
        let mut bare = address("a");
        bare["metadata"].remove("labels");
        assert_eq!(look(Some(&bare), None), ("", true));
        let outside = verdict(&own, "10.0.1.1", (None, None), &ranges);
        assert_eq!(outside.wrong.unwrap().0, "ClusterIPOutOfRange");
    }

    #[test]
    fn what_nobody_has_is_removed_when_no_write_can_be_under_way() {
        let reason = |owner: Option<&Service>, now| {
            orphan_reason(&address("a"), owner, now).map_or("", |(reason, _)| reason)
        };
        assert_eq!(reason(None, 160), "");
        assert_eq!(reason(None, 161), "IPAddressNotAllocated");
        assert_eq!(reason(Some(&service("a", "10.0.0.1")), 900), "");
        let other = service("a", "10.0.0.2");
        assert_eq!(reason(Some(&other), 104), "");
        assert_eq!(reason(Some(&other), 106), "IPAddressWrongReference");
        let mut foreign = address("a");
        foreign["metadata"].remove("labels");
        assert_eq!(orphan_reason(&foreign, None, 900), None, "somebody else's");
    }
}
