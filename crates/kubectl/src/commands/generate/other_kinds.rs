//! `create` for other kinds: namespaces, service accounts, services, ingresses, PodDisruptionBudgets, quotas,
//! priority classes and tokens.

use object::{
    Value, names,
    quantity::Quantity,
    quote::quote,
    selector::{Operator, Selector},
};

use super::{texts, values};
use crate::{
    commands::{
        Command,
        create::{WRITES, begin, make, one_name, tree},
    },
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    print::{self, OutputFormat},
};

pub(super) const NAMESPACE: Command =
    Command::new("namespace", &[WRITES], namespace).aliases(&["ns"]);
pub(super) const SERVICE_ACCOUNT: Command =
    Command::new("serviceaccount", &[WRITES], service_account).aliases(&["sa"]);

const TCP: &[Flag] = &[Flag::new("tcp", FlagType::StringSlice)];
pub(super) const SERVICE: Command = Command::group(
    "service",
    &[
        Command::new("clusterip", &[WRITES, TCP, &[Flag::text("clusterip")]], |call| {
            service(call, "ClusterIP")
        }),
        Command::new(
            "nodeport",
            &[WRITES, TCP, &[Flag::new("node-port", FlagType::Int32)]],
            |call| service(call, "NodePort"),
        ),
        Command::new("loadbalancer", &[WRITES, TCP], |call| service(call, "LoadBalancer")),
        Command::new(
            "externalname",
            &[WRITES, TCP, &[Flag::text("external-name").required()]],
            |call| service(call, "ExternalName"),
        ),
    ],
)
.aliases(&["svc"]);
pub(super) const INGRESS: Command = Command::new(
    "ingress",
    &[
        WRITES,
        &[
            Flag::new("rule", FlagType::StringArray),
            Flag::new("annotation", FlagType::StringArray),
            Flag::text("default-backend"),
            Flag::text("class"),
        ],
    ],
    ingress,
)
.aliases(&["ing"]);
pub(super) const QUOTA: Command =
    Command::new("quota", &[WRITES, &[Flag::text("hard"), Flag::text("scopes")]], quota)
        .aliases(&["resourcequota"]);
pub(super) const DISRUPTION_BUDGET: Command = Command::new(
    "poddisruptionbudget",
    &[
        WRITES,
        &[Flag::text("selector"), Flag::text("min-available"), Flag::text("max-unavailable")],
    ],
    disruption_budget,
)
.aliases(&["pdb"]);
pub(super) const PRIORITY_CLASS: Command = Command::new(
    "priorityclass",
    &[
        WRITES,
        &[
            Flag::new("value", FlagType::Int32),
            Flag::bool("global-default"),
            Flag::text("description"),
            Flag::text("preemption-policy").default("PreemptLowerPriority"),
        ],
    ],
    priority_class,
)
.aliases(&["pc"]);
pub(super) const TOKEN: Command = Command::new(
    "token",
    &[
        print::FLAGS,
        &[
            Flag::new("audience", FlagType::StringArray),
            Flag::new("duration", FlagType::Duration),
            Flag::text("bound-object-kind"),
            Flag::text("bound-object-name"),
            Flag::text("bound-object-uid"),
        ],
    ],
    token,
);

fn namespace(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, "v1", "Namespace", false)?;
    object["spec"] = Value::object();
    object["status"] = Value::object();
    make(call, object, "namespaces", "")
}

fn service_account(call: &Invocation<'_>) -> Result {
    make(
        call,
        begin(call, "v1", "ServiceAccount", true)?,
        "serviceaccounts",
        "failed to create serviceaccount: ",
    )
}

fn service(call: &Invocation<'_>, kind: &str) -> Result {
    let mut object = begin(call, "v1", "Service", true)?;
    let name = object["metadata"]["name"].clone();
    let cluster_ip = call.flags.text("clusterip");
    let ports = call.flags.all("tcp");
    if ports.is_empty() && cluster_ip != "None" && kind != "ExternalName" {
        return Err(CommandError::error("at least one tcp port specifier must be provided"));
    }
    if kind == "ExternalName" {
        let external = call.flags.text("external-name");
        if !names::dns1123_subdomain(external).is_empty() {
            return Err(CommandError::error(format!("invalid service external name {external}")));
        }
    }
    object["metadata"]["labels"]["app"] = name.clone();
    object["spec"]["selector"]["app"] = name;
    object["spec"]["type"] = kind.into();
    let mut list = Vec::new();
    for text in ports {
        let mut port = tcp_port(text)?;
        if kind == "NodePort" && call.flags.int("node-port") != 0 {
            port["nodePort"] = call.flags.int("node-port").into();
        }
        list.push(port);
    }
    if !list.is_empty() {
        object["spec"]["ports"] = values(list);
    }
    if !cluster_ip.is_empty() {
        object["spec"]["clusterIP"] = cluster_ip.into();
    }
    if kind == "ExternalName" {
        object["spec"]["externalName"] = call.flags.text("external-name").into();
    }
    object["status"]["loadBalancer"] = Value::object();
    make(call, object, "services", &format!("failed to create {kind} service: "))
}

/// Parses a port: `80`, `80:8080`, `80:http`.
fn tcp_port(text: &str) -> Result<Value> {
    let mut parts = text.split(':');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    let number: u32 = first.parse().map_err(|_| {
        CommandError::error(format!("strconv.ParseUint: parsing {}: invalid syntax", quote(first)))
    })?;
    if number > 65535 {
        return Err(CommandError::error(format!(
            "strconv.ParseUint: parsing {}: value out of range",
            quote(first)
        )));
    }
    let mut port = tree("protocol: TCP");
    port["name"] = text.replace(':', "-").as_str().into();
    port["port"] = i64::from(number).into();
    port["targetPort"] = match second {
        None => i64::from(number).into(),
        Some(target) => {
            if let Ok(n) = target.parse::<i64>() {
                let wrong = names::port_number(n);
                if !wrong.is_empty() {
                    return Err(CommandError::error(wrong.join(",")));
                }
                n.into()
            } else {
                let wrong = names::port_name(target);
                if !wrong.is_empty() {
                    return Err(CommandError::error(wrong.join(",")));
                }
                target.into()
            }
        }
    };
    Ok(port)
}

fn ingress(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, "networking.k8s.io/v1", "Ingress", true)?;
    let (rules, default) = (call.flags.all("rule"), call.flags.text("default-backend"));
    if rules.is_empty() && default.is_empty() {
        return Err(CommandError::error(
            "not enough information provided: every ingress has to either specify a default-backend (which catches all traffic) or a list of rules (which catch specific paths)",
        ));
    }
    let mut parsed = Vec::new();
    for rule in rules {
        parsed.push(Rule::parse(rule).ok_or_else(|| {
            CommandError::error(format!("rule {rule} is invalid and should be in format host/path=svcname:svcport[,tls[=secret]]"))
        })?);
    }
    for annotation in call.flags.all("annotation") {
        let Some((name, value)) = annotation.split_once('=') else {
            return Err(CommandError::error(format!(
                "annotation {annotation} is invalid and should be in format key=[value]"
            )));
        };
        object["metadata"]["annotations"][name] = value.into();
    }
    if !default.is_empty() {
        let wrong =
            || CommandError::error("default-backend should be in format servicename:serviceport");
        let (service, port) =
            default.split_once(':').filter(|(_, port)| !port.contains(':')).ok_or_else(wrong)?;
        object["spec"]["defaultBackend"] = backend(service, port);
    }
    let class = call.flags.text("class");
    if !class.is_empty() {
        object["spec"]["ingressClassName"] = class.into();
    }
    let mut hosts: Vec<(String, Vec<Value>)> = Vec::new();
    let mut tls: Vec<(String, Vec<String>)> = Vec::new();
    for rule in parsed {
        let paths = if let Some((_, paths)) = hosts.iter_mut().find(|(host, _)| *host == rule.host)
        {
            paths
        } else {
            hosts.push((rule.host.clone(), Vec::new()));
            &mut hosts.last_mut().expect("just pushed").1
        };
        paths.push(rule.path());
        if let Some(secret) = rule.tls {
            match tls.iter_mut().find(|(other, _)| *other == secret) {
                Some((_, names)) => names.push(rule.host),
                None => tls.push((secret, vec![rule.host])),
            }
        }
    }
    if !hosts.is_empty() {
        let made = hosts.into_iter().map(|(host, paths)| {
            let mut rule = Value::object();
            if !host.is_empty() {
                rule["host"] = host.as_str().into();
            }
            rule["http"]["paths"] = values(paths);
            rule
        });
        object["spec"]["rules"] = values(made.collect());
    }
    if !tls.is_empty() {
        let made = tls.into_iter().map(|(secret, hosts)| {
            let mut entry = Value::object();
            let hosts: Vec<String> = hosts.into_iter().filter(|host| !host.is_empty()).collect();
            if !hosts.is_empty() {
                entry["hosts"] = texts(&hosts);
            }
            if !secret.is_empty() {
                entry["secretName"] = secret.as_str().into();
            }
            entry
        });
        object["spec"]["tls"] = values(made.collect());
    }
    object["status"]["loadBalancer"] = Value::object();
    make(call, object, "ingresses.networking.k8s.io", "failed to create ingress: ")
}

/// A rule of an ingress: `host/path=service:port[,tls[=secret]]`.
struct Rule {
    host: String,
    path: String,
    service: String,
    port: String,
    tls: Option<String>,
}

impl Rule {
    fn parse(text: &str) -> Option<Self> {
        let (rule, tls) =
            text.split_once(',').map_or((text, None), |(rule, tls)| (rule, Some(tls)));
        let (address, target) = rule.split_once('=')?;
        let (host, path) = address.split_once('/')?;
        let (service, port) = target.split_once(':')?;
        if service.is_empty() || port.is_empty() {
            return None;
        }
        let tls = match tls {
            None => None,
            // What follows a comma is not checked; only the name of a secret is read from it.
            Some(tls) if tls.contains(',') => None,
            Some(tls) => Some(tls.split('=').nth(1).unwrap_or_default().to_owned()),
        };
        Some(Self {
            host: host.into(),
            path: format!("/{path}"),
            service: service.into(),
            port: port.into(),
            tls,
        })
    }

    fn path(&self) -> Value {
        let mut path = Value::object();
        path["backend"] = backend(&self.service, &self.port);
        let bare = self.path.strip_suffix('*');
        path["path"] = bare.unwrap_or(&self.path).into();
        path["pathType"] = if bare.is_some() { "Prefix" } else { "Exact" }.into();
        path
    }
}

fn backend(service: &str, port: &str) -> Value {
    let mut backend = Value::object();
    backend["service"]["name"] = service.into();
    match port.parse::<i64>() {
        Ok(n) => backend["service"]["port"]["number"] = n.into(),
        Err(_) => backend["service"]["port"]["name"] = port.into(),
    }
    backend
}

fn quota(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, "v1", "ResourceQuota", true)?;
    object["spec"] = Value::object();
    for pair in call.flags.text("hard").split(',').filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(CommandError::error(format!(
                "Invalid argument syntax {pair}, expected <resource>=<value>"
            )));
        };
        let value: Quantity = value.parse().map_err(|error: object::quantity::QuantityError| {
            CommandError::error(error.to_string())
        })?;
        object["spec"]["hard"][name] = value.into();
    }
    let scopes: Vec<&str> =
        call.flags.text("scopes").split(',').filter(|scope| !scope.is_empty()).collect();
    if !scopes.is_empty() {
        object["spec"]["scopes"] = texts(&scopes);
    }
    object["status"] = Value::object();
    make(call, object, "resourcequotas", "failed to create quota: ")
}

fn disruption_budget(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, "policy/v1", "PodDisruptionBudget", true)?;
    let (least, most, selector) = (
        call.flags.text("min-available"),
        call.flags.text("max-unavailable"),
        call.flags.text("selector"),
    );
    if selector.is_empty() {
        return Err(CommandError::error("a selector must be specified"));
    }
    if least.is_empty() && most.is_empty() {
        return Err(CommandError::error(
            "one of min-available or max-unavailable must be specified",
        ));
    }
    if !least.is_empty() && !most.is_empty() {
        return Err(CommandError::error(
            "min-available and max-unavailable cannot be both specified",
        ));
    }
    for (flag, text) in [("min-available", least), ("max-unavailable", most)] {
        let digits = text.strip_suffix('%').unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !text.is_empty() && !is_number {
            return Err(CommandError::error(format!("invalid format specified for {flag}")));
        }
    }
    object["spec"]["selector"] = label_selector(selector)?;
    let number = |text: &str| text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from);
    if least.is_empty() {
        object["spec"]["maxUnavailable"] = number(most);
    } else {
        object["spec"]["minAvailable"] = number(least);
    }
    object["status"] =
        tree("{currentHealthy: 0, desiredHealthy: 0, disruptionsAllowed: 0, expectedPods: 0}");
    make(call, object, "poddisruptionbudgets.policy", "failed to create poddisruptionbudgets: ")
}

/// Parses a selector into a LabelSelector.
fn label_selector(text: &str) -> Result<Value> {
    let parsed = Selector::parse(text).map_err(|error| {
        CommandError::error(format!("couldn't parse the selector string {}: {error}", quote(text)))
    })?;
    let mut selector = Value::object();
    let mut expressions = Vec::new();
    for requirement in parsed.requirements() {
        let key = &*requirement.key;
        let operator = match (&requirement.operator, requirement.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals, [value]) => {
                selector["matchLabels"][key] = (&**value).into();
                continue;
            }
            (Operator::Equals | Operator::DoubleEquals | Operator::In, _) => "In",
            (Operator::NotEquals | Operator::NotIn, _) => "NotIn",
            (Operator::Exists, _) => "Exists",
            (Operator::DoesNotExist, _) => "DoesNotExist",
            (other, _) => {
                return Err(CommandError::error(format!(
                    "{other:?} is not a valid label selector operator"
                )));
            }
        };
        let mut expression = Value::object();
        expression["key"] = key.into();
        expression["operator"] = operator.into();
        if !requirement.values.is_empty() {
            expression["values"] = texts(&requirement.values);
        }
        expressions.push(expression);
    }
    if !expressions.is_empty() {
        selector["matchExpressions"] = values(expressions);
    }
    Ok(selector)
}

fn priority_class(call: &Invocation<'_>) -> Result {
    let mut object = begin(call, "scheduling.k8s.io/v1", "PriorityClass", false)?;
    object["value"] = call.flags.int("value").into();
    if call.flags.is_true("global-default") {
        object["globalDefault"] = true.into();
    }
    let description = call.flags.text("description");
    if !description.is_empty() {
        object["description"] = description.into();
    }
    object["preemptionPolicy"] = call.flags.text("preemption-policy").into();
    make(call, object, "priorityclasses.scheduling.k8s.io", "failed to create priorityclass: ")
}

fn token(call: &Invocation<'_>) -> Result {
    let name = one_name(call)?;
    let output = OutputFormat::of(call, false)?;
    if call.flags.duration("duration") < 0 {
        return Err(CommandError::error("--duration must be greater than or equal to 0"));
    }
    let (kind, bound) =
        (call.flags.text("bound-object-kind"), call.flags.text("bound-object-name"));
    if !kind.is_empty() && bound.is_empty() {
        return Err(CommandError::error(
            "--bound-object-name is required if --bound-object-kind is provided",
        ));
    }
    if kind.is_empty() && !bound.is_empty() {
        return Err(CommandError::error(
            "--bound-object-name can only be set if --bound-object-kind is provided",
        ));
    }
    let mut request = tree("{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {}}");
    if !call.flags.all("audience").is_empty() {
        request["spec"]["audiences"] = texts(call.flags.all("audience"));
    }
    let seconds = call.flags.duration("duration") / 1_000_000_000;
    if seconds > 0 {
        request["spec"]["expirationSeconds"] = seconds.into();
    }
    if !kind.is_empty() {
        let reference = &mut request["spec"]["boundObjectRef"];
        reference["kind"] = kind.into();
        reference["apiVersion"] = "v1".into();
        reference["name"] = bound.into();
        let uid = call.flags.text("bound-object-uid");
        if !uid.is_empty() {
            reference["uid"] = uid.into();
        }
    }
    let path = format!("/api/v1/namespaces/{}/serviceaccounts/{name}/token", call.namespace()?);
    let failed = |fail: CommandError| {
        CommandError::error(format!("failed to create token: {}", fail.message()))
    };
    let answer = call.server()?.post(&path, &request).map_err(failed)?;
    if !output.is_human() {
        return output.print_declared(call, &answer, "");
    }
    call.print(answer["status"]["token"].as_str().unwrap_or_default());
    Ok(())
}
