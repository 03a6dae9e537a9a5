//! core/v1: Service.

mod addresses;
mod defaults;
mod rules;
pub(crate) mod warnings;

use std::collections::BTreeSet;

use macros::api;
use object::{Condition, IntOrString, List, Map, ObjectMeta};
use schema::{
    Column, Errors, Index, Kind, NameRule, Names, Path, Storage, Subresource, Warnings, names,
};

use crate::columns;

#[api]
pub struct Service {
    /// Name, labels and the like.
    #[api(tag = 1)]
    metadata: ObjectMeta,
    /// What the service should be.
    #[api(tag = 2)]
    spec: ServiceSpec,
    /// What a load balancer has made of it.
    #[api(tag = 3)]
    status: ServiceStatus,
}

#[api]
pub struct ServiceStatus {
    #[api(tag = 1)]
    load_balancer: LoadBalancerStatus,
    #[api(tag = 2, keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
}

#[api]
pub struct LoadBalancerStatus {
    #[api(tag = 1)]
    ingress: List<LoadBalancerIngress>,
}

#[api]
pub struct LoadBalancerIngress {
    #[api(tag = 1)]
    ip: String,
    #[api(tag = 2)]
    hostname: String,
    #[api(tag = 3, go = "v1.LoadBalancerIPMode")]
    ip_mode: Option<String>,
    #[api(tag = 4)]
    ports: List<PortStatus>,
}

#[api]
pub struct PortStatus {
    #[api(tag = 1, required, always)]
    port: i32,
    #[api(tag = 2, required, always, go = "v1.Protocol")]
    protocol: String,
    #[api(tag = 3)]
    error: Option<String>,
}

#[api]
pub struct ServiceSpec {
    /// Ports that the service answers on.
    #[api(tag = 1, keys("port", "protocol"), merge, merge_key = "port")]
    ports: List<ServicePort>,
    /// Labels of the pods that answer; without them, somebody else names the endpoints.
    #[api(tag = 2, atomic)]
    selector: Map<String>,
    /// The address in the cluster, or None.
    #[api(tag = 3, name = "clusterIP")]
    cluster_ip: String,
    /// The addresses in the cluster, one of each family.
    #[api(tag = 18, name = "clusterIPs")]
    cluster_ips: List<String>,
    /// ClusterIP, NodePort, LoadBalancer or ExternalName.
    #[api(tag = 4, default = "ClusterIP", implied, go = "v1.ServiceType")]
    type_: String,
    /// Further addresses that nodes take requests for.
    #[api(tag = 5, name = "externalIPs")]
    external_ips: List<String>,
    /// Whether a client stays with one pod: ClientIP or None.
    #[api(tag = 7, default = "None", implied, go = "v1.ServiceAffinity")]
    session_affinity: String,
    /// The address that a load balancer should have, where it can be chosen.
    #[api(tag = 8, name = "loadBalancerIP")]
    load_balancer_ip: String,
    /// Who may use the load balancer.
    #[api(tag = 9)]
    load_balancer_source_ranges: List<String>,
    /// The name that an ExternalName service stands for.
    #[api(tag = 10)]
    external_name: String,
    /// Whether outside requests stay on the node that they reach: Cluster or Local.
    #[api(tag = 11, go = "v1.ServiceExternalTrafficPolicy")]
    external_traffic_policy: String,
    /// Where a load balancer asks whether a node has endpoints.
    #[api(tag = 12)]
    health_check_node_port: i32,
    /// Whether pods count that are not ready.
    #[api(tag = 13)]
    publish_not_ready_addresses: bool,
    /// How long a client stays with a pod.
    #[api(tag = 14)]
    session_affinity_config: Option<SessionAffinityConfig>,
    /// IPv4, IPv6 or both, the first of them first.
    #[api(tag = 19, go = "[]v1.IPFamily")]
    ip_families: List<String>,
    /// SingleStack, PreferDualStack or RequireDualStack.
    #[api(tag = 17, go = "v1.IPFamilyPolicy")]
    ip_family_policy: Option<String>,
    /// Whether a load balancer needs ports on the nodes.
    #[api(tag = 20)]
    allocate_load_balancer_node_ports: Option<bool>,
    /// Which load balancer is meant.
    #[api(tag = 21)]
    load_balancer_class: Option<String>,
    /// Whether requests of pods stay on their node: Cluster or Local.
    #[api(tag = 22, go = "v1.ServiceInternalTrafficPolicy")]
    internal_traffic_policy: Option<String>,
    /// Which endpoints are preferred: those of the same zone or node.
    #[api(tag = 23)]
    traffic_distribution: Option<String>,
}

#[api]
pub struct SessionAffinityConfig {
    #[api(tag = 1, name = "clientIP")]
    client_ip: Option<ClientIPConfig>,
}

#[api]
pub struct ClientIPConfig {
    #[api(tag = 1)]
    timeout_seconds: Option<i32>,
}

#[api]
pub struct ServicePort {
    /// Unique in the service.
    #[api(tag = 1)]
    name: String,
    /// TCP, UDP or SCTP.
    #[api(tag = 2, default = "TCP", go = "v1.Protocol")]
    protocol: String,
    /// What is spoken on it.
    #[api(tag = 6)]
    app_protocol: Option<String>,
    /// That clients use.
    #[api(tag = 3, required, always)]
    port: i32,
    /// The port of the pods, by number or name.
    #[api(tag = 4)]
    target_port: IntOrString,
    /// The port on every node.
    #[api(tag = 5)]
    node_port: i32,
}

impl Kind for Service {
    const NAMES: Names = Names {
        group: "",
        version: "v1",
        kind: "Service",
        plural: "services",
        singular: "service",
        short: &["svc"],
        categories: &["all"],
    };
    const STORAGE: Storage = Storage::new("services/specs", "v1");
    const CREATED_BY_UPDATE: bool = true;
    const SHOWS_DELETED: bool = true;
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::new(
            "proxy",
            "ServiceProxyOptions",
            &["create", "delete", "get", "patch", "update"],
        ),
        Subresource::new("status", "Service", &["get", "patch", "update"]),
    ];
    const NAME: NameRule = names::dns_label;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::new("Type", "string", |service, _| service.spec().type_().into()),
        Column::new("Cluster-IP", "string", |service, _| {
            service.spec().cluster_ips().iter().next().unwrap_or(columns::NONE).into()
        }),
        Column::new("External-IP", "string", |service, _| service.external().into()),
        Column::new("Port(s)", "string", |service, _| {
            columns::or_none(&columns::join(service.spec().ports().iter().map(ServicePort::cell)))
        }),
        Column::AGE,
        Column::new("Selector", "string", |service: &Self, _| {
            columns::labels(service.spec().selector())
        })
        .wide(),
    ];
    const INDEXES: &'static [Index<Self>] = &[
        Index::field("spec.clusterIP", |service| service.spec().cluster_ip().into()),
        Index::field("spec.type", |service| service.spec().type_().into()),
    ];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn warn(&self, _old: Option<&Self>, told: &mut Warnings) {
        warnings::warn(self, told);
    }

    fn warn_status(&self, told: &mut Warnings) {
        let at = Path::Root.field("status");
        warnings::warn_ingress(self.status().load_balancer().ingress(), &at, told);
    }

    fn default_fields(&mut self) {
        defaults::service(self);
    }

    fn prepare_create(&mut self) {
        self.set_status(ServiceStatus::new());
        self.align_addresses();
    }

    fn prepare_update(&mut self, old: &Self) {
        self.align_changed(old);
        self.keep_chosen(old);
        self.drop_outdated(old);
        if self.spec().type_() != "LoadBalancer" {
            self.status_mut().set_load_balancer(LoadBalancerStatus::new());
        }
    }

    fn validate(&self, errs: &mut Errors) {
        rules::check(self, None, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        rules::check_changed(self, old, errs);
    }

    fn validate_status(&self, _old: &Self, errs: &mut Errors) {
        let balanced = self.spec().type_() == "LoadBalancer";
        self.status().load_balancer().check(balanced, errs);
    }
}

impl Service {
    pub fn is_headless(&self) -> bool {
        self.spec().cluster_ip() == "None"
    }

    /// The addresses by which the world reaches it, as tables show them.
    fn external(&self) -> String {
        let fixed = columns::join(self.spec().external_ips().iter());
        match self.spec().type_() {
            "ClusterIP" | "NodePort" if fixed.is_empty() => columns::NONE.into(),
            "ClusterIP" | "NodePort" => fixed,
            "LoadBalancer" => {
                let given = self.status().load_balancer().cell();
                match (given.is_empty(), fixed.is_empty()) {
                    (true, true) => "<pending>".into(),
                    (false, true) => given,
                    (true, false) => fixed,
                    (false, false) => format!("{given},{fixed}"),
                }
            }
            "ExternalName" => self.spec().external_name().into(),
            _ => "<unknown>".into(),
        }
    }
}

impl LoadBalancerStatus {
    fn cell(&self) -> String {
        let each = self.ingress().iter().map(|ingress| match ingress.ip() {
            "" => ingress.hostname(),
            ip => ip,
        });
        let each: BTreeSet<_> = each.filter(|address| !address.is_empty()).collect();
        columns::join(each.into_iter())
    }
}

impl ServicePort {
    fn cell(&self) -> String {
        match self.node_port() {
            0 => format!("{}/{}", self.port(), self.protocol()),
            node => format!("{}:{node}/{}", self.port(), self.protocol()),
        }
    }
}

#[cfg(test)]
mod tests;
