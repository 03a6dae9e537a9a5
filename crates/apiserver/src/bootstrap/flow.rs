//! The default FlowSchemas and PriorityLevelConfigurations, with upstream's names, so that users
//! who select or edit them by name find them.

use object::{Value, from_json};

/// A level: name, nominal shares, lendable percent, queues and hand size. A level without queues
/// rejects what exceeds its limit.
const LEVELS: &[(&str, i64, i64, i64, i64)] = &[
    ("catch-all", 5, 0, 0, 0),
    ("system", 30, 33, 64, 6),
    ("node-high", 40, 25, 64, 6),
    ("leader-election", 10, 0, 16, 4),
    ("workload-high", 40, 50, 128, 6),
    ("workload-low", 100, 90, 128, 6),
    ("global-default", 20, 50, 128, 6),
];
const LONGEST_QUEUE: i64 = 50;

/// A schema: name, priority level, matching precedence, distinguisher, subjects and rules.
type Schema = (&'static str, &'static str, i64, &'static str, &'static [&'static str], What);

/// The requests that a schema matches.
#[derive(Clone, Copy)]
enum What {
    All,
    /// Non-resource paths, for reading.
    Paths(&'static [&'static str]),
    /// Group, resources, verbs, and whether cluster-scoped requests match.
    Some(&'static [(&'static str, &'static [&'static str], &'static [&'static str], bool)]),
}

const EVERYBODY: &[&str] = &["g:system:unauthenticated", "g:system:authenticated"];
const MANAGER: &str = "u:system:kube-controller-manager";
const SCHEDULER: &str = "u:system:kube-scheduler";

const SCHEMAS: &[Schema] = &[
    ("exempt", "exempt", 1, "", &["g:system:masters"], What::All),
    ("probes", "exempt", 2, "", EVERYBODY, What::Paths(&["/healthz", "/readyz", "/livez"])),
    (
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        &[MANAGER, SCHEDULER, "s:*"],
        What::Some(&[("coordination.k8s.io", &["leases"], &["get", "create", "update"], false)]),
    ),
    (
        "system-node-high",
        "node-high",
        400,
        "ByUser",
        &["g:system:nodes"],
        What::Some(&[
            ("", &["nodes", "nodes/status"], &["*"], true),
            ("coordination.k8s.io", &["leases"], &["*"], false),
        ]),
    ),
    ("system-nodes", "system", 500, "ByUser", &["g:system:nodes"], What::All),
    ("kube-controller-manager", "workload-high", 800, "ByNamespace", &[MANAGER], What::All),
    ("kube-scheduler", "workload-high", 800, "ByNamespace", &[SCHEDULER], What::All),
    ("kube-system-service-accounts", "workload-high", 900, "ByNamespace", &["s:*"], What::All),
    ("service-accounts", "workload-low", 9000, "ByUser", &["g:system:serviceaccounts"], What::All),
    ("global-default", "global-default", 9900, "ByUser", EVERYBODY, What::All),
    ("catch-all", "catch-all", 10000, "ByUser", EVERYBODY, What::All),
];

/// All levels, then all schemas.
pub(super) fn objects() -> Vec<Value> {
    let mut exempt = named("PriorityLevelConfiguration", "exempt");
    exempt["spec"] =
        tree(r#"{"type":"Exempt","exempt":{"lendablePercent":0,"nominalConcurrencyShares":0}}"#);
    let levels = LEVELS.iter().map(level);
    [exempt].into_iter().chain(levels).chain(SCHEMAS.iter().map(schema)).collect()
}

fn level(&(name, shares, lendable, queues, hand): &(&str, i64, i64, i64, i64)) -> Value {
    let mut object = named("PriorityLevelConfiguration", name);
    let mut limited = Value::object();
    limited["nominalConcurrencyShares"] = shares.into();
    limited["lendablePercent"] = lendable.into();
    if queues == 0 {
        limited["limitResponse"]["type"] = "Reject".into();
    } else {
        let response = &mut limited["limitResponse"];
        response["type"] = "Queue".into();
        response["queuing"]["queues"] = queues.into();
        response["queuing"]["handSize"] = hand.into();
        response["queuing"]["queueLengthLimit"] = LONGEST_QUEUE.into();
    }
    object["spec"]["type"] = "Limited".into();
    object["spec"]["limited"] = limited;
    object
}

fn schema(&(name, level, place, by, whom, what): &Schema) -> Value {
    let mut object = named("FlowSchema", name);
    let spec = &mut object["spec"];
    spec["priorityLevelConfiguration"]["name"] = level.into();
    spec["matchingPrecedence"] = place.into();
    if !by.is_empty() {
        spec["distinguisherMethod"]["type"] = by.into();
    }
    let mut rule = Value::object();
    rule["subjects"] = whom.iter().map(|whom| subject(whom)).collect();
    match what {
        What::All => {
            rule["resourceRules"] = [resources("*", &["*"], &["*"], true)].into_iter().collect();
            rule["nonResourceRules"] = [paths(&["*"], "*")].into_iter().collect();
        }
        What::Paths(those) => {
            rule["nonResourceRules"] = [paths(those, "get")].into_iter().collect();
        }
        What::Some(those) => {
            let each = those
                .iter()
                .map(|&(group, names, verbs, cluster)| resources(group, names, verbs, cluster));
            rule["resourceRules"] = each.collect();
        }
    }
    spec["rules"] = [rule].into_iter().collect();
    object
}

/// Parses a subject: `u:` is a user, `g:` a group, `s:` a service account of kube-system.
fn subject(whom: &str) -> Value {
    let (kind, name) = whom.split_once(':').unwrap_or(("u", whom));
    let mut subject = Value::object();
    match kind {
        "g" => {
            subject["kind"] = "Group".into();
            subject["group"]["name"] = name.into();
        }
        "s" => {
            subject["kind"] = "ServiceAccount".into();
            subject["serviceAccount"]["name"] = name.into();
            subject["serviceAccount"]["namespace"] = "kube-system".into();
        }
        _ => {
            subject["kind"] = "User".into();
            subject["user"]["name"] = name.into();
        }
    }
    subject
}

fn resources(group: &str, names: &[&str], verbs: &[&str], cluster: bool) -> Value {
    let mut rule = Value::object();
    rule["verbs"] = verbs.iter().copied().collect();
    rule["apiGroups"] = [group].into_iter().collect();
    rule["resources"] = names.iter().copied().collect();
    rule["namespaces"] = ["*"].into_iter().collect();
    if cluster {
        rule["clusterScope"] = true.into();
    }
    rule
}

fn paths(paths: &[&str], verb: &str) -> Value {
    let mut rule = Value::object();
    rule["verbs"] = [verb].into_iter().collect();
    rule["nonResourceURLs"] = paths.iter().copied().collect();
    rule
}

fn named(kind: &str, name: &str) -> Value {
    let mut object = Value::object();
    object["apiVersion"] = "flowcontrol.apiserver.k8s.io/v1".into();
    object["kind"] = kind.into();
    object["metadata"]["name"] = name.into();
    object["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"] = "true".into();
    object
}

fn tree(text: &str) -> Value {
    from_json(text.as_bytes()).expect("written here, and read by every start")
}
