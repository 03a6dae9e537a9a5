//! core/v1: Service.

mod addresses;
mod defaults;
mod rules;
pub(crate) mod warnings;

use std::collections::BTreeSet;

use macros::api;
use object::{Condition, IntOrString, List, Map, ObjectMeta};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, SelectableField, StorageConfig, Subresource,
    TableColumn, ValidateName, WarningList, name_validation,
};

use crate::columns;

/// A stable address and name for a set of pods, with load balancing between them.
#[api]
pub struct Service {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the service.
    spec: ServiceSpec,
    /// Observed status, such as the address of its load balancer.
    status: ServiceStatus,
}

#[api]
pub struct ServiceStatus {
    /// Status of the load balancer, for type LoadBalancer.
    load_balancer: LoadBalancerStatus,
    /// Current conditions of the object.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
}

#[api]
pub struct LoadBalancerStatus {
    /// Addresses by which the load balancer is reached.
    ingress: List<LoadBalancerIngress>,
}

#[api]
pub struct LoadBalancerIngress {
    /// IP address of the load balancer.
    ip: String,
    /// DNS name of the load balancer.
    hostname: String,
    /// Destination of the packets that reach the node: the load balancer's IP (VIP) or the node's (Proxy).
    #[api(go_type = "v1.LoadBalancerIPMode")]
    ip_mode: Option<String>,
    /// State of each port of the load balancer.
    ports: List<PortStatus>,
}

#[api]
pub struct PortStatus {
    /// The number of the port.
    port: Must<i32>,
    /// Protocol: TCP, UDP or SCTP.
    #[api(go_type = "v1.Protocol", enum_values("SCTP", "TCP", "UDP"))]
    protocol: Must<String>,
    /// Reason why the port does not work, if it does not.
    error: Option<String>,
}

#[api]
pub struct ServiceSpec {
    /// Ports of the service.
    #[api(keys("port", "protocol"), merge, merge_key = "port")]
    ports: List<ServicePort>,
    /// Labels of the pods that receive the traffic. Without a selector the endpoints are managed by others.
    #[api(atomic)]
    selector: Map<String>,
    /// Virtual IP of the service, assigned by the server. None makes the service headless: DNS then returns the pods
    /// themselves.
    #[api(name = "clusterIP")]
    cluster_ip: String,
    /// Virtual IPs of the service, at most one per family.
    #[api(tag = 18, name = "clusterIPs")]
    cluster_ips: List<String>,
    /// How the service is exposed: ClusterIP (default), NodePort, LoadBalancer or ExternalName.
    #[api(tag = 4, default = "ClusterIP", unpublished_default, go_type = "v1.ServiceType")]
    #[api(enum_values("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))]
    type_: String,
    /// Further IP addresses for which nodes accept traffic of this service.
    #[api(name = "externalIPs")]
    external_ips: List<String>,
    /// Whether requests of a client go to the same pod: None (default) or ClientIP.
    #[api(tag = 7, default = "None", unpublished_default, go_type = "v1.ServiceAffinity")]
    #[api(enum_values("ClientIP", "None"))]
    session_affinity: String,
    /// Deprecated: requested address of the load balancer.
    #[api(name = "loadBalancerIP")]
    load_balancer_ip: String,
    /// IP ranges of clients that may use the load balancer.
    load_balancer_source_ranges: List<String>,
    /// DNS name that a service of type ExternalName is an alias of.
    external_name: String,
    /// Where traffic from outside goes: Cluster (default, any pod) or Local (only pods of the receiving node, which
    /// keeps the client's address).
    #[api(go_type = "v1.ServiceExternalTrafficPolicy", enum_values("Cluster", "Local"))]
    external_traffic_policy: String,
    /// Node port on which load balancers check whether a node has pods of the service; for externalTrafficPolicy
    /// Local.
    health_check_node_port: i32,
    /// Whether DNS and endpoints include pods that are not ready.
    publish_not_ready_addresses: bool,
    /// Settings of session affinity.
    session_affinity_config: Option<SessionAffinityConfig>,
    /// IP families of the service, IPv4 or IPv6, the primary first.
    #[api(tag = 19, go_type = "[]v1.IPFamily", enum_values("", "IPv4", "IPv6"))]
    ip_families: List<String>,
    /// SingleStack (default), PreferDualStack or RequireDualStack.
    #[api(tag = 17, go_type = "v1.IPFamilyPolicy")]
    #[api(enum_values("PreferDualStack", "RequireDualStack", "SingleStack"))]
    ip_family_policy: Option<String>,
    /// Whether node ports are allocated for type LoadBalancer, true by default.
    #[api(tag = 20)]
    allocate_load_balancer_node_ports: Option<bool>,
    /// Implementation of the load balancer that handles the service. Empty for the default of the cluster.
    load_balancer_class: Option<String>,
    /// Where traffic from inside the cluster goes: Cluster (default, any pod) or Local (only pods of the same node).
    #[api(go_type = "v1.ServiceInternalTrafficPolicy", enum_values("Cluster", "Local"))]
    internal_traffic_policy: Option<String>,
    /// Preferred endpoints: PreferSameZone or PreferSameNode.
    traffic_distribution: Option<String>,
}

#[api]
pub struct SessionAffinityConfig {
    /// Settings of affinity by client IP.
    #[api(name = "clientIP")]
    client_ip: Option<ClientIPConfig>,
}

#[api]
pub struct ClientIPConfig {
    /// Seconds without traffic after which the affinity ends, 10800 by default.
    timeout_seconds: Option<i32>,
}

#[api]
pub struct ServicePort {
    /// Name of the port, unique in the service. Required with more than one port.
    name: String,
    /// Protocol: TCP, UDP or SCTP.
    #[api(default = "TCP", go_type = "v1.Protocol", enum_values("SCTP", "TCP", "UDP"))]
    protocol: String,
    /// Application protocol, such as http or kubernetes.io/h2c; a hint for implementations.
    #[api(tag = 6)]
    app_protocol: Option<String>,
    /// Port of the service.
    #[api(tag = 3)]
    port: Must<i32>,
    /// Port number or name on the pods. Defaults to port.
    target_port: IntOrString,
    /// Port on every node, for types NodePort and LoadBalancer. Assigned by the server if not set.
    node_port: i32,
}

impl Kind for Service {
    const NAMES: ResourceNames =
        ResourceNames::new("", "v1", "Service", "services").short(&["svc"]).categories(&["all"]);
    const STORAGE: StorageConfig = StorageConfig::new("services/specs", "v1");
    const CREATED_BY_UPDATE: bool = true;
    const SHOWS_DELETED: bool = true;
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::proxy("ServiceProxyOptions"),
        Subresource::status("Service").writes_metadata(),
    ];
    const NAME: ValidateName = name_validation::dns_label;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Type", |service, _| service.spec().type_().into()),
        TableColumn::text("Cluster-IP", |service, _| {
            service.spec().cluster_ips().iter().next().unwrap_or(columns::NONE).into()
        }),
        TableColumn::text("External-IP", |service, _| service.external().into()),
        TableColumn::text("Port(s)", |service, _| {
            columns::text_or_none(&columns::join(
                service.spec().ports().iter().map(ServicePort::cell),
            ))
        }),
        TableColumn::AGE,
        TableColumn::wide_text("Selector", |it, _| columns::labels(it.spec().selector())),
    ];
    const INDEXES: &'static [SelectableField<Self>] = &[
        SelectableField::filter_only("spec.clusterIP", |service| {
            service.spec().cluster_ip().into()
        }),
        SelectableField::filter_only("spec.type", |service| service.spec().type_().into()),
    ];

    /// One that names a class is some provider's.
    fn needs(&self) -> Option<&'static schema::Part> {
        let provided = self.spec().load_balancer_class().is_some();
        let balanced = self.spec().type_() == "LoadBalancer" && !provided;
        balanced.then_some(&crate::parts::LOAD_BALANCER)
    }

    fn warn(&self, _old: Option<&Self>, told: &mut WarningList) {
        warnings::warn(self, told);
    }

    fn warn_status(&self, told: &mut WarningList) {
        warnings::warn_ingress(self.status().load_balancer().ingress(), &FieldPath::STATUS, told);
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

    fn validate(&self, errs: &mut ErrorList) {
        rules::check(self, None, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        rules::check_changed(self, old, errs);
    }

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
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
