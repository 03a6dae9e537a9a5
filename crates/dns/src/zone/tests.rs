use super::*;
use api::{core::Service, discovery::EndpointSlice};
use object::yaml::from_yaml;

const WEB: &str = "
metadata: {namespace: shop, name: web}
spec:
  clusterIP: 10.96.0.7
  clusterIPs: [10.96.0.7, 'fd00::7']
  ports: [{name: http, port: 80, protocol: TCP}, {port: 81, protocol: TCP}]
";

const DB: &str = "
metadata: {namespace: shop, name: db}
spec: {clusterIP: None, ports: [{name: sql, port: 5432, protocol: TCP}]}
";

const DB_SLICE: &str = "
addressType: IPv4
ports: [{name: sql, port: 5432, protocol: TCP}]
endpoints:
- {addresses: [10.244.0.2], hostname: db-0, conditions: {ready: true}}
- {addresses: [10.244.0.3], conditions: {}}
- {addresses: [10.244.0.4], hostname: db-2, conditions: {ready: false}}
";

fn entry(service: &str, slices: &[&str]) -> ServiceEntry {
    let slices: Vec<_> = slices
        .iter()
        .map(|slice| EndpointSlice::from(from_yaml(slice).expect("a slice")))
        .collect();
    ServiceEntry::new(&Service::from(from_yaml(service).expect("a service")), &slices)
}

fn zone() -> Zone {
    let mut zone = Zone::new(&name("cluster.local."));
    zone.set_namespace("shop", true);
    zone.set_namespace("idle", true);
    zone.set_service("shop", "web", Some(entry(WEB, &[])));
    zone.set_service("shop", "db", Some(entry(DB, &[DB_SLICE])));
    zone.set_service("shop", "empty", Some(entry(DB, &[])));
    let outside = "spec: {type: ExternalName, externalName: db.example.com}";
    zone.set_service("shop", "outside", Some(entry(outside, &[])));
    let address = "spec: {type: ExternalName, externalName: 192.0.2.1}";
    zone.set_service("shop", "address", Some(entry(address, &[])));
    zone
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).expect("a name")
}

/// The result of a lookup in short form.
fn ask(zone: &Zone, question: &str, kind: RecordType) -> String {
    match zone.lookup(&name(question), kind) {
        Lookup::NotInZone => "elsewhere".to_owned(),
        Lookup::NxDomain => "no name".to_owned(),
        Lookup::Cname(to) => format!("alias {to}"),
        Lookup::Records(all, _) => {
            let all: Vec<_> = all.iter().map(|record| record.data.to_string()).collect();
            all.join(", ")
        }
    }
}

#[test]
fn questions_and_answers() {
    use RecordType::{A, AAAA, MX, PTR, SOA, SRV, TXT};
    let zone = zone();
    for (kind, question, answer) in [
        (A, "web.shop.svc.cluster.local.", "10.96.0.7"),
        (AAAA, "web.shop.svc.cluster.local.", "fd00::7"),
        (A, "WEB.shop.SVC.Cluster.local.", "10.96.0.7"),
        (MX, "web.shop.svc.cluster.local.", ""),
        (SRV, "_http._tcp.web.shop.svc.cluster.local.", "0 100 80 web.shop.svc.cluster.local."),
        (SRV, "_http._udp.web.shop.svc.cluster.local.", "no name"),
        (A, "_http._tcp.web.shop.svc.cluster.local.", ""),
        (SRV, "__tcp._tcp.web.shop.svc.cluster.local.", "no name"),
        (SRV, "_._tcp.web.shop.svc.cluster.local.", "no name"),
        (A, "_tcp.web.shop.svc.cluster.local.", ""),
        (A, "_udp.web.shop.svc.cluster.local.", "no name"),
        (A, "db.shop.svc.cluster.local.", "10.244.0.3, 10.244.0.2"),
        (AAAA, "db.shop.svc.cluster.local.", ""),
        (A, "db-0.db.shop.svc.cluster.local.", "10.244.0.2"),
        (A, "10-244-0-3.db.shop.svc.cluster.local.", "10.244.0.3"),
        (A, "db-2.db.shop.svc.cluster.local.", "no name"),
        (
            SRV,
            "_sql._tcp.db.shop.svc.cluster.local.",
            "0 50 5432 10-244-0-3.db.shop.svc.cluster.local., \
             0 50 5432 db-0.db.shop.svc.cluster.local.",
        ),
        (A, "empty.shop.svc.cluster.local.", "no name"),
        (A, "outside.shop.svc.cluster.local.", "alias db.example.com."),
        (A, "address.shop.svc.cluster.local.", ""),
        (A, "nobody.shop.svc.cluster.local.", "no name"),
        (A, "web.other.svc.cluster.local.", "no name"),
        (A, "a.b.c.web.shop.svc.cluster.local.", "no name"),
        (A, "shop.svc.cluster.local.", ""),
        (A, "idle.svc.cluster.local.", ""),
        (A, "other.svc.cluster.local.", "no name"),
        (A, "svc.cluster.local.", ""),
        (A, "cluster.local.", ""),
        (A, "nonsense.cluster.local.", "no name"),
        (A, "10-244-0-9.shop.pod.cluster.local.", "10.244.0.9"),
        (AAAA, "10-244-0-9.shop.pod.cluster.local.", ""),
        (AAAA, "fd00--9.shop.pod.cluster.local.", "fd00::9"),
        (A, "10-244-0-9.other.pod.cluster.local.", "no name"),
        (A, "name.shop.pod.cluster.local.", "no name"),
        (TXT, "dns-version.cluster.local.", "1.1.0"),
        (A, "dns-version.cluster.local.", ""),
        (PTR, "7.0.96.10.in-addr.arpa.", "web.shop.svc.cluster.local."),
        (A, "7.0.96.10.in-addr.arpa.", ""),
        (PTR, "2.0.244.10.in-addr.arpa.", "db-0.db.shop.svc.cluster.local."),
        (PTR, "3.0.244.10.in-addr.arpa.", "elsewhere"),
        (PTR, "96.10.in-addr.arpa.", "elsewhere"),
        (A, "example.com.", "elsewhere"),
        (A, "xcluster.local.", "elsewhere"),
    ] {
        assert_eq!(ask(&zone, question, kind), answer, "{question} {kind}");
    }
    assert!(ask(&zone, "cluster.local.", SOA).starts_with("ns.dns.cluster.local."));
}

#[test]
fn answers_carry_the_name_as_it_was_asked() {
    let asked = name("WeB.shop.svc.cluster.local.");
    let Lookup::Records(all, _) = zone().lookup(&asked, RecordType::A) else {
        panic!("no records")
    };
    assert!(all[0].name.eq_case(&asked));
}

#[test]
fn addresses_of_service_targets_come_along() {
    let asked = name("_http._tcp.web.shop.svc.cluster.local.");
    let Lookup::Records(_, more) = zone().lookup(&asked, RecordType::SRV) else { panic!() };
    assert_eq!(more.len(), 2, "one a family");
}

#[test]
fn what_is_gone_leaves_nothing_behind() {
    let mut zone = zone();
    for service in ["web", "db", "empty", "outside", "address"] {
        zone.set_service("shop", service, None);
    }
    assert!(zone.services.is_empty() && zone.reverse.is_empty());
}

#[test]
fn unready_endpoints_can_be_published() {
    let all = DB.replace("clusterIP: None", "clusterIP: None, publishNotReadyAddresses: true");
    assert_eq!(entry(&all, &[DB_SLICE]).hosts.len(), 3);
}

#[test]
fn both_families_of_a_host_are_one() {
    let six = DB_SLICE.replace("10.244.0.", "fd00::").replace("IPv4", "IPv6");
    let entry = entry(DB, &[DB_SLICE, &six]);
    assert_eq!(entry.host("db-0").expect("a host").ips.len(), 2);
    assert_eq!(entry.host("db-0").expect("a host").ports.len(), 1);
}

/// The author of EndpointSlices controls how many addresses a Service has: neither adding them nor a query for them may
/// delay other queries.
#[test]
fn many_addresses_cost_little() {
    let endpoint = |host: bool, n: usize| {
        let ip = |at: usize| format!("\"10.{}.{}.{at}\"", n / 250, n % 250);
        let addresses: Vec<_> = (1..=100).map(ip).collect();
        let name = if host { ",\"hostname\":\"one\"" } else { "" };
        format!("{{\"addresses\":[{}]{name}}}", addresses.join(","))
    };
    let slice = |host: bool| {
        let endpoints: Vec<_> = (0..500).map(|n| endpoint(host, n)).collect();
        let ports = "[{\"name\":\"sql\",\"port\":1}]";
        let text = format!("{{\"ports\":{ports},\"endpoints\":[{}]}}", endpoints.join(","));
        EndpointSlice::from(object::from_json(text.as_bytes()).expect("a slice"))
    };
    let slices = [slice(true), slice(false)];
    let began = std::time::Instant::now();
    let service = Service::from(from_yaml(DB).expect("a service"));
    let mut zone = zone();
    for _ in 0..2 {
        zone.set_service("shop", "many", Some(ServiceEntry::new(&service, &slices)));
        for kind in [RecordType::A, RecordType::SRV] {
            let Lookup::Records(all, more) =
                zone.lookup(&name("many.shop.svc.cluster.local."), kind)
            else {
                panic!("records")
            };
            assert_eq!(all.len(), MOST_RECORDS);
            assert!(more.len() <= 2 * MOST_RECORDS);
        }
        zone.set_service("shop", "many", None);
    }
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_mins(1), "quadratic: {took:?}");
}
