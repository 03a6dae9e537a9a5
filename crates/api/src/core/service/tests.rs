use super::Service;
use crate::testing::{cell, create_errors, created_from_json, update_errors};
use schema::Kind;

fn web() -> Service {
    let mut service: Service = created_from_json(
        r#"{"metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.9",
        "selector": {"app": "web"}, "ports": [{"port": 80}]}}"#,
    );
    service.spec_mut().set_ip_families(["IPv4"]);
    service
}

#[test]
fn a_port_leads_to_itself_and_one_address_is_a_list() {
    let service = web();
    let port = service.spec().ports().iter().next().expect("one");
    assert_eq!((port.target_port(), port.protocol()), (80.into(), "TCP"));
    assert_eq!(service.spec().cluster_ips().iter().collect::<Vec<_>>(), ["10.96.0.9"]);
    assert_eq!(service.spec().internal_traffic_policy(), Some("Cluster"));
    assert!(create_errors(&service).is_empty(), "{:?}", create_errors(&service));
    assert_eq!(cell(&service, "Port(s)"), "80/TCP");
}

#[test]
fn the_address_stays_but_goes_with_the_type() {
    let old = web();
    let mut new = old.clone();
    new.spec_mut().set_cluster_ip("");
    new.spec_mut().set_cluster_ips(object::List::default());
    new.prepare_update(&old);
    assert_eq!(new.spec().cluster_ip(), "10.96.0.9");
    let mut moved = old.clone();
    moved.spec_mut().set_cluster_ip("10.96.0.10");
    moved.spec_mut().set_cluster_ips(["10.96.0.10"]);
    let found = update_errors(&moved, &old);
    assert_eq!(
        found,
        ["spec.clusterIPs[0]: Invalid value: [\"10.96.0.10\"]: may not change once set"]
    );
    let mut named = old.clone();
    named.spec_mut().set_type("ExternalName");
    named.spec_mut().set_external_name("example.com");
    named.prepare_update(&old);
    assert_eq!(named.spec().cluster_ip(), "");
}

#[test]
fn several_ports_have_names() {
    let service: Service = created_from_json(
        r#"{"metadata": {"name": "a"}, "spec": {"clusterIP": "None",
        "ports": [{"port": 1}, {"port": 1, "name": "b"}]}}"#,
    );
    let found = create_errors(&service);
    assert_eq!(found[0], "spec.ports[0].name: Required value");
    assert!(found[1].starts_with("spec.ports[1]: Duplicate value: "), "{found:?}");
}

#[test]
fn an_odd_address_may_stay_but_not_come() {
    let mut old = web();
    old.spec_mut().set_external_ips(["01.2.3.4"]);
    old.spec_mut().set_external_traffic_policy("Cluster");
    let odd = ["spec.externalIPs[0]: Invalid value: \"01.2.3.4\": must not have leading 0s"];
    assert_eq!(create_errors(&old), odd);
    assert_eq!(update_errors(&old, &old), [""; 0]);
    assert_eq!(update_errors(&old, &web()), odd);
}
