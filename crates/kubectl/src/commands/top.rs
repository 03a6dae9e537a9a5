//! `top`: prints the resource usage of nodes and pods, from the metrics API.

use std::collections::BTreeMap;

use object::{Quantity, Value, quantity::Format};

use super::{ALL_NAMESPACES, Command, FIELD_SELECTOR, SELECTOR};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    print::tabwriter::TABLE,
    resources::escape,
};

const FLAGS: &[Flag] = &[
    Flag::text("sort-by"),
    Flag::bool("no-headers"),
    Flag::bool("use-protocol-buffers").default("true"),
    Flag::bool("show-swap"),
];

pub(crate) const COMMAND: Command = Command::group(
    "top",
    &[
        Command::new("node", &[SELECTOR, FLAGS, &[Flag::bool("show-capacity")]], nodes)
            .aliases(&["nodes", "no"]),
        Command::new(
            "pod",
            &[
                SELECTOR,
                FIELD_SELECTOR,
                ALL_NAMESPACES,
                FLAGS,
                &[Flag::bool("containers"), Flag::bool("sum")],
            ],
            pods,
        )
        .aliases(&["pods", "po"]),
    ],
);

/// Usage by resource name.
type Usage = BTreeMap<&'static str, Quantity>;

/// How long the metrics of a new pod may be missing, in seconds.
const METRICS_DELAY_SECONDS: i64 = 120;

fn measured(call: &Invocation<'_>) -> &'static [&'static str] {
    if call.flags.is_true("show-swap") { &["cpu", "memory", "swap"] } else { &["cpu", "memory"] }
}

fn begin<'a>(call: &'a Invocation<'_>, selectors: bool, says: &str) -> Result<&'a str> {
    let name = match call.args() {
        [] => "",
        [name] => name.as_str(),
        _ => {
            return Err(call
                .usage(format!("{} [NAME | -l label]", call.command.trim_start_matches("top "))));
        }
    };
    if !matches!(call.flags.text("sort-by"), "" | "cpu" | "memory") {
        return Err(CommandError::error("--sort-by accepts only cpu or memory"));
    }
    if !name.is_empty() && selectors {
        return Err(CommandError::error(says));
    }
    call.selector()?;
    Ok(name)
}

/// The metrics of `plural`, or of the one object with this name.
fn metrics(call: &Invocation<'_>, plural: &str, namespace: &str, name: &str) -> Result<Vec<Value>> {
    let groups = call.server()?.get("/apis")?;
    let group =
        groups["groups"].items().iter().find(|g| g["name"].as_str() == Some("metrics.k8s.io"));
    let versions = group.map_or(&[][..], |group| group["versions"].items());
    let version = versions
        .iter()
        .filter_map(|version| version["version"].as_str())
        .find(|version| matches!(*version, "v1" | "v1beta1"))
        .ok_or_else(|| CommandError::error("Metrics API not available"))?;
    let mut path = format!("/apis/metrics.k8s.io/{version}");
    if !namespace.is_empty() {
        path += &format!("/namespaces/{}", escape(namespace));
    }
    path += &format!("/{plural}");
    if name.is_empty() {
        let selector = call.selector()?.to_string();
        if !selector.is_empty() {
            path += &format!("?labelSelector={}", escape(&selector));
        }
        Ok(call.server()?.get(&path)?["items"].items().to_vec())
    } else {
        Ok(vec![call.server()?.get(&format!("{path}/{}", escape(name)))?])
    }
}

fn usage(tree: &Value, names: &[&'static str]) -> Usage {
    names.iter().map(|name| (*name, amount(&tree[*name]))).collect()
}

fn amount(value: &Value) -> Quantity {
    let text = value.as_str().map(str::to_owned).or(value.as_i64().map(|n| n.to_string()));
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| Quantity::new(0, Format::DecimalSi))
}

fn shown(name: &str, amount: &Quantity) -> String {
    match name {
        "cpu" => format!("{}m", amount.milli_value()),
        _ => format!("{}Mi", amount.value() / (1024 * 1024)),
    }
}

/// Sorts by usage in descending order if `--sort-by` is given, otherwise by namespace and name.
fn sort<T>(
    call: &Invocation<'_>,
    all: &mut [T],
    usage: impl Fn(&T) -> &Usage,
    place: impl Fn(&T) -> String,
) {
    match call.flags.text("sort-by") {
        "" => all.sort_by_key(place),
        by => all.sort_by(|a, b| usage(b).get(by).cmp(&usage(a).get(by))),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn nodes(call: &Invocation<'_>) -> Result {
    let selecting = !call.flags.text("selector").is_empty();
    let name = begin(call, selecting, "only one of NAME or --selector can be provided")?;
    let names = measured(call);
    let mut lines: Vec<(String, Usage)> = metrics(call, "nodes", "", name)?
        .iter()
        .map(|node| (text(&node["metadata"]["name"]), usage(&node["usage"], names)))
        .collect();
    if lines.is_empty() {
        return Err(CommandError::error("metrics not available yet"));
    }
    let found = if name.is_empty() {
        let selector = call.selector()?.to_string();
        let path = format!("/api/v1/nodes?labelSelector={}", escape(&selector));
        call.server()?.get(&path)?["items"].items().to_vec()
    } else {
        vec![call.server()?.get(&format!("/api/v1/nodes/{}", escape(name)))?]
    };
    let field = if call.flags.is_true("show-capacity") { "capacity" } else { "allocatable" };
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    for node in found {
        let mut amounts = node["status"][field].clone();
        let swap = &node["status"]["nodeInfo"]["swap"]["capacity"];
        if !swap.is_null() {
            amounts["swap"] = swap.clone();
        }
        known.insert(text(&node["metadata"]["name"]), amounts);
    }
    sort(call, &mut lines, |line| &line.1, |line| line.0.clone());
    let mut table = String::new();
    if !call.flags.is_true("no-headers") {
        table += "NAME\tCPU(cores)\tCPU(%)\tMEMORY(bytes)\tMEMORY(%)\t";
        table += if names.len() > 2 { "SWAP(bytes)\tSWAP(%)\t\n" } else { "\n" };
    }
    for (name, usage) in &lines {
        table += &format!("{name}\t");
        let available = known.remove(name).unwrap_or_default();
        for resource in names {
            let whole = &available[*resource];
            if *resource == "swap" && whole.is_null() {
                table += "<unknown>\t<unknown>\t";
                continue;
            }
            table += &format!("{}\t", shown(resource, &usage[resource]));
            if !whole.is_null() {
                let whole = amount(whole).milli_value();
                let percent = if whole == 0 {
                    0
                } else {
                    i128::from(usage[resource].milli_value()) * 100 / i128::from(whole)
                };
                table += &format!("{percent}%\t");
            }
        }
        table += "\n";
    }
    for name in known.keys() {
        table += &format!("{name}\t{}\n", "<unknown>\t<unknown>\t".repeat(names.len()));
    }
    call.print(&TABLE.align(&table));
    Ok(())
}

/// The usage of a pod: namespace, name, total, and by container.
struct Pod {
    namespace: String,
    name: String,
    whole: Usage,
    containers: Vec<(String, Usage)>,
}

fn pods(call: &Invocation<'_>) -> Result {
    let fields = call.flags.text("field-selector");
    let selecting = !call.flags.text("selector").is_empty() || !fields.is_empty();
    let name = begin(call, selecting, "only one of NAME or selector can be provided")?;
    let everywhere = call.flags.is_true("all-namespaces");
    let namespace = if everywhere { String::new() } else { call.namespace()? };
    let names = measured(call);
    let mut found = metrics(call, "pods", &namespace, name)?;
    if !found.is_empty() && !fields.is_empty() {
        let wanted = matching(call, &namespace)?;
        found.retain(|pod| {
            wanted.iter().any(|other| {
                other["metadata"]["name"] == pod["metadata"]["name"]
                    && other["metadata"]["namespace"] == pod["metadata"]["namespace"]
            })
        });
    }
    if found.is_empty() {
        check_metrics_missing(call, name)?;
        call.print_err(&if everywhere {
            "No resources found".to_owned()
        } else {
            format!("No resources found in {namespace} namespace.")
        });
        return Ok(());
    }
    let mut pods: Vec<Pod> = found.iter().map(|pod| read(pod, names)).collect();
    sort(
        call,
        &mut pods,
        |pod| &pod.whole,
        |pod| {
            if everywhere { format!("{}\0{}", pod.namespace, pod.name) } else { pod.name.clone() }
        },
    );
    call.print(&TABLE.align(&table(call, &mut pods, names)));
    Ok(())
}

fn read(pod: &Value, names: &[&'static str]) -> Pod {
    let containers: Vec<(String, Usage)> = pod["containers"]
        .items()
        .iter()
        .map(|container| (text(&container["name"]), usage(&container["usage"], names)))
        .collect();
    let mut whole = usage(&Value::Null, names);
    for (_, usage) in &containers {
        add(&mut whole, usage);
    }
    Pod {
        namespace: text(&pod["metadata"]["namespace"]),
        name: text(&pod["metadata"]["name"]),
        whole,
        containers,
    }
}

fn add(whole: &mut Usage, more: &Usage) {
    for (name, amount) in more {
        if let Some(sum) = whole.get_mut(name) {
            *sum += amount;
        }
    }
}

fn table(call: &Invocation<'_>, pods: &mut [Pod], names: &[&'static str]) -> String {
    let (everywhere, each) =
        (call.flags.is_true("all-namespaces"), call.flags.is_true("containers"));
    let headers = !call.flags.is_true("no-headers");
    let mut columns = names.len() + 1;
    let mut table = String::new();
    if headers {
        for (shown, header) in [(everywhere, "NAMESPACE\t"), (each, "POD\t")] {
            if shown {
                columns += 1;
                table += header;
            }
        }
        table += "NAME\tCPU(cores)\tMEMORY(bytes)\t";
        table += if names.len() > 2 { "SWAP(bytes)\t\n" } else { "\n" };
    }
    let cells = |usage: &Usage| -> String {
        names.iter().map(|name| format!("{}\t", shown(name, &usage[name]))).collect()
    };
    let mut sum = usage(&Value::Null, names);
    for pod in pods {
        let place = if everywhere { format!("{}\t", pod.namespace) } else { String::new() };
        if each {
            sort(call, &mut pod.containers, |one| &one.1, |one| one.0.clone());
            for (name, usage) in &pod.containers {
                table += &format!("{place}{}\t{name}\t{}\n", pod.name, cells(usage));
            }
        } else {
            table += &format!("{place}{}\t{}\n", pod.name, cells(&pod.whole));
        }
        add(&mut sum, &pod.whole);
    }
    if call.flags.is_true("sum") {
        table += &format!("{}________\t________\t\n", "\t".repeat(columns - 2));
        table += &format!("{}\t{}\n", "\t".repeat(columns - 3), cells(&sum));
    }
    table
}

/// The pods that the selectors select.
fn matching(call: &Invocation<'_>, namespace: &str) -> Result<Vec<Value>> {
    let mut path = "/api/v1".to_owned();
    if !namespace.is_empty() {
        path += &format!("/namespaces/{}", escape(namespace));
    }
    path += &format!(
        "/pods?labelSelector={}&fieldSelector={}",
        escape(&call.selector()?.to_string()),
        escape(call.flags.text("field-selector"))
    );
    Ok(call.server()?.get(&path)?["items"].items().to_vec())
}

/// Fails if there are pods that should already have metrics.
fn check_metrics_missing(call: &Invocation<'_>, name: &str) -> Result {
    let pods = if name.is_empty() {
        matching(call, &call.namespace()?)?
    } else {
        let path = format!("/api/v1/namespaces/{}/pods/{}", call.namespace()?, escape(name));
        vec![call.server()?.get(&path)?]
    };
    if pods.is_empty() {
        return Ok(());
    }
    for pod in &pods {
        let born: Option<jiff::Timestamp> =
            pod["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse().ok());
        let age = call.now() - born.map_or(0, jiff::Timestamp::as_second);
        if age > METRICS_DELAY_SECONDS {
            return Err(CommandError::error(format!(
                "Metrics not available for pod {}/{}, age: {age}s",
                text(&pod["metadata"]["namespace"]),
                text(&pod["metadata"]["name"])
            )));
        }
    }
    Err(CommandError::error("metrics not available yet"))
}
