//! `why` and `history`: the notes that the server keeps with every write, read back.

use std::{
    ffi::OsString,
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use clap::Parser;
use client::{Api, Client, Kubeconfig};
use http::{HeaderMap, Method};
use object::{Key, Object, Value, View};

use super::{parse, run_async};

#[derive(Parser)]
pub(super) struct Arguments {
    /// What to explain: KIND/NAME.
    object: String,
    /// The namespace of the object.
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// How to reach the cluster.
    #[arg(long, default_value = "/var/lib/tiphys/kubeconfig/admin")]
    kubeconfig: PathBuf,
}

pub(super) fn why(args: Vec<OsString>) -> ExitCode {
    ask("why", args, chains)
}

pub(super) fn history(args: Vec<OsString>) -> ExitCode {
    ask("history", args, |entries| entries.0.iter().map(|entry| line(entry) + "\n").collect())
}

/// The notes of the object itself, and those of everything.
struct Entries(Vec<Value>, Vec<Value>);

fn ask(name: &'static str, args: Vec<OsString>, told: fn(&Entries) -> String) -> ExitCode {
    let arguments = match parse::<Arguments>(name, args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    run_async(name, async move {
        let client = connect(&arguments.kubeconfig)?;
        let uid = uid(&client, &arguments).await?;
        let entries = Entries(notes(&client, &uid).await?, notes(&client, "").await?);
        let _ = std::io::stdout().write_all(told(&entries).as_bytes()); // who stopped reading knows
        Ok(())
    })
}

fn connect(path: &Path) -> Result<Client> {
    Ok(Client::new(Kubeconfig::read(path)?.config(None)?.user_agent("tiphys")))
}

async fn uid(client: &Client, arguments: &Arguments) -> Result<String> {
    let (kind, name) = arguments.object.split_once('/').context("say KIND/NAME")?;
    let mapper = client.discover().await?;
    let found = mapper.find(kind).with_context(|| format!("the server has no {kind:?}"))?;
    let resource = found.resource.clone();
    let namespace = if resource.namespaced { arguments.namespace.as_str() } else { "" };
    let api = Api::<Value>::of(client, resource).namespaced(namespace);
    let object = api.get(&Key::new(namespace, name)).await?;
    Ok(Object::view(&object).metadata().uid().to_owned())
}

async fn notes(client: &Client, uid: &str) -> Result<Vec<Value>> {
    let path = format!("/tiphys/why?uid={uid}");
    let answer = client.request(Method::GET, &path, HeaderMap::new(), Bytes::new()).await?;
    let body = answer.success().await?.bytes().await?;
    Ok(object::from_json(&body)?.get("items").items().to_vec())
}

/// Every write to the object, each followed by what caused it, back to a person.
fn chains(entries: &Entries) -> String {
    let mut text = String::new();
    for entry in &entries.0 {
        text.push_str(&line(entry));
        text.push('\n');
        let (mut cause, mut depth) = (entry.get("because"), 1);
        while cause.is_object() && depth < 10 {
            let revision = cause.get("revision").as_i64().unwrap_or_default();
            let uid = cause.get("uid").as_str().unwrap_or_default();
            let before = entries.1.iter().rev().find(|other| {
                other.get("uid").as_str() == Some(uid)
                    && other.get("revision").as_i64().unwrap_or_default() <= revision
                    && !is_echo(other)
            });
            let Some(before) = before else { break };
            let _ = writeln!(text, "{}└ {}", "  ".repeat(depth), line(before));
            (cause, depth) = (before.get("because"), depth + 1);
        }
    }
    text
}

/// A write to an object that the same object caused: a status that follows. It
/// says nothing about where a change came from.
fn is_echo(entry: &Value) -> bool {
    let cause = entry.get("because").get("uid").as_str();
    cause.is_some() && cause == entry.get("uid").as_str()
}

/// `@106 pods/default/web-x by system:kube-scheduler: fits best (Pod default/web-x@103)`.
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
