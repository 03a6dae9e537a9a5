//! `why` and `history`: print the causes that the API server records with every write.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use clap::Parser;
use client::{Api, Client, Kubeconfig};
use http::{HeaderMap, Method};
use object::{NamespacedName, Object, Value, View};

use super::{parse, run_async};
use crate::up::Place;

/// Maximum number of causes to follow back from a write.
const DEEPEST: usize = 10;
/// Maximum number of objects whose records are fetched.
const MOST_OBJECTS: usize = 100;
/// Prefix of the cause that the scheduler records when no node fits a pod; the reasons for each node follow.
const REFUSED: &str = "no node will do: ";

#[derive(Parser)]
pub(super) struct Arguments {
    /// What to explain: KIND/NAME.
    object: String,
    /// The namespace of the object. Without it: the one of the kubeconfig, else default.
    #[arg(short, long)]
    namespace: Option<String>,
    /// How to reach the cluster. Without it: $KUBECONFIG, else ~/.kube/config, else the cluster of this machine.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data_dir", "name"])]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

pub(super) fn why(args: Vec<OsString>) -> ExitCode {
    with_object("why", args, async |client, object| {
        let mut notes = Notes { client, by_uid: HashMap::new() };
        let entries = notes.of(Object::view(&object).metadata().uid()).await?;
        notes.fetch_causes(&entries).await?;
        let verdicts = verdicts(&object, &entries);
        Ok(verdicts + &chains(&entries, &notes.by_uid))
    })
}

pub(super) fn history(args: Vec<OsString>) -> ExitCode {
    with_object("history", args, async |client, object| {
        let entries = fetch_writes(client, Object::view(&object).metadata().uid()).await?;
        Ok(entries.iter().map(|entry| line(entry) + "\n").collect())
    })
}

/// Prints the text that `tell` returns for the object that the arguments name.
fn with_object(
    name: &'static str,
    args: Vec<OsString>,
    tell: impl AsyncFnOnce(&Client, Value) -> Result<String>,
) -> ExitCode {
    let arguments = match parse::<Arguments>(name, args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    run_async(name, async move {
        let client = Client::new(kubeconfig(&arguments)?.config(None)?.user_agent("tiphys"));
        let object = find(&client, &arguments).await?;
        print!("{}", tell(&client, object).await?);
        Ok(())
    })
}

/// The kubeconfig that the arguments and the environment select.
fn kubeconfig(arguments: &Arguments) -> Result<Kubeconfig> {
    if let Some(path) = &arguments.kubeconfig {
        return Ok(Kubeconfig::read(path)?);
    }
    let is_named = arguments.place.data_dir.is_some() || arguments.place.name.is_some();
    let variable = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty() && !is_named);
    if let Some(variable) = variable {
        let paths = std::env::split_paths(&variable).filter(|path| path.exists());
        let mut all = Kubeconfig::default();
        let mut found = false;
        for path in paths {
            let text = std::fs::read_to_string(&path);
            all.add(&path, &text.with_context(|| format!("{}", path.display()))?)?;
            found = true;
        }
        ensure!(found, "$KUBECONFIG: there is no file {}", variable.display());
        return Ok(all);
    }
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config"));
    match home.filter(|path| path.exists() && !is_named) {
        Some(path) => Ok(Kubeconfig::read(&path)?),
        None => Ok(Kubeconfig::read(&arguments.place.existing()?.path("kubeconfig/admin"))?),
    }
}

async fn find(client: &Client, arguments: &Arguments) -> Result<Value> {
    let (kind, name) = arguments.object.split_once('/').context("say KIND/NAME")?;
    let mapper = client.discover().await?;
    let found = mapper.resource_for(kind).with_context(|| format!("the server has no {kind:?}"))?;
    let resource = found.resource.clone();
    let given = arguments.namespace.as_deref().unwrap_or(client.default_namespace());
    let namespace = if resource.namespaced { given } else { "" };
    let api = Api::<Value>::for_resource(client, resource).namespaced(namespace);
    Ok(api.get(&NamespacedName::new(namespace, name)).await?)
}

/// The recorded writes of objects, fetched on demand.
struct Notes<'a> {
    client: &'a Client,
    by_uid: HashMap<String, Vec<Value>>,
}

impl Notes<'_> {
    async fn of(&mut self, uid: &str) -> Result<Vec<Value>> {
        if !self.by_uid.contains_key(uid) {
            let found = fetch_writes(self.client, uid).await?;
            self.by_uid.insert(uid.to_owned(), found);
        }
        Ok(self.by_uid[uid].clone())
    }

    /// Fetches the recorded writes of all objects that the entries lead back to.
    async fn fetch_causes(&mut self, entries: &[Value]) -> Result<()> {
        let mut wanted = causes(entries);
        for _ in 0..DEEPEST {
            let mut next = Vec::new();
            for uid in wanted {
                if !self.by_uid.contains_key(&uid) && self.by_uid.len() < MOST_OBJECTS {
                    next.extend(causes(&self.of(&uid).await?));
                }
            }
            wanted = next;
        }
        Ok(())
    }
}

/// UIDs of the objects that caused these writes.
fn causes(entries: &[Value]) -> Vec<String> {
    let uids = entries.iter().filter_map(|entry| entry.get("because").get("uid").as_str());
    uids.map(str::to_owned).collect()
}

async fn fetch_writes(client: &Client, uid: &str) -> Result<Vec<Value>> {
    let path = format!("/tiphys/why?uid={uid}");
    let answer = client.request(Method::GET, &path, HeaderMap::new(), Bytes::new()).await?;
    let body = answer.error_for_status().await?.bytes().await?;
    Ok(object::from_json(&body)?.get("items").items().to_vec())
}

/// Why a pod is not scheduled: the message of its PodScheduled condition, and the scheduler's reasons for each node.
fn verdicts(object: &Value, entries: &[Value]) -> String {
    let conditions = object["status"]["conditions"].items();
    let condition = conditions.iter().find(|condition| {
        condition["type"].as_str() == Some("PodScheduled")
            && condition["status"].as_str() == Some("False")
    });
    let Some(condition) = condition.filter(|_| object["kind"].as_str() == Some("Pod")) else {
        return String::new();
    };
    let mut text =
        format!("not scheduled: {}\n", condition["message"].as_str().unwrap_or_default());
    let mut rules =
        entries.iter().rev().filter_map(|entry| entry.get("because").get("rule").as_str());
    let by_node = rules.find_map(|rule| rule.strip_prefix(REFUSED)).unwrap_or_default();
    for verdict in by_node.split("; ").filter(|verdict| !verdict.is_empty()) {
        let _ = writeln!(text, "  {verdict}");
    }
    text
}

/// Every write to the object, each followed by the chain of its causes, back to a user. A write that is already
/// printed is not printed again.
fn chains(entries: &[Value], by_uid: &HashMap<String, Vec<Value>>) -> String {
    let (mut text, mut printed) = (String::new(), HashSet::new());
    for entry in entries {
        let _ = writeln!(text, "{}", line(entry));
        let (mut cause, mut depth) = (entry.get("because"), 1);
        while cause.is_object() && depth <= DEEPEST {
            let revision = cause.get("revision").as_i64().unwrap_or_default();
            let uid = cause.get("uid").as_str().unwrap_or_default();
            let before = by_uid.get(uid).into_iter().flatten().rev().find(|other| {
                other.get("revision").as_i64().unwrap_or_default() <= revision
                    && !is_self_caused(other)
            });
            let Some(before) = before else { break };
            let own = entries.iter().any(|entry| entry.get("revision") == before.get("revision"));
            if own || !printed.insert(before.get("revision").as_i64()) {
                break;
            }
            let _ = writeln!(text, "{}└ {}", "  ".repeat(depth), line(before));
            (cause, depth) = (before.get("because"), depth + 1);
        }
    }
    text
}

/// Whether a write to an object was caused by the same object, such as a status update. It does not explain where a
/// change came from.
fn is_self_caused(entry: &Value) -> bool {
    let cause = entry.get("because").get("uid").as_str();
    cause.is_some() && cause == entry.get("uid").as_str()
}

/// Formats a write as a line: `@106 pods/default/web-x by system:kube-scheduler: fits best (Pod default/web-x@103)`.
fn line(entry: &Value) -> String {
    let text = |tree: &Value, name: &str| tree.get(name).as_str().unwrap_or_default().to_owned();
    let key = text(entry, "key");
    let key = key.trim_start_matches("/registry/");
    let revision = entry.get("revision").as_i64().unwrap_or_default();
    let user = text(entry, "user");
    let because = entry.get("because");
    if !because.is_object() {
        return format!("@{revision} {key} by {user} with {}", text(entry, "manager"));
    }
    format!(
        "@{revision} {key} by {user}: {} ({} {}/{}@{})",
        text(because, "rule"),
        text(because, "kind"),
        text(because, "namespace"),
        text(because, "name"),
        because.get("revision").as_i64().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(uid: &str, revision: i64, because: Option<(&str, i64, &str)>) -> Value {
        let mut entry = Value::object();
        entry["uid"] = uid.into();
        entry["revision"] = revision.into();
        entry["key"] = format!("/registry/{uid}").as_str().into();
        entry["user"] = "u".into();
        if let Some((uid, revision, rule)) = because {
            entry["because"]["uid"] = uid.into();
            entry["because"]["revision"] = revision.into();
            entry["because"]["rule"] = rule.into();
            entry["because"]["kind"] = uid.into();
        }
        entry
    }

    #[test]
    fn each_ancestor_is_printed_once() {
        let pod = vec![
            entry("pod", 3, Some(("set", 2, "too few"))),
            entry("pod", 4, Some(("pod", 3, "fits best"))),
            entry("pod", 5, Some(("set", 2, "adopted"))),
        ];
        let set = vec![entry("set", 2, Some(("deployment", 1, "new template")))];
        let deployment = vec![entry("deployment", 1, None)];
        let by_uid = [("pod", pod.clone()), ("set", set), ("deployment", deployment)];
        let by_uid = by_uid.into_iter().map(|(uid, notes)| (uid.to_owned(), notes)).collect();
        let text = chains(&pod, &by_uid);
        let starts: Vec<&str> =
            text.lines().map(|line| line.trim().split(" by").next().unwrap_or_default()).collect();
        assert_eq!(starts, ["@3 pod", "└ @2 set", "└ @1 deployment", "@4 pod", "@5 pod"], "{text}");
    }

    #[test]
    fn the_newest_reasons_count() {
        let pod = object::yaml::from_yaml(
            "{kind: Pod, status: {conditions: [{type: PodScheduled, status: 'False', message: 0/2 nodes}]}}",
        );
        let mut pod = pod.expect("YAML");
        let entries = [
            entry("pod", 3, Some(("pod", 2, "no node will do: a: full; b: tainted"))),
            entry("pod", 4, Some(("pod", 3, "no node will do: a: tainted; b: full"))),
        ];
        let text = verdicts(&pod, &entries);
        assert_eq!(text, "not scheduled: 0/2 nodes\n  a: tainted\n  b: full\n");
        assert_eq!(verdicts(&pod, &[]), "not scheduled: 0/2 nodes\n");
        pod["status"] = Value::object();
        assert_eq!(verdicts(&pod, &entries), "");
    }
}
