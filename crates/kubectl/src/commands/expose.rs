//! `expose`: creates a Service for an existing workload.

use object::Value;

use super::{Command, DRY_RUN, DryRun, FIELD_MANAGER, FILES, create::tree, write_query};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    merge::merge_patch,
    print::{self, OutputFormat},
    record::{self, ChangeCause},
    select::{BuilderOptions, Info},
};

pub(crate) const COMMAND: Command = Command::new(
    "expose",
    &[
        FILES,
        DRY_RUN,
        FIELD_MANAGER,
        record::FLAGS,
        print::FLAGS,
        &[
            Flag::text("port"),
            Flag::text("target-port"),
            Flag::text("protocol"),
            Flag::text("name"),
            Flag::text("type"),
            Flag::text("selector"),
            Flag::text("labels").short('l'),
            Flag::text("external-ip"),
            Flag::text("load-balancer-ip"),
            Flag::text("cluster-ip"),
            Flag::text("session-affinity"),
            Flag::text("overrides"),
            Flag::text("override-type").default("merge"),
            Flag::bool("save-config"),
        ],
    ],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    let dry_run = DryRun::of(call)?;
    let output = OutputFormat::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-expose")?;
    // `--selector` is the Service's selector, and does not select objects.
    let (infos, mut fails) = call.select_plain(
        call.args(),
        BuilderOptions { fetch: !call.has_files(), ..BuilderOptions::default() },
    )?;
    for info in infos {
        let mut made = match service(call, &info) {
            Ok(service) => service,
            Err(fail) => {
                fails.push(fail);
                continue;
            }
        };
        ChangeCause::of(call).annotate(&mut made);
        if dry_run != DryRun::Client {
            let path = format!("/api/v1/namespaces/{}/services{query}", info.namespace);
            match call.server()?.post(&path, &made) {
                Ok(service) => made = service,
                Err(fail) => {
                    fails.push(fail);
                    continue;
                }
            }
        }
        if dry_run == DryRun::Client {
            output.print_declared(call, &made, &format!("exposed{}", dry_run.suffix()))?;
        } else {
            output.print(call, &made, &format!("exposed{}", dry_run.suffix()))?;
        }
    }
    CommandError::collect(fails)
}

fn service(call: &Invocation<'_>, info: &Info) -> Result<Value> {
    let (flags, object) = (&call.flags, &info.object);
    let kind = info.resource.kind.as_str();
    let lower = kind.to_lowercase();
    if !matches!(kind, "Pod" | "Service" | "ReplicationController" | "Deployment" | "ReplicaSet") {
        return Err(CommandError::error(format!("cannot expose a {kind}")));
    }
    let mut service = tree("{apiVersion: v1, kind: Service, status: {loadBalancer: {}}}");
    let name = match flags.text("name") {
        "" => info.name.as_str(),
        name => name,
    };
    service["metadata"]["name"] = name.into();
    service["metadata"]["namespace"] = info.namespace.as_str().into();
    service["metadata"]["labels"] = object["metadata"]["labels"].clone();
    if !flags.text("labels").is_empty() {
        service["metadata"]["labels"] = pairs(flags.text("labels"))?;
    }
    let selector = if flags.text("selector").is_empty() {
        found_selector(object, kind)
    } else {
        Some(pairs(flags.text("selector"))?)
    };
    let Some(selector) = selector.filter(|selector| selector.entries().len() > 0) else {
        let what = if kind == "Pod" {
            "the pod has no labels and cannot be exposed".to_owned()
        } else {
            format!("invalid {lower}: no selectors, therefore cannot be exposed")
        };
        return Err(CommandError::error(format!(
            "couldn't retrieve selectors via --selector flag or introspection: {what}"
        )));
    };
    service["spec"]["selector"] = selector;
    service["spec"]["ports"] = ports(call, object, kind)?;
    for (flag, field) in [
        ("type", "type"),
        ("load-balancer-ip", "loadBalancerIP"),
        ("cluster-ip", "clusterIP"),
        ("session-affinity", "sessionAffinity"),
    ] {
        if !flags.text(flag).is_empty() {
            service["spec"][field] = flags.text(flag).into();
        }
    }
    if !flags.text("external-ip").is_empty() {
        service["spec"]["externalIPs"] =
            Value::List([flags.text("external-ip").into()].into_iter().collect());
    }
    if !flags.text("overrides").is_empty() {
        let patch = object::from_json(flags.text("overrides").as_bytes())
            .map_err(|_| CommandError::error("Invalid JSON Patch"))?;
        merge_patch(&mut service, &patch);
    }
    Ok(service)
}

fn pairs(text: &str) -> Result<Value> {
    let mut labels = Value::object();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(CommandError::error(format!("unexpected label spec: {pair}")));
        };
        labels[name] = value.into();
    }
    Ok(labels)
}

fn found_selector(object: &Value, kind: &str) -> Option<Value> {
    let selector = match kind {
        "Pod" => &object["metadata"]["labels"],
        "Service" | "ReplicationController" => &object["spec"]["selector"],
        _ if !object["spec"]["selector"]["matchExpressions"].items().is_empty() => return None,
        _ => &object["spec"]["selector"]["matchLabels"],
    };
    Some(selector.clone())
}

fn ports(call: &Invocation<'_>, object: &Value, kind: &str) -> Result<Value> {
    let flags = &call.flags;
    let mut found: Vec<(i64, String)> = Vec::new();
    let protocol = |value: &Value| value["protocol"].as_str().unwrap_or("TCP").to_owned();
    let given = |n: i64| {
        (
            n,
            match flags.text("protocol") {
                "" => "TCP".to_owned(),
                protocol => protocol.to_owned(),
            },
        )
    };
    if flags.text("port").is_empty() {
        let (list, field): (Vec<&Value>, &str) = match kind {
            "Service" => (object["spec"]["ports"].items().iter().collect(), "port"),
            "Pod" => (
                object["spec"]["containers"]
                    .items()
                    .iter()
                    .flat_map(|c| c["ports"].items())
                    .collect(),
                "containerPort",
            ),
            _ => (
                object["spec"]["template"]["spec"]["containers"]
                    .items()
                    .iter()
                    .flat_map(|c| c["ports"].items())
                    .collect(),
                "containerPort",
            ),
        };
        let protocol = |port: &Value| match flags.text("protocol") {
            "" => protocol(port),
            given => given.to_owned(),
        };
        found.extend(list.iter().filter_map(|port| Some((port[field].as_i64()?, protocol(port)))));
        if found.is_empty() {
            return Err(CommandError::error("couldn't find port via --port flag or introspection"));
        }
    } else {
        for port in flags.text("port").split(',') {
            let number = port.parse().map_err(|_| {
                CommandError::error(format!(
                    "strconv.Atoi: parsing {}: invalid syntax",
                    object::quote::quote(port)
                ))
            })?;
            found.push(given(number));
        }
    }
    let several = found.len() > 1;
    let made = found.into_iter().enumerate().map(|(at, (number, protocol))| {
        let mut port = Value::object();
        if several {
            port["name"] = format!("port-{}", at + 1).as_str().into();
        }
        port["port"] = number.into();
        port["protocol"] = protocol.as_str().into();
        port["targetPort"] = match flags.text("target-port") {
            "" => number.into(),
            target => target.parse::<i64>().map_or_else(|_| target.into(), Value::from),
        };
        port
    });
    Ok(Value::List(made.collect()))
}
