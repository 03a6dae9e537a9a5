//! `set env`: sets, removes or lists environment variables of containers.

use std::io::BufRead as _;

use object::{Value, names, quote::quote};

use super::{
    ALL, Command, DRY_RUN, FIELD_MANAGER, FILES, Info, LOCAL, SetMessages, change_all,
    check_dry_run, print,
    source::{self, FetchedSources},
};
use crate::{
    commands::{DryRun, SELECTOR},
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    select::BuilderOptions,
    workload::{each_container, list, matches_pattern, pod_spec},
};

pub(super) const COMMAND: Command = Command::new(
    "env",
    &[
        FILES,
        ALL,
        SELECTOR,
        LOCAL,
        DRY_RUN,
        FIELD_MANAGER,
        print::FLAGS,
        &[
            Flag::text("container").short('c').default("*"),
            Flag::text("from"),
            Flag::text("prefix"),
            Flag::new("env", FlagType::StringArray).short('e'),
            Flag::new("keys", FlagType::StringSlice),
            Flag::bool("list"),
            Flag::bool("resolve"),
            Flag::bool("overwrite").default("true"),
        ],
    ],
    run,
);

/// Variables to set, and names of variables to remove.
#[derive(Debug, Default)]
struct Changes {
    put: Vec<Value>,
    remove: Vec<String>,
}

fn run(call: &Invocation<'_>) -> Result {
    if call.flags.is_true("all") && !call.flags.text("selector").is_empty() {
        return Err(CommandError::error("cannot set --all and --selector at the same time"));
    }
    let is_change = |word: &String| word.find('=').is_some_and(|at| at > 0) || word.ends_with('-');
    let split = call.args().iter().position(is_change).unwrap_or(call.args().len());
    let (words, given) = call.args().split_at(split);
    if !given.iter().all(is_change) {
        return Err(CommandError::error(format!(
            "all resources must be specified before environment changes: {}",
            call.args().join(" ")
        )));
    }
    check(call, words)?;
    let all: Vec<&String> = call.flags.all("env").iter().chain(given).collect();
    let mut changes = parse(&all)?;
    let from = call.flags.text("from");
    if !from.is_empty() {
        changes.put.extend(taken_from(call, from)?);
    }
    for variable in &mut changes.put {
        let name = variable["name"].as_str().unwrap_or_default();
        variable["name"] = format!("{}{name}", call.flags.text("prefix")).into();
    }
    let local = call.flags.is_true("local");
    let (infos, fails) = if local {
        call.select(&[], BuilderOptions { default_namespace: true, ..BuilderOptions::default() })?
    } else {
        call.select(
            words,
            BuilderOptions { fetch: true, default_namespace: true, ..BuilderOptions::default() },
        )?
    };
    CommandError::collect(fails)?;
    if call.flags.is_true("list") {
        return show(call, infos, &changes);
    }
    if changes.put.is_empty() && given.is_empty() {
        return Ok(());
    }
    let setting = SetMessages {
        done: "env updated",
        failed: "failed to patch env update to pod template:",
        always: false,
    };
    change_all(call, infos, &setting, |object, _| change(call, object, &changes))
}

fn check(call: &Invocation<'_>, words: &[String]) -> Result {
    check_dry_run(call, DryRun::of(call)?)?;
    if call.flags.all("filename").is_empty() && words.is_empty() {
        return Err(CommandError::error(
            "one or more resources must be specified as <resource> <name> or <resource>/<name>",
        ));
    }
    if call.flags.is_true("list") && !call.flags.text("output").is_empty() {
        return Err(CommandError::error("--list and --output may not be specified together"));
    }
    if !call.flags.all("keys").is_empty() && call.flags.text("from").is_empty() {
        return Err(CommandError::error(
            "when specifying --keys, a configmap or secret must be provided with --from",
        ));
    }
    Ok(())
}

fn variable(name: &str, value: &str) -> Value {
    let mut variable = Value::object();
    variable["name"] = name.into();
    if !value.is_empty() {
        variable["value"] = value.into();
    }
    variable
}

/// Parses `NAME=value`, `NAME-`, and `-`, which stands for lines of stdin.
fn parse(given: &[&String]) -> Result<Changes> {
    let mut changes = Changes::default();
    let mut named = Vec::new();
    for word in given {
        if *word == "-" {
            for line in std::io::stdin().lock().lines() {
                let line = line.map_err(|error| CommandError::error(error.to_string()))?;
                let line = line.split('#').next().unwrap_or_default();
                if let Some((name, value)) = line.split_once('=') {
                    changes.put.push(variable(name, value));
                }
            }
        } else if let Some((name, value)) = word.split_once('=') {
            let wrong = names::env_var_name(name);
            if !wrong.is_empty() {
                return Err(CommandError::error(format!(
                    "{} is not a valid key name: {}",
                    quote(name),
                    wrong.join(";")
                )));
            }
            named.push(name);
            changes.put.push(variable(name, value));
        } else if let Some(name) = word.strip_suffix('-') {
            changes.remove.push(name.to_owned());
        } else {
            return Err(CommandError::error(format!("unknown environment variable: {word}")));
        }
    }
    if changes.remove.iter().any(|name| named.contains(&name.as_str())) {
        return Err(CommandError::error(
            "can not both modify and remove the same environment variable in the same command",
        ));
    }
    Ok(changes)
}

/// Variables that refer to the keys of a ConfigMap or Secret.
fn taken_from(call: &Invocation<'_>, from: &str) -> Result<Vec<Value>> {
    if call.flags.is_true("local") {
        return Ok(Vec::new());
    }
    let selecting = call.flags.is_true("all") || !call.flags.text("selector").is_empty();
    let how = BuilderOptions { fetch: true, default_namespace: true, ..BuilderOptions::default() };
    let (infos, fails) = call.select_words(&[from.to_owned()], how, selecting)?;
    CommandError::collect(fails)?;
    let keys = call.flags.all("keys");
    let mut all = Vec::new();
    for info in infos {
        let reference = match info.resource.kind.as_str() {
            "Secret" => "secretKeyRef",
            "ConfigMap" => "configMapKeyRef",
            _ => return Err(CommandError::error("unsupported resource specified in --from")),
        };
        for (key, _) in info.object["data"].entries() {
            if !keys.is_empty() && !keys.iter().any(|wanted| wanted == key) {
                continue;
            }
            let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
            let name: String = key.chars().map(plain).collect::<String>().to_uppercase();
            if name != key {
                call.print_err(&format!("Warning: key {key} transferred to {name}"));
            }
            let mut variable = variable(&name, "");
            variable["valueFrom"][reference]["key"] = key.into();
            variable["valueFrom"][reference]["name"] = info.name.as_str().into();
            all.push(variable);
        }
    }
    Ok(all)
}

fn change(call: &Invocation<'_>, object: &mut Value, changes: &Changes) -> Result<bool> {
    let title = title(object);
    let pattern = call.flags.text("container");
    let found = each_container(
        pod_spec(object)?,
        |name| matches_pattern(name, pattern),
        |container| {
            if !call.flags.is_true("overwrite") {
                refuse_overwrites(&container["env"], &changes.put)?;
            }
            update(container, changes);
            Ok(())
        },
    )?;
    warn_of_none(call, found, &title.replace(' ', "/"));
    Ok(true)
}

fn title(object: &Value) -> String {
    format!(
        "{} {}",
        object["kind"].as_str().unwrap_or_default(),
        object["metadata"]["name"].as_str().unwrap_or_default()
    )
}

fn warn_of_none(call: &Invocation<'_>, found: usize, title: &str) {
    if found == 0 {
        call.print_err(&format!(
            "Warning: {title} does not have any containers matching {}",
            quote(call.flags.text("container"))
        ));
    }
}

fn refuse_overwrites(there: &Value, put: &[Value]) -> Result {
    for variable in put {
        let old = there.items().iter().find(|old| old["name"] == variable["name"]);
        if let Some(old) = old.filter(|old| old["value"] != variable["value"]) {
            return Err(CommandError::error(format!(
                "'{}' already has a value ({}), and --overwrite is false",
                old["name"].as_str().unwrap_or_default(),
                old["value"].as_str().unwrap_or_default()
            )));
        }
    }
    Ok(())
}

fn update(container: &mut Value, changes: &Changes) {
    let mut done: Vec<&Value> = Vec::new();
    let mut env = Vec::new();
    for old in container["env"].items() {
        let name = old["name"].as_str().unwrap_or_default();
        if changes.remove.iter().any(|gone| gone == name) || done.contains(&&old["name"]) {
            continue;
        }
        match changes.put.iter().find(|new| new["name"] == old["name"]) {
            Some(new) => {
                done.push(&new["name"]);
                env.push(new.clone());
            }
            None => env.push(old.clone()),
        }
    }
    for new in &changes.put {
        if !done.contains(&&new["name"]) {
            done.push(&new["name"]);
            env.push(new.clone());
        }
    }
    if env.is_empty() {
        container.remove("env");
    } else {
        container["env"] = list(env);
    }
}

/// Prints the variables of each container, including the changes.
fn show(call: &Invocation<'_>, infos: Vec<Info>, changes: &Changes) -> Result {
    let mut found = FetchedSources::default();
    for info in infos {
        let mut object = info.object.clone();
        let (title, whole) = (title(&object), object.clone());
        let Ok(spec) = pod_spec(&mut object) else { continue };
        let pattern = call.flags.text("container");
        let count = each_container(
            spec,
            |name| matches_pattern(name, pattern),
            |container| {
                update(container, changes);
                call.print(&format!(
                    "# {title}, container {}\n",
                    container["name"].as_str().unwrap_or_default()
                ));
                let mut wrong: Vec<(String, Vec<String>)> = Vec::new();
                for variable in container["env"].items() {
                    let name = variable["name"].as_str().unwrap_or_default();
                    let from = &variable["valueFrom"];
                    if from.is_null() {
                        let value = variable["value"].as_str().unwrap_or_default();
                        call.print(&format!("{name}={value}\n"));
                        continue;
                    }
                    if call.flags.is_true("resolve") {
                        match found.value(call, from, &whole, container) {
                            Ok(value) => {
                                call.print(&format!("{name}={value}\n"));
                                continue;
                            }
                            Err(why) => match wrong.iter_mut().find(|(other, _)| *other == why) {
                                Some((_, names)) => names.push(name.to_owned()),
                                None => wrong.push((why, vec![name.to_owned()])),
                            },
                        }
                    }
                    call.print(&format!("# {name} from {}\n", source::words(from)));
                }
                let mut lines: Vec<String> = wrong
                    .into_iter()
                    .map(|(why, mut names)| {
                        names.sort();
                        format!("error retrieving reference for {}: {why}", names.join(", "))
                    })
                    .collect();
                lines.sort();
                lines.iter().for_each(|line| call.print_err(line));
                Ok(())
            },
        )?;
        warn_of_none(call, count, &title.replace(' ', "/"));
    }
    Ok(())
}
