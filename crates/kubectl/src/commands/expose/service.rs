//! The Service that exposes an object.

use object::Value;

use crate::{
    commands::create::tree,
    error::{CommandError, Result},
    invocation::Invocation,
    select::Info,
};

/// Maximum length of a Service's name, to which the name of the object is cut.
const NAME_LENGTH: usize = 63;

/// What the flags say about the Service. What they leave open is derived from the first object that has it, and kept
/// for those that follow.
#[derive(Debug)]
pub(super) struct Generator<'a> {
    call: &'a Invocation<'a>,
    selector: Option<Value>,
    labels: Option<Value>,
    ports: Vec<String>,
    /// The protocols of the object's ports.
    protocols: Vec<(String, String)>,
}

impl<'a> Generator<'a> {
    pub(super) fn new(call: &'a Invocation<'a>) -> Self {
        Self { call, selector: None, labels: None, ports: Vec::new(), protocols: Vec::new() }
    }

    /// The Service for an object.
    pub(super) fn service(&mut self, info: &Info) -> Result<Value> {
        let (flags, object) = (&self.call.flags, &info.object);
        let kind = info.resource.kind.as_str();
        info.resource.require_type()?;
        let exposes = matches!(
            (info.resource.group.as_str(), kind),
            ("", "Pod" | "Service" | "ReplicationController")
                | ("apps", "Deployment" | "ReplicaSet")
        );
        if !exposes {
            let kind = info.resource.group_kind();
            return Err(CommandError::error(format!("cannot expose a {kind}")));
        }
        if self.selector.is_none() {
            self.selector = Some(match flags.text("selector") {
                "" => selector_of(object, kind)?,
                given => pairs(given)?,
            });
        }
        self.find_ports(object, kind)?;
        if self.labels.is_none() {
            self.labels = match flags.text("labels") {
                "" => Some(&object["metadata"]["labels"])
                    .filter(|labels| labels.entries().len() > 0)
                    .cloned(),
                given => Some(pairs(given)?),
            };
        }
        let mut service = tree("{apiVersion: v1, kind: Service, status: {loadBalancer: {}}}");
        service["metadata"]["name"] = match flags.text("name") {
            "" => info.name.get(..NAME_LENGTH).unwrap_or(&info.name),
            name => name,
        }
        .into();
        service["metadata"]["namespace"] = info.namespace.as_str().into();
        if let Some(labels) = &self.labels {
            service["metadata"]["labels"] = labels.clone();
        }
        service["spec"]["selector"] = self.selector.clone().unwrap_or_default();
        let ports = self.service_ports()?;
        if !ports.is_empty() {
            service["spec"]["ports"] = Value::List(ports.into());
        }
        self.add_flags(&mut service)?;
        crate::commands::run::overrides(self.call, &mut service)?;
        Ok(service)
    }

    /// The ports of `--port`, or else those of the object.
    fn find_ports(&mut self, object: &Value, kind: &str) -> Result {
        let flags = &self.call.flags;
        let containers = match kind {
            "Pod" => &object["spec"]["containers"],
            _ => &object["spec"]["template"]["spec"]["containers"],
        };
        let (there, field): (Vec<&Value>, &str) = match kind {
            "Service" => (object["spec"]["ports"].items().iter().collect(), "port"),
            _ => (
                containers
                    .items()
                    .iter()
                    .flat_map(|container| container["ports"].items())
                    .collect(),
                "containerPort",
            ),
        };
        let number = |port: &Value| port[field].as_i64().unwrap_or_default().to_string();
        if flags.text("port").is_empty() {
            if self.ports.is_empty() {
                for port in there.iter().map(|port| number(port)) {
                    if !self.ports.contains(&port) {
                        self.ports.push(port);
                    }
                }
            }
            if self.ports.is_empty() && flags.text("cluster-ip") != "None" {
                return Err(CommandError::error(
                    "couldn't find port via --port flag or introspection",
                ));
            }
        } else {
            self.ports = flags.text("port").split(',').map(str::to_owned).collect();
        }
        if !there.is_empty() {
            let protocol = |port: &Value| port["protocol"].as_str().unwrap_or("TCP").to_owned();
            self.protocols = there.iter().map(|port| (number(port), protocol(port))).collect();
        }
        Ok(())
    }

    fn service_ports(&self) -> Result<Vec<Value>> {
        let flags = &self.call.flags;
        let mut made = Vec::new();
        let mut add = |name: &str, number: i64, protocol: &str| {
            let mut port = Value::object();
            if !name.is_empty() {
                port["name"] = name.into();
            }
            port["port"] = number.into();
            port["protocol"] = protocol.into();
            port["targetPort"] = match flags.text("target-port") {
                "" => number.into(),
                target => target.parse::<i64>().map_or_else(|_| target.into(), Value::from),
            };
            made.push(port);
        };
        for (at, text) in self.ports.iter().enumerate() {
            let number = text.parse().map_err(|_| {
                CommandError::error(format!(
                    "strconv.Atoi: parsing {}: invalid syntax",
                    object::quote::quote(text)
                ))
            })?;
            let name =
                if self.ports.len() > 1 { format!("port-{}", at + 1) } else { String::new() };
            let of_port: Vec<&str> = self
                .protocols
                .iter()
                .filter(|(port, _)| port == text)
                .map(|(_, protocol)| protocol.as_str())
                .collect();
            match (flags.text("protocol"), of_port.as_slice()) {
                ("", []) => add(&name, number, "TCP"),
                ("", [protocol]) => add(&name, number, protocol),
                ("", several) => {
                    for protocol in several {
                        let name = format!("port-{}-{}", at + 1, protocol.to_lowercase());
                        add(&name, number, protocol);
                    }
                }
                (given, _) => add(&name, number, given),
            }
        }
        Ok(made)
    }

    fn add_flags(&self, service: &mut Value) -> Result {
        let flags = &self.call.flags;
        for (flag, field) in [("type", "type"), ("cluster-ip", "clusterIP")] {
            if !flags.text(flag).is_empty() {
                service["spec"][field] = flags.text(flag).into();
            }
        }
        if flags.text("type") == "LoadBalancer" && !flags.text("load-balancer-ip").is_empty() {
            service["spec"]["loadBalancerIP"] = flags.text("load-balancer-ip").into();
        }
        match flags.text("session-affinity") {
            "" => {}
            affinity @ ("None" | "ClientIP") => {
                service["spec"]["sessionAffinity"] = affinity.into();
            }
            other => {
                return Err(CommandError::error(format!("unknown session affinity: {other}")));
            }
        }
        if !flags.text("external-ip").is_empty() {
            service["spec"]["externalIPs"] =
                Value::List([flags.text("external-ip").into()].into_iter().collect());
        }
        Ok(())
    }
}

/// Parses labels: `a=b,c=d`.
fn pairs(text: &str) -> Result<Value> {
    let mut labels = Value::object();
    for pair in text.split(',') {
        match pair.split('=').collect::<Vec<_>>()[..] {
            ["", _] => return Err(CommandError::error("unexpected empty label key")),
            [name, value] => labels[name] = value.into(),
            _ => return Err(CommandError::error(format!("unexpected label spec: {pair}"))),
        }
    }
    Ok(labels)
}

/// The labels of the pods that an object stands for.
fn selector_of(object: &Value, kind: &str) -> Result<Value> {
    let failed = |why: String| {
        CommandError::error(format!(
            "couldn't retrieve selectors via --selector flag or introspection: {why}"
        ))
    };
    let selector = match kind {
        "Pod" => &object["metadata"]["labels"],
        "Service" | "ReplicationController" => &object["spec"]["selector"],
        _ => &object["spec"]["selector"]["matchLabels"],
    };
    if selector.entries().len() == 0 {
        return Err(failed(match kind {
            "Pod" => "the pod has no labels and cannot be exposed".to_owned(),
            "Service" => "the service has no pod selector set".to_owned(),
            _ => format!(
                "invalid {}: no selectors, therefore cannot be exposed",
                kind.to_lowercase()
            ),
        }));
    }
    let expressions = object["spec"]["selector"]["matchExpressions"].items();
    if !expressions.is_empty() && matches!(kind, "Deployment" | "ReplicaSet") {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let shown = expressions.iter().map(|expression| {
            let values: Vec<String> = expression["values"].items().iter().map(text).collect();
            format!(
                "{{Key:{} Operator:{} Values:[{}]}}",
                text(&expression["key"]),
                text(&expression["operator"]),
                values.join(" ")
            )
        });
        return Err(failed(format!(
            "couldn't convert expressions - \"[{}]\" to map-based selector format",
            shown.collect::<Vec<_>>().join(" ")
        )));
    }
    Ok(selector.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(result: Result<Value>) -> String {
        result.err().map(|fail| fail.message()).unwrap_or_default()
    }

    #[test]
    fn labels_are_pairs() {
        assert_eq!(pairs("a=b,c=").expect("labels").entries().len(), 2);
        for (text, why) in [
            ("a", "unexpected label spec: a"),
            ("a=b=c", "unexpected label spec: a=b=c"),
            ("=b", "unexpected empty label key"),
        ] {
            assert_eq!(message(pairs(text)), why);
        }
    }

    #[test]
    fn objects_without_a_plain_selector_cannot_be_exposed() {
        for (kind, object, why) in [
            ("Pod", "{}", "the pod has no labels and cannot be exposed"),
            ("Service", "{}", "the service has no pod selector set"),
            ("Deployment", "{}", "invalid deployment: no selectors, therefore cannot be exposed"),
            (
                "Deployment",
                "spec: {selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: In, values: [d, e]}]}}",
                "couldn't convert expressions - \"[{Key:c Operator:In Values:[d e]}]\" to map-based selector format",
            ),
        ] {
            let object = object::yaml::from_yaml(object).expect("YAML");
            let found = message(selector_of(&object, kind));
            assert_eq!(
                found,
                format!("couldn't retrieve selectors via --selector flag or introspection: {why}")
            );
        }
    }
}
