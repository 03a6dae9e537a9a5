//! discovery/v1: EndpointSlice.

use std::collections::BTreeSet;

use crate::advice::CommonWarnings;
use macros::api;
use object::{List, Map, ObjectMeta, Value, names};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, TableColumn, WarningList};

use crate::{core::endpoints::check_endpoint_ip, rules::ValidateField};

use crate::{columns, generation};

use crate::core::ObjectReference;

/// A part of the endpoints of a service: addresses and ports.
#[api]
pub struct EndpointSlice {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Type of the addresses: IPv4, IPv6 or FQDN.
    #[api(tag = 4, go_type = "v1.AddressType", enum_values("FQDN", "IPv4", "IPv6"))]
    address_type: Must<String>,
    /// Endpoints, at most 1000.
    #[api(tag = 2, no_omitempty)]
    endpoints: List<Endpoint>,
    /// Ports of every endpoint of the slice.
    #[api(no_omitempty)]
    ports: List<EndpointPort>,
}

#[api]
pub struct Endpoint {
    /// Addresses of the endpoint. Only the first is used.
    #[api(set)]
    addresses: Must<List<String>>,
    /// Whether the endpoint is ready, serving or terminating.
    conditions: EndpointConditions,
    /// Host name of the endpoint, for DNS.
    hostname: Option<String>,
    /// Object that the endpoint belongs to, such as a pod.
    target_ref: Option<ObjectReference>,
    /// Deprecated: topology of the endpoint in the v1beta1 API.
    deprecated_topology: Map<String>,
    /// Node that the endpoint is on.
    node_name: Option<String>,
    /// Zone that the endpoint is in.
    zone: Option<String>,
    /// Which consumers should use the endpoint.
    hints: Option<EndpointHints>,
}

#[api]
pub struct EndpointConditions {
    /// Whether the endpoint accepts traffic.
    ready: Option<bool>,
    /// Whether the endpoint accepts traffic, regardless of termination.
    serving: Option<bool>,
    /// Whether the endpoint is terminating.
    terminating: Option<bool>,
}

#[api]
pub struct EndpointHints {
    /// The zones that should use it.
    for_zones: List<ForZone>,
    /// The nodes that should use it.
    for_nodes: List<ForNode>,
}

#[api]
pub struct ForZone {
    /// The name of the zone.
    name: Must<String>,
}

#[api]
pub struct ForNode {
    /// The name of the node.
    name: Must<String>,
}

#[api(atomic)]
pub struct EndpointPort {
    /// The name of the port; that of the service's port.
    #[api(default = "", unpublished_default)]
    name: Option<String>,
    /// Protocol: TCP, UDP or SCTP.
    #[api(
        default = "TCP",
        unpublished_default,
        go_type = "v1.Protocol",
        enum_values("SCTP", "TCP", "UDP")
    )]
    protocol: Option<String>,
    /// The number of the port.
    port: Option<i32>,
    /// The protocol that is spoken on the port.
    app_protocol: Option<String>,
}

impl Kind for EndpointSlice {
    const NAMES: ResourceNames =
        ResourceNames::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] = &["discovery.k8s.io/v1beta1"];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("AddressType", |slice, _| slice.address_type().into()),
        TableColumn::text("Ports", |slice, _| {
            let ports: Vec<_> = slice.ports().iter().map(EndpointPort::cell).collect();
            slice_cell(&ports)
        }),
        TableColumn::text("Endpoints", |slice, _| {
            let each = slice.endpoints().iter().flat_map(|endpoint| endpoint.addresses().iter());
            slice_cell(&each.map(str::to_owned).collect::<Vec<_>>())
        }),
        TableColumn::AGE,
    ];

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        if old.is_none() && self.address_type() == "FQDN" {
            warnings
                .push_at(&FieldPath::SPEC.field("addressType"), "FQDN endpoints are deprecated");
        }
        let manager = self.metadata().labels().get("endpointslice.kubernetes.io/managed-by");
        let ours = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
        if manager.is_some_and(|manager| ours.contains(&manager)) {
            return;
        }
        FieldPath::Root.field("endpoints").for_each_item(
            self.endpoints().iter(),
            |endpoint, at| {
                at.field("addresses")
                    .for_each_item(endpoint.addresses().iter(), |it, at| warnings.ip(at, it));
            },
        );
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.check(errs);
        self.check_endpoints(&FieldPath::Root.field("endpoints"), errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.check(errs);
        if self.endpoints() != old.endpoints() {
            self.check_endpoints(&FieldPath::Root.field("endpoints"), errs);
        }
        if self.address_type() != old.address_type() {
            errs.invalid(&FieldPath::Root.field("addressType"), Value::Null, "field is immutable");
        }
    }

    fn prepare_create(&mut self) {
        generation::init(self.metadata_mut());
        self.drop_topology();
    }

    fn prepare_update(&mut self, old: &Self) {
        // What is dropped below is a change all the same.
        let changed = self.address_type() != old.address_type()
            || self.endpoints() != old.endpoints()
            || self.ports() != old.ports()
            || self.metadata().labels() != old.metadata().labels();
        generation::bump_if(self.metadata_mut(), old.metadata(), changed);
        if old.endpoints().iter().all(|endpoint| endpoint.deprecated_topology().is_empty()) {
            self.drop_topology();
        }
    }
}

impl EndpointSlice {
    /// Of no use since zones and nodes have fields of their own.
    fn drop_topology(&mut self) {
        if !self.endpoints().is_empty() {
            let each = self.endpoints_mut().iter_mut();
            each.for_each(|endpoint| endpoint.set_deprecated_topology([("", ""); 0]));
        }
    }
}

impl EndpointPort {
    fn cell(&self) -> String {
        self.port().map_or_else(|| self.name().to_owned(), |port| port.to_string())
    }
}

fn slice_cell(all: &[String]) -> Value {
    columns::text_or_unset(&columns::first_three(all))
}

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_HINTS: usize = 8;

impl EndpointSlice {
    fn check(&self, errs: &mut ErrorList) {
        let at = FieldPath::Root.field("addressType");
        errs.required_one_of(&at, self.address_type(), &["FQDN", "IPv4", "IPv6"]);
        let at = FieldPath::Root.field("ports");
        if self.ports().len() > MAX_PORTS {
            return errs.too_many_with_count(&at, self.ports().len(), MAX_PORTS);
        }
        let mut seen = BTreeSet::new();
        for (i, port) in self.ports().iter().enumerate() {
            let (at, name) = (at.index(i), port.name());
            errs.optional_format(&at.field("name"), name, names::dns1123_label);
            errs.unique(&mut seen, &at.field("name"), name);
            errs.one_of(&at.field("protocol"), port.protocol(), &["SCTP", "TCP", "UDP"]);
            at.if_present("appProtocol", port.app_protocol(), |it, at| errs.qualified(at, it));
        }
    }

    fn check_endpoints(&self, at: &FieldPath, errs: &mut ErrorList) {
        if self.endpoints().len() > MAX_ENDPOINTS {
            return errs.too_many_with_count(at, self.endpoints().len(), MAX_ENDPOINTS);
        }
        at.for_each_item(self.endpoints().iter(), |it, at| it.check(self.address_type(), at, errs));
    }
}

impl Endpoint {
    fn check(&self, kind: &str, at: &FieldPath, errs: &mut ErrorList) {
        let addresses = at.field("addresses");
        match self.addresses().len() {
            0 => errs.required(&addresses, ""),
            n if n > MAX_ADDRESSES => errs.too_many_with_count(&addresses, n, MAX_ADDRESSES),
            _ => {}
        }
        for (i, address) in self.addresses().iter().enumerate() {
            check_address(kind, address, &addresses, i, errs);
        }
        at.if_present("nodeName", self.node_name(), |node, at| errs.subdomain(at, node));
        at.if_present("hostname", self.hostname(), |name, at| errs.label(at, name));
        at.if_present("hints", self.hints(), |hints, at| hints.check(at, errs));
    }
}

fn check_address(kind: &str, address: &str, list: &FieldPath, i: usize, errs: &mut ErrorList) {
    let (at, before) = (list.index(i), errs.0.len());
    match kind {
        "IPv4" => errs.invalid_each(&at, address, names::legacy_ip(address, &[])),
        "IPv6" => errs.invalid_each(&at, address, names::ip(address)),
        "FQDN" => return check_domain(address, &at, errs),
        _ => return,
    }
    if errs.0.len() != before {
        return;
    }
    if names::sloppy_ip(address).is_some_and(|ip| ip.is_ipv4() != (kind == "IPv4")) {
        errs.invalid(list, address, format!("must be an {kind} address"));
    }
    check_endpoint_ip(address, &at, errs);
}

/// A name with at least two parts.
fn check_domain(name: &str, at: &FieldPath, errs: &mut ErrorList) {
    if name.is_empty() {
        return errs.required(at, "");
    }
    let bare = name.strip_suffix('.').unwrap_or(name);
    let wrong = names::dns1123_subdomain(bare);
    if wrong.is_empty() && bare.split('.').count() < 2 {
        let why = "should be a domain with at least two segments separated by dots";
        return errs.invalid(at, name, why);
    }
    if wrong.is_empty() {
        for label in bare.split('.').filter(|label| label.len() > 63) {
            errs.invalid(at, label, "must be no more than 63 bytes");
        }
    }
    errs.invalid_each(at, bare, wrong);
}

impl EndpointHints {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let zones = at.field("forZones");
        if self.for_zones().len() > MAX_HINTS {
            return errs.too_many_with_count(&zones, self.for_zones().len(), MAX_HINTS);
        }
        let mut seen = BTreeSet::new();
        for (i, zone) in self.for_zones().iter().enumerate() {
            let (at, name) = (zones.index(i), zone.name());
            errs.unique(&mut seen, &at.field("name"), name);
            errs.invalid_each(&at.field("name"), name, names::label_value(name));
        }
        let nodes = at.field("forNodes");
        if self.for_nodes().len() > MAX_HINTS {
            return errs.too_many_with_count(&nodes, self.for_nodes().len(), MAX_HINTS);
        }
        let mut seen = BTreeSet::new();
        for (i, node) in self.for_nodes().iter().enumerate() {
            let (at, name) = (nodes.index(i), node.name());
            errs.unique(&mut seen, &at.field("name"), name);
            errs.subdomain(&at.field("name"), name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cell, created_from_json};

    #[test]
    fn ports_without_number_and_name_are_unset() {
        let slice: EndpointSlice =
            created_from_json(r#"{"addressType":"IPv4","ports":[{"protocol":"TCP"}]}"#);
        assert_eq!(cell(&slice, "Ports"), "<unset>");
    }
}
