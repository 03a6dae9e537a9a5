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

/// A lasting address for a set of pods.
#[api]
pub struct Service {
    /// Name, labels and the like.
    metadata: ObjectMeta,
    /// What the service should be.
    spec: ServiceSpec,
    /// What a load balancer has made of it.
    status: ServiceStatus,
}

#[api]
pub struct ServiceStatus {
    /// What the load balancer has.
    load_balancer: LoadBalancerStatus,
    /// What holds of the object at present.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
}

#[api]
pub struct LoadBalancerStatus {
    /// Where the load balancer is reached.
    ingress: List<LoadBalancerIngress>,
}

#[api]
pub struct LoadBalancerIngress {
    /// Its address.
    ip: String,
    /// Its host name.
    hostname: String,
    /// Whether traffic comes as sent to that address (VIP) or to a node (Proxy).
    #[api(go = "v1.LoadBalancerIPMode")]
    ip_mode: Option<String>,
    /// How its ports are.
    ports: List<PortStatus>,
}

#[api]
pub struct PortStatus {
    /// The number of the port.
    port: Must<i32>,
    /// TCP, UDP or SCTP.
    #[api(go = "v1.Protocol", values("SCTP", "TCP", "UDP"))]
    protocol: Must<String>,
    /// What is wrong with the port.
    error: Option<String>,
}

#[api]
pub struct ServiceSpec {
    /// Ports that the service answers on.
    #[api(keys("port", "protocol"), merge, merge_key = "port")]
    ports: List<ServicePort>,
    /// Labels of the pods that answer; without them, somebody else names the endpoints.
    #[api(atomic)]
    selector: Map<String>,
    /// The address in the cluster, or None.
    #[api(name = "clusterIP")]
    cluster_ip: String,
    /// The addresses in the cluster, one of each family.
    #[api(tag = 18, name = "clusterIPs")]
    cluster_ips: List<String>,
    /// ClusterIP, NodePort, LoadBalancer or ExternalName.
    #[api(tag = 4, default = "ClusterIP", implied, go = "v1.ServiceType")]
    #[api(values("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))]
    type_: String,
    /// Further addresses that nodes take requests for.
    #[api(name = "externalIPs")]
    external_ips: List<String>,
    /// Whether a client stays with one pod: ClientIP or None.
    #[api(tag = 7, default = "None", implied, go = "v1.ServiceAffinity")]
    #[api(values("ClientIP", "None"))]
    session_affinity: String,
    /// The address that a load balancer should have, where it can be chosen.
    #[api(name = "loadBalancerIP")]
    load_balancer_ip: String,
    /// Who may use the load balancer.
    load_balancer_source_ranges: List<String>,
    /// The name that an ExternalName service stands for.
    external_name: String,
    /// Whether outside requests stay on the node that they reach: Cluster or Local.
    #[api(go = "v1.ServiceExternalTrafficPolicy", values("Cluster", "Local"))]
    external_traffic_policy: String,
    /// Where a load balancer asks whether a node has endpoints.
    health_check_node_port: i32,
    /// Whether pods count that are not ready.
    publish_not_ready_addresses: bool,
    /// How long a client stays with a pod.
    session_affinity_config: Option<SessionAffinityConfig>,
    /// IPv4, IPv6 or both, the first of them first.
    #[api(tag = 19, go = "[]v1.IPFamily", values("", "IPv4", "IPv6"))]
    ip_families: List<String>,
    /// SingleStack, PreferDualStack or RequireDualStack.
    #[api(tag = 17, go = "v1.IPFamilyPolicy")]
    #[api(values("PreferDualStack", "RequireDualStack", "SingleStack"))]
    ip_family_policy: Option<String>,
    /// Whether a load balancer needs ports on the nodes.
    #[api(tag = 20)]
    allocate_load_balancer_node_ports: Option<bool>,
    /// Which load balancer is meant.
    load_balancer_class: Option<String>,
    /// Whether requests of pods stay on their node: Cluster or Local.
    #[api(go = "v1.ServiceInternalTrafficPolicy", values("Cluster", "Local"))]
    internal_traffic_policy: Option<String>,
    /// Which endpoints are preferred: those of the same zone or node.
    traffic_distribution: Option<String>,
}

#[api]
pub struct SessionAffinityConfig {
    /// How clients are kept to one pod by their address.
    #[api(name = "clientIP")]
    client_ip: Option<ClientIPConfig>,
}

#[api]
pub struct ClientIPConfig {
    /// For how long.
    timeout_seconds: Option<i32>,
}

#[api]
pub struct ServicePort {
    /// Unique in the service.
    name: String,
    /// TCP, UDP or SCTP.
    #[api(default = "TCP", go = "v1.Protocol", values("SCTP", "TCP", "UDP"))]
    protocol: String,
    /// What is spoken on it.
    #[api(tag = 6)]
    app_protocol: Option<String>,
    /// That clients use.
    #[api(tag = 3)]
    port: Must<i32>,
    /// The port of the pods, by number or name.
    target_port: IntOrString,
    /// The port on every node.
    node_port: i32,
}

impl Kind for Service {
    const NAMES: Names =
        Names::new("", "v1", "Service", "services").short(&["svc"]).categories(&["all"]);
    const STORAGE: Storage = Storage::new("services/specs", "v1");
    const CREATED_BY_UPDATE: bool = true;
    const SHOWS_DELETED: bool = true;
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::new(
            "proxy",
            "ServiceProxyOptions",
            &["create", "delete", "get", "patch", "update"],
        ),
        Subresource::status("Service"),
    ];
    const NAME: NameRule = names::dns_label;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::text("Type", |service, _| service.spec().type_().into()),
        Column::text("Cluster-IP", |service, _| {
            service.spec().cluster_ips().iter().next().unwrap_or(columns::NONE).into()
        }),
        Column::text("External-IP", |service, _| service.external().into()),
        Column::text("Port(s)", |service, _| {
            columns::or_none(&columns::join(service.spec().ports().iter().map(ServicePort::cell)))
        }),
        Column::AGE,
        Column::wide_text("Selector", |it, _| columns::labels(it.spec().selector())),
    ];
    const INDEXES: &'static [Index<Self>] = &[
        Index::field("spec.clusterIP", |service| service.spec().cluster_ip().into()),
        Index::field("spec.type", |service| service.spec().type_().into()),
    ];

    /// One that names a class is some provider's.
    fn needs(&self) -> Option<&'static schema::Part> {
        let provided = self.spec().load_balancer_class().is_some();
        let balanced = self.spec().type_() == "LoadBalancer" && !provided;
        balanced.then_some(&crate::parts::LOAD_BALANCER)
    }

    fn warn(&self, _old: Option<&Self>, told: &mut Warnings) {
        warnings::warn(self, told);
    }

    fn warn_status(&self, told: &mut Warnings) {
        warnings::warn_ingress(self.status().load_balancer().ingress(), &Path::STATUS, told);
    }

    fn default_fields(&mut self) {
        defaults::service(self);
    }

    fn prepare_create(&mut self) {
        self.set_status(ServiceStatus::new());
        self.align_addresses();
        self.drop_internal_policy();
    }

    fn prepare_update(&mut self, old: &Self) {
        self.keep_chosen(old);
        self.align_changed(old);
        self.drop_outdated(old);
        self.drop_internal_policy();
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

    fn validate_status(&self, old: &Self, errs: &mut Errors) {
        let balanced = self.spec().type_() == "LoadBalancer";
        self.status().load_balancer().check(old.status().load_balancer(), balanced, errs);
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
