//! core/v1: Endpoints.

use std::net::IpAddr;

use crate::{advice::CommonWarnings, columns, rules::ValidateField};
use macros::api;
use object::{List, ObjectMeta, names};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, StorageConfig, TableColumn, WarningList};

use super::ObjectReference;

/// The addresses of a service, as older clients read them.
#[api]
pub struct Endpoints {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Addresses with the ports that they have in common.
    subsets: List<EndpointSubset>,
}

#[api]
pub struct EndpointSubset {
    /// The addresses that are ready.
    addresses: List<EndpointAddress>,
    /// The addresses that are not ready yet.
    not_ready_addresses: List<EndpointAddress>,
    /// The ports that they have.
    ports: List<EndpointPort>,
}

#[api(atomic)]
pub struct EndpointAddress {
    /// The address.
    ip: Must<String>,
    /// The host name of the endpoint.
    #[api(tag = 3)]
    hostname: String,
    /// The node that the endpoint is on.
    node_name: Option<String>,
    /// The object that the address belongs to.
    #[api(tag = 2)]
    target_ref: Option<ObjectReference>,
}

#[api(atomic)]
pub struct EndpointPort {
    /// The name of the port; that of the service's port.
    name: String,
    /// The number of the port.
    port: Must<i32>,
    /// Protocol: TCP, UDP or SCTP.
    #[api(
        default = "TCP",
        unpublished_default,
        go_type = "v1.Protocol",
        enum_values("SCTP", "TCP", "UDP")
    )]
    protocol: String,
    /// The protocol that is spoken on the port.
    app_protocol: Option<String>,
}

impl Kind for Endpoints {
    const NAMES: ResourceNames =
        ResourceNames::new("", "v1", "Endpoints", "endpoints").short(&["ep"]);
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const STORAGE: StorageConfig = StorageConfig::new("services/endpoints", "v1");
    const DEPRECATED: &str = "deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
    const CREATED_BY_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Endpoints", |endpoints, _| endpoints.cell().into()),
        TableColumn::AGE,
    ];

    fn warn(&self, _old: Option<&Self>, warnings: &mut WarningList) {
        let manager = self.metadata().labels().get("endpoints.kubernetes.io/managed-by");
        if manager == Some("endpoint-controller") {
            return;
        }
        FieldPath::Root.field("subsets").for_each_item(self.subsets().iter(), |subset, at| {
            for (name, addresses) in [
                ("addresses", subset.addresses()),
                ("notReadyAddresses", subset.not_ready_addresses()),
            ] {
                at.field(name).for_each_item(addresses.iter(), |it, at| {
                    warnings.ip(&at.field("ip"), it.ip());
                });
            }
        });
    }

    fn validate(&self, errs: &mut ErrorList) {
        FieldPath::Root
            .field("subsets")
            .for_each_item(self.subsets().iter(), |it, at| it.check(at, errs));
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        if self.subsets() != old.subsets() {
            self.validate(errs);
        }
    }
}

impl Endpoints {
    /// The addresses, as tables show them.
    fn cell(&self) -> String {
        if self.subsets().is_empty() {
            return columns::NONE.into();
        }
        let all: Vec<_> = self.subsets().iter().flat_map(EndpointSubset::cells).collect();
        columns::first_three(&all)
    }
}

impl EndpointSubset {
    /// Each address with each port.
    fn cells(&self) -> Vec<String> {
        let ips = || self.addresses().iter().map(EndpointAddress::ip);
        if self.ports().is_empty() {
            return ips().map(str::to_owned).collect();
        }
        let with = |port: i32| {
            ips().map(move |ip| {
                if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
            })
        };
        self.ports().iter().flat_map(|port| with(port.port())).collect()
    }
}

impl EndpointSubset {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        if self.addresses().is_empty() && self.not_ready_addresses().is_empty() {
            errs.required(at, "must specify `addresses` or `notReadyAddresses`");
        }
        for (name, list) in
            [("addresses", self.addresses()), ("notReadyAddresses", self.not_ready_addresses())]
        {
            at.field(name).for_each_item(list.iter(), |address, at| address.check(at, errs));
        }
        for (i, port) in self.ports().iter().enumerate() {
            port.check(self.ports().len() > 1, &at.field("ports").index(i), errs);
        }
    }
}

impl EndpointAddress {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.invalid_each(&at.field("ip"), self.ip(), names::legacy_ip(self.ip(), &[]));
        errs.optional_format(&at.field("hostname"), self.hostname(), names::dns1123_label);
        at.if_present("nodeName", self.node_name(), |node, at| errs.subdomain(at, node));
        check_endpoint_ip(self.ip(), &at.field("ip"), errs);
    }
}

impl EndpointPort {
    fn check(&self, named: bool, at: &FieldPath, errs: &mut ErrorList) {
        match self.name() {
            "" if named => errs.required(&at.field("name"), ""),
            "" => {}
            name => errs.label(&at.field("name"), name),
        }
        errs.port(&at.field("port"), self.port());
        errs.one_of(&at.field("protocol"), self.protocol(), &["SCTP", "TCP", "UDP"]);
        at.if_present("appProtocol", self.app_protocol(), |protocol, at| {
            errs.qualified(at, protocol);
        });
    }
}

/// Whether a pod that says it has this address can be an endpoint: neither the machine that sends
/// nor its link may be meant. One that cannot be would make the whole object invalid.
pub fn is_endpoint_ip(text: &str) -> bool {
    let mut errs = ErrorList::default();
    check_endpoint_ip(text, &FieldPath::Root, &mut errs);
    errs.is_empty() && names::ip(text).is_empty()
}

/// An address that others can be sent to.
pub(crate) fn check_endpoint_ip(text: &str, at: &FieldPath, errs: &mut ErrorList) {
    let Some(ip) = names::sloppy_ip(text) else {
        return errs.invalid(at, text, "must be a valid IP address");
    };
    let (local, multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    for (wrong, why) in [
        (ip.is_unspecified(), format!("may not be unspecified ({text})")),
        (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".into()),
        (local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".into()),
        (
            multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".into(),
        ),
    ] {
        if wrong {
            errs.invalid(at, text, why);
        }
    }
}
