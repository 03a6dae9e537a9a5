//! `auth reconcile`: adds the rules and subjects of manifests to RBAC roles and bindings, and removes others only if
//! a flag says so.

use object::Value;

use super::Command;
use crate::{
    commands::{DRY_RUN, DryRun, FILES, create::tree},
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    print::{self, OutputFormat},
    select::{BuilderOptions, Info},
    workload::{list, push},
};

pub(super) const COMMAND: Command = Command::new(
    "reconcile",
    &[
        FILES,
        DRY_RUN,
        print::FLAGS,
        &[Flag::bool("remove-extra-permissions"), Flag::bool("remove-extra-subjects")],
    ],
    run,
);

/// Number of attempts in case of conflicts.
const TRIES: usize = 3;

/// The write that an object needs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    None,
    Create,
    Update,
    Recreate,
}

/// The reconciled object, and its missing and surplus rules or subjects.
#[derive(Debug)]
struct Plan {
    step: Step,
    object: Value,
    missing: Vec<Value>,
    extra: Vec<Value>,
    protected: bool,
}

fn run(call: &Invocation<'_>) -> Result {
    if !call.has_files() {
        return Err(CommandError::error("must specify one of -f and -k"));
    }
    if !call.args().is_empty() {
        return Err(CommandError::error("no arguments are allowed"));
    }
    let dry_run = DryRun::of(call)?;
    if dry_run == DryRun::Server {
        return Err(CommandError::error(
            "--dry-run=server for kubectl auth reconcile is not supported yet",
        ));
    }
    let output = OutputFormat::of(call, false)?;
    let (infos, mut fails) = call.select(&[], BuilderOptions::default())?;
    for info in infos {
        if info.resource.group != "rbac.authorization.k8s.io" {
            continue;
        }
        let done = reconcile(call, &info, dry_run == DryRun::No);
        match done {
            Ok(plan) => {
                output.print(call, &plan.object, &format!("reconciled{}", dry_run.suffix()))?;
                tell(call, &info, &plan);
            }
            Err(fail) => fails.push(fail),
        }
    }
    CommandError::collect(fails)
}

fn reconcile(call: &Invocation<'_>, info: &Info, write: bool) -> Result<Plan> {
    let mut tries = 0;
    loop {
        let mut plan = match call.server()?.get(&info.path()) {
            Ok(there) => plan(&there, &info.object, |flag| call.flags.is_true(flag)),
            Err(fail) if fail.is_not_found() => Plan {
                step: Step::Create,
                object: info.object.clone(),
                missing: info.object[field(&info.object)].items().to_vec(),
                extra: Vec::new(),
                protected: false,
            },
            Err(fail) => return Err(fail),
        };
        if plan.protected || !write || plan.step == Step::None {
            return Ok(plan);
        }
        match perform(call, info, &plan) {
            Ok(object) => {
                plan.object = object;
                return Ok(plan);
            }
            Err(CommandError::Server { status, .. })
                if tries < TRIES
                    && (status.has_reason("Conflict")
                        || status.has_reason("AlreadyExists")
                        || status.has_reason("NotFound")) =>
            {
                tries += 1;
            }
            Err(fail) => return Err(fail),
        }
    }
}

fn perform(call: &Invocation<'_>, info: &Info, plan: &Plan) -> Result<Value> {
    if plan.step == Step::Update {
        return call.server()?.put(&info.path(), &plan.object);
    }
    if plan.step == Step::Recreate {
        match call.server()?.delete(&info.path(), &Value::object()) {
            Err(fail) if !fail.is_not_found() => return Err(fail),
            _ => {}
        }
    }
    if !info.namespace.is_empty() {
        let path = format!("/api/v1/namespaces/{}", info.namespace);
        if call.server()?.get(&path).is_err_and(|fail| fail.is_not_found()) {
            let mut namespace = tree("{apiVersion: v1, kind: Namespace}");
            namespace["metadata"]["name"] = info.namespace.as_str().into();
            call.server()?.post("/api/v1/namespaces", &namespace)?;
        }
    }
    call.server()?.post(&info.resource.path(&info.namespace, ""), &plan.object)
}

/// The field that is reconciled.
fn field(object: &Value) -> &'static str {
    if is_binding(object) { "subjects" } else { "rules" }
}

fn is_binding(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|kind| kind.ends_with("Binding"))
}

/// Computes how `there` must change to grant what `wanted` grants.
fn plan(there: &Value, wanted: &Value, on: impl Fn(&str) -> bool) -> Plan {
    let annotations = &there["metadata"]["annotations"];
    let protected =
        annotations["rbac.authorization.kubernetes.io/autoupdate"].as_str() == Some("false");
    if is_binding(wanted) && wanted["roleRef"] != there["roleRef"] {
        let (object, step) = (wanted.clone(), Step::Recreate);
        return Plan { step, object, missing: Vec::new(), extra: Vec::new(), protected };
    }
    let mut object = there.clone();
    for field in ["annotations", "labels"] {
        for (name, value) in wanted["metadata"][field].entries() {
            if object["metadata"][field][name].is_null() {
                object["metadata"][field][name] = value.clone();
            }
        }
    }
    let (is, should) = (&there[field(wanted)], &wanted[field(wanted)]);
    let both_aggregated =
        !wanted["aggregationRule"].is_null() && !there["aggregationRule"].is_null();
    let (missing, extra, remove) = if is_binding(wanted) {
        (without(should, is), without(is, should), on("remove-extra-subjects"))
    } else {
        let extra = if both_aggregated { Vec::new() } else { uncovered(should, is) };
        (uncovered(is, should), extra, on("remove-extra-permissions"))
    };
    if remove && !(missing.is_empty() && extra.is_empty()) {
        object[field(wanted)] = should.clone();
    } else if !remove {
        for one in &missing {
            push(&mut object[field(wanted)], one.clone());
        }
    }
    aggregate(&mut object, there, wanted, on("remove-extra-permissions"));
    let step = if object == *there { Step::None } else { Step::Update };
    Plan { step, object, missing, extra, protected }
}

fn aggregate(object: &mut Value, there: &Value, wanted: &Value, remove: bool) {
    let (is, should) = (
        &there["aggregationRule"]["clusterRoleSelectors"],
        &wanted["aggregationRule"]["clusterRoleSelectors"],
    );
    if wanted["aggregationRule"].is_null() {
        object.remove("aggregationRule");
        return;
    }
    let missing = without(should, is);
    if remove && !(missing.is_empty() && without(is, should).is_empty()) {
        object["aggregationRule"] = wanted["aggregationRule"].clone();
    } else {
        for one in missing {
            push(&mut object["aggregationRule"]["clusterRoleSelectors"], one);
        }
    }
}

/// The items of `list` that are not in `other`, each once.
fn without(list: &Value, other: &Value) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    for item in list.items() {
        if !other.items().contains(item) && !found.contains(item) {
            found.push(item.clone());
        }
    }
    found
}

/// The simple rules of `rules` that no rule of `owner` covers.
fn uncovered(owner: &Value, rules: &Value) -> Vec<Value> {
    let parts = rules.items().iter().flat_map(parts);
    parts.filter(|part| !owner.items().iter().any(|rule| covers(rule, part))).collect()
}

/// Splits a rule into simple rules, each with one verb for one resource or URL.
fn parts(rule: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    let one = |value: &Value| list(vec![value.clone()]);
    let names = match rule["resourceNames"].items() {
        [] => vec![None],
        names => names.iter().map(Some).collect(),
    };
    for group in rule["apiGroups"].items() {
        for resource in rule["resources"].items() {
            for verb in rule["verbs"].items() {
                for name in &names {
                    let mut part = Value::object();
                    part["apiGroups"] = one(group);
                    part["resources"] = one(resource);
                    part["verbs"] = one(verb);
                    if let Some(name) = name {
                        part["resourceNames"] = one(name);
                    }
                    all.push(part);
                }
            }
        }
    }
    for url in rule["nonResourceURLs"].items() {
        for verb in rule["verbs"].items() {
            let mut part = Value::object();
            part["nonResourceURLs"] = one(url);
            part["verbs"] = one(verb);
            all.push(part);
        }
    }
    all
}

/// Whether a rule covers a simple rule.
fn covers(rule: &Value, part: &Value) -> bool {
    let has = |field: &str, fits: &dyn Fn(&str, &str) -> bool| {
        part[field].items().iter().filter_map(Value::as_str).all(|wanted| {
            rule[field]
                .items()
                .iter()
                .filter_map(Value::as_str)
                .any(|given| given == "*" || fits(given, wanted))
        })
    };
    let same = |given: &str, wanted: &str| given == wanted;
    let below = |given: &str, wanted: &str| {
        let sub = wanted.split_once('/').map(|(_, sub)| sub);
        given == wanted || sub.is_some_and(|sub| given.strip_prefix("*/") == Some(sub))
    };
    let begins = |given: &str, wanted: &str| {
        given == wanted || given.strip_suffix('*').is_some_and(|start| wanted.starts_with(start))
    };
    let named = rule["resourceNames"].items().is_empty()
        || !part["resourceNames"].items().is_empty()
            && part["resourceNames"]
                .items()
                .iter()
                .all(|name| rule["resourceNames"].items().contains(name));
    has("verbs", &same)
        && has("apiGroups", &same)
        && has("resources", &below)
        && has("nonResourceURLs", &begins)
        && named
}

fn tell(call: &Invocation<'_>, info: &Info, plan: &Plan) {
    let caveat = if plan.protected {
        ", but object opted out (rbac.authorization.kubernetes.io/autoupdate: false)"
    } else {
        ""
    };
    let step = match plan.step {
        Step::None => return,
        Step::Create => "create",
        Step::Update => "update",
        Step::Recreate => "recreate",
    };
    call.print_err(&format!("\treconciliation required {step}{caveat}"));
    let binding = is_binding(&info.object);
    let (noun, flag) = if binding {
        ("subjects", "remove-extra-subjects")
    } else {
        ("rules", "remove-extra-permissions")
    };
    let lines = |title: &str, items: &[Value]| {
        if !items.is_empty() {
            call.print_err(&format!("\t{title}:"));
        }
        for item in items {
            call.print_err(&format!("\t\t{}", if binding { subject(item) } else { rule(item) }));
        }
    };
    lines(&format!("missing {noun} added"), &plan.missing);
    if call.flags.is_true(flag) {
        lines(&format!("extra {noun} removed"), &plan.extra);
    }
}

fn subject(subject: &Value) -> String {
    let text = |name: &str| subject[name].as_str().unwrap_or_default().to_owned();
    format!(
        "{{Kind:{} APIGroup:{} Name:{} Namespace:{}}}",
        text("kind"),
        text("apiGroup"),
        text("name"),
        text("namespace")
    )
}

fn rule(rule: &Value) -> String {
    let list = |name: &str| {
        let texts: Vec<&str> = rule[name].items().iter().filter_map(Value::as_str).collect();
        format!("[{}]", texts.join(" "))
    };
    format!(
        "{{Verbs:{} APIGroups:{} Resources:{} ResourceNames:{} NonResourceURLs:{}}}",
        list("verbs"),
        list("apiGroups"),
        list("resources"),
        list("resourceNames"),
        list("nonResourceURLs")
    )
}

#[test]
fn only_what_is_missing_is_added() {
    let read = |text: &str| object::yaml::from_yaml(text).expect("YAML");
    let there = read("{kind: Role, rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}");
    let wanted =
        read("{kind: Role, rules: [{apiGroups: [''], resources: [pods], verbs: [get, list]}]}");
    let more = plan(&there, &wanted, |_| false);
    assert_eq!((more.step, more.missing.len()), (Step::Update, 1));
    assert_eq!(plan(&wanted, &there, |_| false).step, Step::None);
    let stomp = plan(&wanted, &there, |_| true);
    assert_eq!((stomp.step, stomp.object), (Step::Update, there));
}
