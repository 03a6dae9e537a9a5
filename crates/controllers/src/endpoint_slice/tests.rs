use api::core::{
    Container, ContainerPort, PodCondition, PodSpec, PodStatus, ServicePort, ServiceSpec,
};

use super::*;

pub(super) fn service(target: impl Into<IntOrString>) -> Service {
    let port = ServicePort::new().with_port(80).with_target_port(target);
    let spec = ServiceSpec::new().with_selector([("app", "web")]).with_ports([port]);
    let meta = ObjectMeta::new().with_name("web").with_namespace("default").with_uid("u");
    Service::new().with_metadata(meta).with_spec(spec)
}

pub(super) fn pod(name: &str, ip: &str, ready: bool) -> Pod {
    let port = ContainerPort::new().with_name("http").with_container_port(8080);
    let spec = PodSpec::new().with_containers([Container::new().with_ports([port])]);
    let verdict = if ready { "True" } else { "False" };
    let condition = PodCondition::new().with_type("Ready").with_status(verdict);
    let status = PodStatus::new().with_pod_ip(ip).with_conditions([condition]);
    let meta = ObjectMeta::new().with_name(name).with_namespace("default");
    let meta = meta.with_labels([("app", "web")]);
    Pod::new().with_metadata(meta).with_spec(spec).with_status(status)
}

fn only(steps: Vec<Step<Action>>) -> Action {
    let [step] = <[Step<Action>; 1]>::try_from(steps).expect("one step");
    step.action
}

#[test]
fn names_the_pods_and_their_ports() {
    let pods = [pod("b", "10.0.0.2", false), pod("a", "10.0.0.1", true), pod("c", "", true)];
    let Action::Create(slice) = only(plan(&service("http"), &pods, Vec::new())) else { panic!() };
    let ips: Vec<_> = slice
        .endpoints()
        .iter()
        .map(|endpoint| (endpoint.addresses().iter().next(), endpoint.conditions().ready()))
        .collect();
    assert_eq!(ips, [(Some("10.0.0.1"), Some(true)), (Some("10.0.0.2"), Some(false))]);
    assert_eq!(
        slice.ports().iter().next().and_then(api::discovery::EndpointPort::port),
        Some(8080)
    );
    assert_eq!(slice.metadata().labels().get(SERVICE), Some("web"));
}

#[test]
fn changes_nothing_that_is_right_and_little_that_is_not() {
    let (service, first) = (service(0), pod("a", "10.0.0.1", true));
    let Action::Create(slice) = only(plan(&service, std::slice::from_ref(&first), Vec::new()))
    else {
        panic!()
    };
    assert!(plan(&service, std::slice::from_ref(&first), vec![slice.clone()]).is_empty());
    let changed = plan(&service, &[first, pod("b", "10.0.0.2", true)], vec![slice.clone()]);
    assert!(matches!(only(changed), Action::Update(new) if new.endpoints().len() == 2));
    let mut other = service;
    other.spec_mut().set_selector(object::Map::<String>::from([("", ""); 0]));
    assert!(matches!(only(plan(&other, &[], vec![slice])), Action::Delete(_)));
}

#[test]
fn a_slice_that_is_not_needed_becomes_one_that_is() {
    let mut service = service(0);
    service.metadata_mut().set_uid("u");
    let Action::Create(mut empty) = only(plan(&service, &[], Vec::new())) else { panic!() };
    empty.metadata_mut().set_name("web-1");
    let pods = [pod("a", "10.0.0.1", true)];
    let Action::Update(new) = only(plan(&service, &pods, vec![empty.clone()])) else { panic!() };
    assert_eq!((new.metadata().name(), new.endpoints().len()), ("web-1", 1));
    service.metadata_mut().set_uid("another service of that name");
    assert_eq!(plan(&service, &pods, vec![empty]).len(), 2, "not of another service");
}

#[test]
fn an_empty_slice_stays_however_the_server_writes_it() {
    let Action::Create(mut slice) = only(plan(&service(0), &[], Vec::new())) else { panic!() };
    for field in ["ports", "endpoints"] {
        let mut tree = object::Value::from(slice);
        tree[field] = object::Value::Null;
        slice = tree.into();
    }
    assert!(plan(&service(0), &[], vec![slice]).is_empty());
}

#[test]
fn a_slice_holds_no_more_than_a_hundred() {
    let pods: Vec<Pod> =
        (0..250).map(|n| pod(&format!("p{n:03}"), &format!("10.0.1.{n}"), true)).collect();
    let sizes: Vec<_> = plan(&service(0), &pods, Vec::new())
        .into_iter()
        .map(|step| match step.action {
            Action::Create(slice) => slice.endpoints().len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, [100, 100, 50]);
}

#[test]
fn an_address_that_cannot_be_an_endpoint_leaves_the_others_alone() {
    let hostile =
        ["127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "fe80::1", "fd00::1", "x"];
    let pods = hostile.iter().map(|ip| pod("hostile", ip, true));
    let pods: Vec<_> = pods.chain([pod("good", "10.0.0.1", true)]).collect();
    let Action::Create(slice) = only(plan(&service(80), &pods, Vec::new())) else { panic!() };
    let addresses: Vec<_> =
        slice.endpoints().iter().flat_map(|endpoint| endpoint.addresses().iter()).collect();
    assert_eq!(addresses, ["10.0.0.1"]);
    let mut six = service(80);
    six.spec_mut().set_ip_families(["IPv6"]);
    let Action::Create(slice) = only(plan(&six, &pods, Vec::new())) else { panic!() };
    let addresses: Vec<_> =
        slice.endpoints().iter().flat_map(|endpoint| endpoint.addresses().iter()).collect();
    assert_eq!(addresses, ["fd00::1"]);
}
