//! Targets of the proxy subresources, resolved as upstream does: a pod at its own address, a
//! Service at a pod of its namespace, a node at its kubelet's address.

use std::sync::atomic::{AtomicUsize, Ordering};

use api::{
    core::{Pod, Service},
    discovery::{Endpoint, EndpointPort, EndpointSlice},
};
use object::{Lens as _, Status, View, selector::Selector};
use server::{ListOptions, Registry, Selection};

/// Counter for round-robin over the endpoints of a Service.
static TURN: AtomicUsize = AtomicUsize::new(0);

/// The target in the path: `[scheme:]name[:port]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) scheme: String,
    pub(super) name: String,
    pub(super) port: String,
}

impl Target {
    /// `what` names the kind of target in the error message.
    pub(super) fn parse(what: &str, id: &str) -> Result<Self, Status> {
        let parts: Vec<&str> = id.split(':').collect();
        let (scheme, name, port) = match &*parts {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => ("", "", ""),
        };
        if name.is_empty() || !matches!(scheme, "" | "http" | "https") {
            return Err(Status::bad_request(format!("invalid {what} request {id:?}")));
        }
        Ok(Self { scheme: scheme.to_owned(), name: name.to_owned(), port: port.to_owned() })
    }

    /// The port number; `None` if the path has none.
    pub(super) fn number(&self) -> Result<Option<u16>, Status> {
        if self.port.is_empty() {
            return Ok(None);
        }
        self.port.parse().map(Some).map_err(|_| {
            let why = format!("dial tcp: address {}: invalid port", self.port);
            Status::unavailable(format!("error trying to reach service: {why}"))
        })
    }
}

/// Address and port of a ready endpoint of a Service, which must be a pod of the same namespace: a
/// user who can write EndpointSlices could otherwise name any address.
pub(super) fn endpoint(
    registry: &Registry,
    namespace: &str,
    target: &Target,
) -> Result<(String, u16), Status> {
    let name = &*target.name;
    let unavailable =
        || Status::unavailable(format!("no endpoints available for service {name:?}"));
    let services = registry.kind("", "services")?;
    let service = registry.get(&services, namespace, name);
    let mut port = target.port.clone();
    if let Ok(number) = port.parse::<i64>() {
        let service = service.as_ref().map_err(Clone::clone)?;
        let ports = Service::view(&service.object).spec().ports();
        let own = ports.find(|own| i64::from(own.port()) == number).ok_or_else(|| {
            let why = format!("no service port {number} found for service {name:?}");
            Status::unavailable(why)
        })?;
        own.name().clone_into(&mut port);
    }
    let slices = registry.kind("discovery.k8s.io", "endpointslices")?;
    let labels = Selector::from_labels([("kubernetes.io/service-name", name)]);
    let selection = Selection { labels, ..Selection::namespace(namespace) };
    let mut slices = registry.list(&slices, &selection, &ListOptions::default())?.items;
    let families = service.as_ref().ok().map(|own| Service::view(&own.object).spec().ip_families());
    let preferred = families.and_then(|families| families.iter().next()).unwrap_or_default();
    slices.sort_by_key(|slice| EndpointSlice::view(&slice.object).address_type() != preferred);
    let pods = Pods { registry, namespace };
    let slices = slices.iter().map(|slice| EndpointSlice::view(&slice.object));
    let mut found = slices.filter_map(|slice| pods.of(slice, &port));
    found.next().ok_or_else(unavailable)
}

/// Looks up pods of a namespace.
struct Pods<'a> {
    registry: &'a Registry,
    namespace: &'a str,
}

impl Pods<'_> {
    /// A ready endpoint of the slice, round-robin.
    fn of(&self, slice: &EndpointSlice, port: &str) -> Option<(String, u16)> {
        let port = slice.ports().find(|own| own.name() == port).and_then(EndpointPort::port)?;
        let port = u16::try_from(port).ok()?;
        let endpoints: Vec<&Endpoint> = slice.endpoints().iter().collect();
        let first = TURN.fetch_add(1, Ordering::Relaxed) % endpoints.len().max(1);
        let turns = endpoints.iter().cycle().skip(first).take(endpoints.len());
        let mut ready = turns.filter(|own| own.conditions().ready() != Some(false));
        ready.find_map(|endpoint| Some((self.address(endpoint)?, port)))
    }

    /// The address of an endpoint, if it is really that of the pod in its targetRef.
    fn address(&self, endpoint: &Endpoint) -> Option<String> {
        let address = endpoint.addresses().iter().next()?;
        let target = endpoint.tree().get("targetRef");
        let name = target.get("name").as_str()?;
        if target.get("namespace").as_str() != Some(self.namespace) {
            return None;
        }
        let kind = self.registry.kind("", "pods").ok()?;
        let pod = self.registry.get(&kind, self.namespace, name).ok()?;
        let own = Pod::view(&pod.object).status().pod_ips();
        own.iter().any(|own| own.ip() == address).then(|| address.to_owned())
    }
}

/// Escapes a path for a URL, as Go does.
pub(super) fn escaped(path: &str) -> String {
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"-._~$&+,/:;=@".contains(&c);
    let each = path.bytes().map(|c| match c {
        c if plain(c) => char::from(c).to_string(),
        c => format!("%{c:02X}"),
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_up_to_three_parts() {
        let parts = |id: &str| {
            let Target { scheme, name, port } = Target::parse("pod", id).ok()?;
            Some([scheme, name, port])
        };
        assert_eq!(parts("a"), Some(["", "a", ""].map(str::to_owned)));
        assert_eq!(parts("a:b"), Some(["", "a", "b"].map(str::to_owned)));
        assert_eq!(parts("https:a:"), Some(["https", "a", ""].map(str::to_owned)));
        for wrong in ["", ":80", "ftp:a:1", "http:a:1:2", "http::80"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn paths_are_escaped_again() {
        assert_eq!(escaped("a b/?c#%\r\nü"), "a%20b/%3Fc%23%25%0D%0A%C3%BC");
        assert_eq!(escaped("~a:b@c;d=e,f+g"), "~a:b@c;d=e,f+g");
    }
}
