//! Describes endpoints and endpoint slices, ingresses, network policies, service CIDRs and IP addresses.

use std::collections::BTreeSet;

use object::Value;

use super::{
    core::{begin, endpoints_of},
    describe_writer::DescribeWriter,
    either, format_time, number, text, workload,
};
use crate::{invocation::Invocation, resources::escape};

pub(super) fn endpoints(object: &Value, sheet: &mut DescribeWriter) {
    begin(object, sheet);
    sheet.line(0, "Subsets:");
    for subset in object["subsets"].items() {
        for (title, field) in
            [("Addresses", "addresses"), ("NotReadyAddresses", "notReadyAddresses")]
        {
            let all: Vec<&str> = subset[field].items().iter().map(|one| text(&one["ip"])).collect();
            let all = if all.is_empty() { "<none>".to_owned() } else { all.join(",") };
            sheet.line(1, &format!("{title}:\t{all}"));
        }
        let ports = subset["ports"].items();
        if !ports.is_empty() {
            sheet.line(1, "Ports:");
            sheet.line(2, "Name\tPort\tProtocol");
            sheet.line(2, "----\t----\t--------");
        }
        for port in ports {
            let name = or(&port["name"], "<unset>");
            let protocol = text(&port["protocol"]);
            sheet.line(2, &format!("{name}\t{}\t{protocol}", number(&port["port"])));
        }
        sheet.line(0, "");
    }
}

fn or(value: &Value, none: &str) -> String {
    match either(value).as_str() {
        "" => none.to_owned(),
        given => given.to_owned(),
    }
}

pub(super) fn slice(object: &Value, sheet: &mut DescribeWriter) {
    begin(object, sheet);
    sheet.field("AddressType", text(&object["addressType"]));
    let ports = object["ports"].items();
    if ports.is_empty() {
        sheet.line(0, "Ports: <unset>");
    } else {
        sheet.line(0, "Ports:");
        sheet.line(1, "Name\tPort\tProtocol");
        sheet.line(1, "----\t----\t--------");
    }
    for port in ports {
        let (name, number) = (or(&port["name"], "<unset>"), or(&port["port"], "<unset>"));
        sheet.line(1, &format!("{name}\t{number}\t{}", text(&port["protocol"])));
    }
    let endpoints = object["endpoints"].items();
    sheet.line(0, if endpoints.is_empty() { "Endpoints: <none>" } else { "Endpoints:" });
    for endpoint in endpoints {
        let addresses: Vec<&str> = endpoint["addresses"].items().iter().map(text).collect();
        let addresses =
            if addresses.is_empty() { "<none>".to_owned() } else { addresses.join(", ") };
        sheet.line(1, &format!("- Addresses:\t{addresses}"));
        sheet.line(2, "Conditions:");
        sheet.line(3, &format!("Ready:\t{}", or(&endpoint["conditions"]["ready"], "<unset>")));
        sheet.line(2, &format!("Hostname:\t{}", or(&endpoint["hostname"], "<unset>")));
        let target = &endpoint["targetRef"];
        if !target.is_null() {
            let (kind, name) = (text(&target["kind"]), text(&target["name"]));
            sheet.line(2, &format!("TargetRef:\t{kind}/{name}"));
        }
        sheet.line(2, &format!("NodeName:\t{}", or(&endpoint["nodeName"], "<unset>")));
        sheet.line(2, &format!("Zone:\t{}", or(&endpoint["zone"], "<unset>")));
    }
}

pub(super) fn ingress(call: &Invocation<'_>, object: &Value, sheet: &mut DescribeWriter) {
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    sheet.field("Name", text(&meta["name"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.field("Namespace", text(&meta["namespace"]));
    let addresses: BTreeSet<&str> = object["status"]["loadBalancer"]["ingress"]
        .items()
        .iter()
        .map(|one| if one["ip"].is_null() { text(&one["hostname"]) } else { text(&one["ip"]) })
        .filter(|address| !address.is_empty())
        .collect();
    sheet.field("Address", addresses.into_iter().collect::<Vec<_>>().join(","));
    sheet.field("Ingress Class", or(&spec["ingressClassName"], "<none>"));
    let namespace = text(&meta["namespace"]);
    let default = if spec["defaultBackend"].is_null() {
        "<default>".to_owned()
    } else {
        backend(call, namespace, &spec["defaultBackend"])
    };
    sheet.field("Default backend", &default);
    let tls = spec["tls"].items();
    if !tls.is_empty() {
        sheet.line(0, "TLS:");
    }
    for one in tls {
        let hosts: Vec<&str> = one["hosts"].items().iter().map(text).collect();
        let hosts = hosts.join(",");
        sheet.line(
            1,
            &match text(&one["secretName"]) {
                "" => format!("SNI routes {hosts}"),
                secret => format!("{secret} terminates {hosts}"),
            },
        );
    }
    sheet.line(0, "Rules:\n  Host\tPath\tBackends");
    sheet.line(1, "----\t----\t--------");
    let rules: Vec<&Value> =
        spec["rules"].items().iter().filter(|rule| !rule["http"].is_null()).collect();
    for rule in &rules {
        sheet.line(1, &format!("{}\t", or(&rule["host"], "*")));
        for path in rule["http"]["paths"].items() {
            let behind = backend(call, namespace, &path["backend"]);
            sheet.line(2, &format!("\t{} \t{behind}", text(&path["path"])));
        }
    }
    if rules.is_empty() {
        sheet.line(1, &format!("*\t*\t{default}"));
    }
    sheet.annotations("Annotations", &meta["annotations"]);
}

/// The backend of a path, with its endpoints: `web:80 (10.0.0.5:8080)`.
fn backend(call: &Invocation<'_>, namespace: &str, backend: &Value) -> String {
    let service = &backend["service"];
    if service.is_null() {
        let resource = &backend["resource"];
        if resource.is_null() {
            return String::new();
        }
        return format!(
            "APIGroup: {}, Kind: {}, Name: {}",
            or(&resource["apiGroup"], "<none>"),
            text(&resource["kind"]),
            text(&resource["name"])
        );
    }
    let (name, port) = (text(&service["name"]), &service["port"]);
    let shown = match number(&port["number"]) {
        0 => format!("{name}:{}", text(&port["name"])),
        number => format!("{name}:{number}"),
    };
    let behind = || {
        let selector = escape(&format!("kubernetes.io/service-name={name}"));
        let slices = call.server()?.get(&format!(
            "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector={selector}"
        ))?;
        let service = call
            .server()?
            .get(&format!("/api/v1/namespaces/{namespace}/services/{}", escape(name)))?;
        let fits = |other: &&Value| {
            let (number, name) = (&port["number"], text(&port["name"]));
            !number.is_null() && *number == other["port"]
                || !name.is_empty() && name == text(&other["name"])
        };
        let found = service["spec"]["ports"].items().iter().rfind(fits);
        let port = found.map_or("", |port| text(&port["name"]));
        Ok(endpoints_of(slices["items"].items(), port))
    };
    match behind() {
        Ok(endpoints) => format!("{shown} ({endpoints})"),
        Err(fail) => {
            let fail: crate::error::CommandError = fail;
            format!("{shown} (<error: {}>)", fail.message())
        }
    }
}

pub(super) fn ingress_class(object: &Value, sheet: &mut DescribeWriter) {
    begin(object, sheet);
    sheet.field("Controller", text(&object["spec"]["controller"]));
    let parameters = &object["spec"]["parameters"];
    if !parameters.is_null() {
        sheet.line(0, "Parameters:");
        sheet.optional_field("  APIGroup", &parameters["apiGroup"]);
        sheet.line(1, &format!("Kind:\t{}", text(&parameters["kind"])));
        sheet.line(1, &format!("Name:\t{}", text(&parameters["name"])));
    }
}

pub(super) fn service_cidr(object: &Value, sheet: &mut DescribeWriter) {
    begin(object, sheet);
    let ranges: Vec<&str> = object["spec"]["cidrs"].items().iter().map(text).collect();
    sheet.field("CIDRs", ranges.join(", "));
    let conditions = object["status"]["conditions"].items();
    if conditions.is_empty() {
        return;
    }
    sheet.line(0, "Status:");
    sheet.line(0, "Conditions:");
    sheet.line(1, "Type\tStatus\tLastTransitionTime\tReason\tMessage");
    sheet.line(1, "----\t------\t------------------\t------\t-------");
    for one in conditions {
        sheet.line(
            1,
            &format!(
                "{}\t{}\t{}\t{}\t{}",
                text(&one["type"]),
                text(&one["status"]),
                format_time(&one["lastTransitionTime"]),
                text(&one["reason"]),
                text(&one["message"])
            ),
        );
    }
}

pub(super) fn ip_address(object: &Value, sheet: &mut DescribeWriter) {
    begin(object, sheet);
    let parent = &object["spec"]["parentRef"];
    if parent.is_null() {
        return;
    }
    sheet.line(0, "Parent Reference:");
    for (title, field) in
        [("Group", "group"), ("Resource", "resource"), ("Namespace", "namespace"), ("Name", "name")]
    {
        sheet.line(1, &format!("{title}:\t{}", text(&parent[field])));
    }
}

pub(super) fn network_policy(object: &Value, sheet: &mut DescribeWriter) {
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    sheet.field("Name", text(&meta["name"]));
    sheet.field("Namespace", text(&meta["namespace"]));
    let born = text(&meta["creationTimestamp"]).parse::<jiff::Timestamp>().unwrap_or_default();
    sheet.field("Created on", born.strftime("%Y-%m-%d %H:%M:%S +0000 UTC"));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    sheet.line(0, "Spec:");
    let selector = &spec["podSelector"];
    let everything = selector.entries().all(|(_, part)| part.is_zero());
    let shown = if everything {
        "<none> (Allowing the specific traffic to all pods in this namespace)".to_owned()
    } else {
        workload::selector(selector)
    };
    sheet.line(1, &format!("PodSelector:     {shown}"));
    let types: Vec<&str> = spec["policyTypes"].items().iter().map(text).collect();
    for way in [&INGRESS, &EGRESS] {
        if types.contains(&way.kind) {
            sheet.line(1, &format!("Allowing {} traffic:", way.word));
            rules(spec[way.word].items(), way, sheet);
        } else {
            sheet.line(1, &format!("Not affecting {} traffic", way.word));
        }
    }
    let types = if types.is_empty() { "<none>".to_owned() } else { types.join(", ") };
    sheet.line(1, &format!("Policy Types: {types}"));
}

/// A direction of traffic of a network policy, and the words for it.
struct Direction {
    kind: &'static str,
    word: &'static str,
    field: &'static str,
    title: &'static str,
    any: &'static str,
}

const INGRESS: Direction = Direction {
    kind: "Ingress",
    word: "ingress",
    field: "from",
    title: "From",
    any: "traffic not restricted by source",
};
const EGRESS: Direction = Direction {
    kind: "Egress",
    word: "egress",
    field: "to",
    title: "To",
    any: "traffic not restricted by destination",
};

fn rules(rules: &[Value], way: &Direction, sheet: &mut DescribeWriter) {
    if rules.is_empty() {
        let word = way.word;
        sheet.line(2, &format!("<none> (Selected pods are isolated for {word} connectivity)"));
    }
    for (at, rule) in rules.iter().enumerate() {
        if at > 0 {
            sheet.line(2, "----------");
        }
        if rule["ports"].items().is_empty() {
            sheet.line(2, "To Port: <any> (traffic allowed to all ports)");
        }
        for port in rule["ports"].items() {
            let (first, protocol) = (or(&port["port"], "<nil>"), or(&port["protocol"], "TCP"));
            sheet.line(
                2,
                &match port["endPort"].as_i64() {
                    None => format!("To Port: {first}/{protocol}"),
                    Some(last) => format!("To Port Range: {first}-{last}/{protocol}"),
                },
            );
        }
        let peers = rule[way.field].items();
        if peers.is_empty() {
            sheet.line(2, &format!("{}: <any> ({})", way.title, way.any));
        }
        for peer in peers {
            sheet.line(2, &format!("{}:", way.title));
            self::peer(peer, sheet);
        }
    }
}

fn peer(peer: &Value, sheet: &mut DescribeWriter) {
    let selector = |tree: &Value| match workload::selector(tree).as_str() {
        "" => "<none>".to_owned(),
        text => text.to_owned(),
    };
    let selectors = [("NamespaceSelector", "namespaceSelector"), ("PodSelector", "podSelector")];
    for (title, field) in selectors {
        if !peer[field].is_null() {
            sheet.line(3, &format!("{title}: {}", selector(&peer[field])));
        }
    }
    let block = &peer["ipBlock"];
    if block.is_null() || selectors.iter().any(|(_, field)| !peer[*field].is_null()) {
        return;
    }
    sheet.line(3, "IPBlock:");
    sheet.line(4, &format!("CIDR: {}", text(&block["cidr"])));
    let except: Vec<&str> = block["except"].items().iter().map(text).collect();
    sheet.line(4, &format!("Except: {}", except.join(", ")));
}
