//! Allocation of cluster IPs: a Service owns an address once its IPAddress object of that name is
//! created.

use std::net::IpAddr;

use object::{Object, Status, Value, View};
use server::{DeleteRequest, ListOptions, Registry, Selection};

use super::ServiceCidr;
use crate::bootstrap::internal_context;

pub(super) const GROUP: &str = "networking.k8s.io";
pub(super) const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
pub(super) const MANAGED: (&str, &str) =
    ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
/// The Service that every server creates at its start, perhaps several at once.
const KUBERNETES: (&str, &str) = ("default", "kubernetes");

/// Allocates cluster IPs for one Service.
#[derive(Debug)]
pub(super) struct IpAllocator<'a> {
    pub(super) registry: &'a Registry,
    /// Namespace and name of the Service.
    pub(super) owner: (&'a str, &'a str),
    /// The CIDRs that are ready.
    pub(super) ranges: Vec<ServiceCidr>,
    pub(super) dry_run: bool,
}

/// Why no address was allocated.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AllocateError {
    Full,
    For(String),
}

impl IpAllocator<'_> {
    /// Allocates this address. Returns its name, unless the Service already has it.
    pub(super) async fn allocate(&self, ip: IpAddr) -> Result<Option<String>, String> {
        if self.dry_run {
            let own = |range: &&ServiceCidr| range.is_ipv4() == ip.is_ipv4();
            return match self.ranges.iter().find(own) {
                Some(range) if range.contains(ip) => Ok(None),
                Some(range) => Err(format!(
                    "the provided IP ({ip}) is not in the valid range. The range of valid IPs is \
                     {range}"
                )),
                None => Err("allocator not ready".to_owned()),
            };
        }
        if !self.ranges.iter().any(|range| range.contains(ip)) {
            return Err("the provided network does not match the current range".to_owned());
        }
        let name = ip.to_string();
        match self.create(&name).await {
            Ok(()) => Ok(Some(name)),
            Err(status) if !status.has_reason("AlreadyExists") => Err(status.message().to_owned()),
            Err(_) if self.owner == KUBERNETES && self.is_own(&name) => Ok(None),
            Err(_) => Err("provided IP is already allocated".to_owned()),
        }
    }

    /// Allocates any free address of a family.
    pub(super) async fn allocate_next(&self, family: &str) -> Result<IpAddr, AllocateError> {
        let kind = self.registry.kind(GROUP, "ipaddresses");
        let kind = kind.map_err(|status| AllocateError::For(status.message().to_owned()))?;
        for range in self.ranges.iter().filter(|range| range.family() == family) {
            if self.dry_run {
                return Ok(range.base());
            }
            for ip in range.dynamic() {
                let name = ip.to_string();
                if self.registry.get(&kind, "", &name).is_ok() {
                    continue;
                }
                match self.create(&name).await {
                    Ok(()) => return Ok(ip),
                    Err(status) if status.has_reason("AlreadyExists") => {} // another server was faster
                    Err(status) => return Err(AllocateError::For(status.message().to_owned())),
                }
            }
        }
        Err(AllocateError::Full)
    }

    async fn create(&self, name: &str) -> Result<(), Status> {
        let kind = self.registry.kind(GROUP, "ipaddresses")?;
        let object = object(name, self.owner);
        self.registry.create(&mut internal_context(), &kind, "", object).await.map(drop)
    }

    fn is_own(&self, name: &str) -> bool {
        let kind = self.registry.kind(GROUP, "ipaddresses");
        let found = kind.and_then(|kind| self.registry.get(&kind, "", name));
        found.is_ok_and(|version| parent(&version.object) == Some(self.owner))
    }
}

/// Releases an address, if it belongs to this Service.
pub(super) async fn release(
    registry: &Registry,
    owner: (&str, &str),
    name: &str,
) -> Result<(), Status> {
    let kind = registry.kind(GROUP, "ipaddresses")?;
    let Ok(version) = registry.get(&kind, "", name) else { return Ok(()) };
    if parent(&version.object) != Some(owner) {
        return Ok(());
    }
    remove(registry, name).await
}

/// Deletes the IPAddress object, if it still exists.
pub(super) async fn remove(registry: &Registry, name: &str) -> Result<(), Status> {
    let kind = registry.kind(GROUP, "ipaddresses")?;
    match registry
        .delete(&mut internal_context(), &kind, ("", name), &DeleteRequest::default())
        .await
    {
        Err(status) if status.code() == 404 => Ok(()),
        done => done.map(drop),
    }
}

/// The CIDRs of all ServiceCIDRs; with `ready`, only of those that are ready and not being deleted.
pub(super) fn ranges(registry: &Registry, ready: bool) -> Result<Vec<ServiceCidr>, Status> {
    let kind = registry.kind(GROUP, "servicecidrs")?;
    let list = registry.list(&kind, &Selection::default(), &ListOptions::default())?;
    let mut ranges: Vec<ServiceCidr> = Vec::new();
    for version in list.items.iter().filter(|version| !ready || is_ready(&version.object)) {
        let given = version.object.get("spec").get("cidrs").items();
        let given = given.iter().filter_map(Value::as_str);
        for range in given.filter_map(|text| text.parse().ok()) {
            if !ranges.contains(&range) {
                ranges.push(range);
            }
        }
    }
    Ok(ranges)
}

/// The Service that an IPAddress belongs to: namespace and name. `None` if it belongs to something
/// else.
pub(super) fn parent(address: &Value) -> Option<(&str, &str)> {
    let parent = address.get("spec").get("parentRef");
    let text = |name: &str| parent.get(name).as_str().unwrap_or_default();
    let is_service = text("group").is_empty() && text("resource") == "services";
    is_service.then(|| (text("namespace"), text("name")))
}

/// The IPAddress object of an address.
pub(super) fn object(ip: &str, (namespace, name): (&str, &str)) -> Value {
    let mut object = Value::object();
    object["apiVersion"] = "networking.k8s.io/v1".into();
    object["kind"] = "IPAddress".into();
    object["metadata"]["name"] = ip.into();
    object["metadata"]["labels"][FAMILY] = family(ip).into();
    object["metadata"]["labels"][MANAGED.0] = MANAGED.1.into();
    let parent = &mut object["spec"]["parentRef"];
    parent["resource"] = "services".into();
    parent["namespace"] = namespace.into();
    parent["name"] = name.into();
    object
}

pub(super) fn family(ip: &str) -> &'static str {
    if ip.contains(':') { "IPv6" } else { "IPv4" }
}

/// Whether a ServiceCIDR is ready. One without a Ready condition counts as ready, because no
/// controller may be running to set it.
fn is_ready(range: &Value) -> bool {
    let conditions = range.get("status").get("conditions").items();
    let ready = conditions.iter().find(|own| own.get("type").as_str() == Some("Ready"));
    ready.is_none_or(|own| own.get("status").as_str() == Some("True"))
        && !Object::view(range).metadata().is_terminating()
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn an_address_names_its_service() {
        for odd in [r#"a"b"#, r#"x"},"metadata":{"name":"y"}"#, "\\", "\n"] {
            let one = object("10.0.0.1", (odd, odd));
            assert_eq!(parent(&one), Some((odd, odd)), "{odd:?}");
            assert_eq!(one["metadata"]["name"].as_str(), Some("10.0.0.1"), "{odd:?}");
        }
        let one = object("fd00::1", ("d", "s"));
        assert_eq!(parent(&one), Some(("d", "s")));
        assert_eq!(one["metadata"]["labels"][FAMILY].as_str(), Some("IPv6"));
        let other = from_json(br#"{"spec":{"parentRef":{"group":"g","resource":"services"}}}"#);
        assert_eq!(parent(&other.unwrap()), None);
    }

    #[test]
    fn a_range_is_ready_unless_it_says_otherwise() {
        let with = |status: &str| {
            let text = format!(
                r#"{{"status":{{"conditions":[{{"type":"Ready","status":"{status}"}}]}}}}"#
            );
            from_json(text.as_bytes()).unwrap()
        };
        assert!(is_ready(&Value::object()) && is_ready(&with("True")));
        assert!(!is_ready(&with("False")) && !is_ready(&with("Unknown")));
        let ending = br#"{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}"#;
        assert!(!is_ready(&from_json(ending).unwrap()));
    }
}
