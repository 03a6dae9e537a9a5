//! `__complete`: prints the possible completions of a command line, for the scripts of `completion`.

use object::Value;

use super::{COMMANDS, Command};
use crate::{
    flags::{self, Flag},
    invocation::{Environment, GLOBAL_FLAGS, Invocation},
    resources::Resource,
};

/// Directive that tells the shell not to complete file names.
const NO_FILES: &str = ":4";
/// Directive that tells the shell to complete file names.
const FILES: &str = ":0";

/// Prints each possible last word on a line, then a directive for the shell.
pub(super) fn run(environment: &Environment, words: &[String]) {
    let Some((last, before)) = words.split_last() else { return };
    let (mut known, mut command, mut path): (_, Option<&Command>, _) = (COMMANDS, None, Vec::new());
    // A word that is neither a command nor the value of a flag ends the command names.
    let (mut rest, mut value, mut ended): (Vec<String>, _, _) = (Vec::new(), false, false);
    for word in before {
        let mut all: Vec<&[Flag]> = command.map_or(Vec::new(), |command| command.flags.to_vec());
        all.push(GLOBAL_FLAGS);
        let is_value = std::mem::replace(&mut value, flag_waiting(word, &all).is_some());
        if is_value || word.starts_with('-') {
            rest.push(word.clone());
            continue;
        }
        let found = known
            .iter()
            .find(|command| command.name == word || command.aliases.contains(&word.as_str()));
        match found {
            Some(found) if !ended => {
                path.push(found.name);
                (known, command) = (found.subcommands, Some(found));
            }
            _ => {
                ended = true;
                rest.push(word.clone());
            }
        }
    }
    let mut all: Vec<&[Flag]> = command.map_or(Vec::new(), |command| command.flags.to_vec());
    all.push(GLOBAL_FLAGS);
    let waiting = before.last().filter(|_| value).and_then(|word| flag_waiting(word, &all));
    if waiting.is_some() {
        rest.pop();
    }
    let given = flags::parse(&path.join(" "), &all, &rest).unwrap_or_default();
    let call = Invocation::new(environment, path.join(" "), given);
    let (mut words, files) = match waiting {
        Some(flag) => (values(&call, flag.name), matches!(flag.name, "filename" | "kustomize")),
        None if last.starts_with('-') => {
            (all.iter().copied().flatten().map(|flag| format!("--{}", flag.name)).collect(), false)
        }
        None if !known.is_empty() && call.args().is_empty() && command.is_none_or(only_leads) => {
            (known.iter().map(|command| command.name.to_owned()).collect(), false)
        }
        None => (arguments(&call, &path, known, last), path == ["cp"]),
    };
    words.retain(|word| word.starts_with(last.as_str()));
    words.sort();
    words.dedup();
    let mut text: String = words.iter().map(|word| format!("{word}\n")).collect();
    text += if files { FILES } else { NO_FILES };
    call.print(&(text + "\n"));
}

fn only_leads(command: &Command) -> bool {
    command.flags.is_empty()
}

/// The flag that a word names, if its value is the next word.
fn flag_waiting<'a>(word: &str, all: &[&'a [Flag]]) -> Option<&'a Flag> {
    let mut flags = all.iter().copied().flatten();
    let found = if let Some(long) = word.strip_prefix("--") {
        flags.find(|flag| flag.name == long)
    } else {
        let short = word.strip_prefix('-').filter(|rest| rest.chars().count() == 1)?;
        flags.find(|flag| flag.short == short.chars().next())
    };
    found.filter(|flag| flag.no_opt_default.is_none())
}

/// The possible values of a flag.
fn values(call: &Invocation<'_>, flag: &str) -> Vec<String> {
    let fixed: &[&str] = match flag {
        "namespace" => return names(call, "namespaces"),
        "context" => return entries(call, "contexts"),
        "cluster" => return entries(call, "clusters"),
        "user" => return entries(call, "users"),
        "output" => &["json", "yaml", "name", "wide", "jsonpath", "custom-columns", "go-template"],
        "dry-run" => &["none", "client", "server"],
        "validate" => &["strict", "warn", "ignore"],
        "cascade" => &["background", "foreground", "orphan"],
        _ => &[],
    };
    fixed.iter().map(|word| (*word).to_owned()).collect()
}

/// The possible arguments.
fn arguments(call: &Invocation<'_>, path: &[&str], known: &[Command], last: &str) -> Vec<String> {
    let count = call.args().len();
    match path {
        ["logs" | "exec" | "attach" | "port-forward" | "debug"] if count == 0 => {
            names(call, "pods")
        }
        ["cordon" | "uncordon" | "drain"] | ["top", "node"] => names(call, "nodes"),
        ["top", "pod"] if count == 0 => names(call, "pods"),
        ["certificate", _] => names(call, "certificatesigningrequests"),
        ["config", "use-context" | "delete-context" | "rename-context"] if count == 0 => {
            entries(call, "contexts")
        }
        ["config", "delete-cluster"] => entries(call, "clusters"),
        ["config", "delete-user"] => entries(call, "users"),
        ["completion"] => ["bash", "zsh", "fish", "powershell"].map(str::to_owned).to_vec(),
        [
            "explain" | "get" | "describe" | "delete" | "edit" | "label" | "annotate" | "patch"
            | "scale" | "autoscale" | "expose" | "wait" | "taint",
            ..,
        ]
        | ["rollout" | "set" | "apply", _, ..] => {
            if let Some((resource, _)) = last.split_once('/') {
                let all = names(call, resource);
                return all.into_iter().map(|name| format!("{resource}/{name}")).collect();
            }
            match call.args().first() {
                None => types(call),
                Some(resource) if path != ["explain"] => {
                    let mut all = names(call, resource);
                    all.retain(|name| !call.args().contains(name));
                    all
                }
                Some(_) => Vec::new(),
            }
        }
        _ if count == 0 => known.iter().map(|command| command.name.to_owned()).collect(),
        _ => Vec::new(),
    }
}

fn types(call: &Invocation<'_>) -> Vec<String> {
    let Ok(resources) = call.resources() else { return Vec::new() };
    let preferred = resources.all.iter().filter(|resource| resource.preferred);
    preferred
        .filter(|r| r.verbs.iter().any(|verb| verb == "get"))
        .map(Resource::qualified)
        .collect()
}

/// The names of the objects of a type in the current namespace.
fn names(call: &Invocation<'_>, word: &str) -> Vec<String> {
    let read = || {
        let resource = call.resources()?.find(word)?.clone();
        let namespace = if resource.namespaced { call.namespace()? } else { String::new() };
        call.server()?.get(&resource.path(&namespace, ""))
    };
    let list: Value = read().unwrap_or_default();
    let items = list["items"].items().iter();
    items.filter_map(|item| item["metadata"]["name"].as_str()).map(str::to_owned).collect()
}

/// The names in a list of the kubeconfig.
fn entries(call: &Invocation<'_>, list: &str) -> Vec<String> {
    let Ok(config) = call.config() else { return Vec::new() };
    let entries = config[list].items().iter();
    entries.filter_map(|entry| entry["name"].as_str()).map(str::to_owned).collect()
}
