//! What a service gets that nobody has asked for.

use object::IntOrString;

use super::{ClientIPConfig, Service, ServiceSpec, SessionAffinityConfig};

/// A client stays with its pod for three hours.
const AFFINITY_SECONDS: i32 = 10_800;

pub(super) fn service(service: &mut Service) {
    let spec = service.spec_mut();
    affinity(spec);
    ports(spec);
    let kind = spec.type_();
    let balanced = kind == "LoadBalancer";
    let of_nodes = balanced || kind == "NodePort";
    let in_cluster = of_nodes || kind == "ClusterIP";
    let external = of_nodes || kind == "ClusterIP" && !spec.external_ips().is_empty();
    if external && spec.external_traffic_policy().is_empty() {
        spec.set_external_traffic_policy("Cluster");
    }
    if in_cluster && spec.internal_traffic_policy().is_none() {
        spec.set_internal_traffic_policy("Cluster");
    }
    if balanced && spec.allocate_load_balancer_node_ports().is_none() {
        spec.set_allocate_load_balancer_node_ports(true);
    }
    if balanced && !service.status().load_balancer().ingress().is_empty() {
        for ingress in service.status_mut().load_balancer_mut().ingress_mut().iter_mut() {
            if !ingress.ip().is_empty() && ingress.ip_mode().is_none() {
                ingress.set_ip_mode("VIP");
            }
        }
    }
}

fn affinity(spec: &mut ServiceSpec) {
    match spec.session_affinity() {
        "None" => spec.clear_session_affinity_config(),
        "ClientIP" => {
            let config = spec.session_affinity_config();
            let client = config.and_then(SessionAffinityConfig::client_ip);
            if client.and_then(ClientIPConfig::timeout_seconds).is_none() {
                let client = ClientIPConfig::new().with_timeout_seconds(AFFINITY_SECONDS);
                spec.set_session_affinity_config(
                    SessionAffinityConfig::new().with_client_ip(client),
                );
            }
        }
        _ => {}
    }
}

fn ports(spec: &mut ServiceSpec) {
    if spec.ports().is_empty() {
        return;
    }
    for port in spec.ports_mut().iter_mut() {
        if matches!(port.target_port(), IntOrString::Int(0)) || port.target_port() == "".into() {
            let number = port.port();
            port.set_target_port(number);
        }
    }
}
