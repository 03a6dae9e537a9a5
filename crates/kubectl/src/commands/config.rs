//! `config`: shows and changes the user's kubeconfig files.

mod change;
mod view;

use super::Command;
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    kubeconfig,
    print::{self, table},
};

pub(crate) const COMMAND: Command = Command::group(
    "config",
    &[
        Command::new(
            "view",
            &[
                &[
                    Flag::bool("raw"),
                    Flag::bool("minify"),
                    Flag::bool("flatten"),
                    Flag::bool("merge").default("true"),
                ],
                print::FLAGS,
            ],
            view::run,
        ),
        Command::new("current-context", &[], current),
        Command::new(
            "get-contexts",
            &[&[Flag::text("output").short('o'), Flag::bool("no-headers")]],
            contexts,
        ),
        Command::new("get-clusters", &[], |call| names(call, "clusters")),
        Command::new("get-users", &[], |call| names(call, "users")),
        Command::new("use-context", &[], change::use_context).aliases(&["use"]),
        Command::new("set-context", &[&[Flag::bool("current")]], change::set_context),
        Command::new(
            "set-cluster",
            &[&[Flag::bool("embed-certs"), Flag::text("proxy-url")]],
            change::set_cluster,
        ),
        Command::new(
            "set-credentials",
            &[&[
                Flag::bool("embed-certs"),
                Flag::text("exec-command"),
                Flag::text("exec-api-version"),
                Flag::text("exec-interactive-mode"),
                Flag::bool("exec-provide-cluster-info"),
                Flag::new("exec-arg", FlagType::StringArray),
                Flag::new("exec-env", FlagType::StringArray),
            ]],
            change::set_credentials,
        ),
        Command::new("rename-context", &[], change::rename_context),
        Command::new("delete-context", &[], |call| change::delete(call, "contexts", "context")),
        Command::new("delete-cluster", &[], |call| change::delete(call, "clusters", "cluster")),
        Command::new("delete-user", &[], |call| change::delete(call, "users", "user")),
        Command::new("set", &[&[Flag::bool("set-raw-bytes")]], change::set),
        Command::new("unset", &[], change::unset),
    ],
);

fn current(call: &Invocation<'_>) -> Result {
    let current = call.config()?["current-context"].as_str().unwrap_or_default();
    if current.is_empty() {
        return Err(CommandError::error("current-context is not set"));
    }
    call.print(&format!("{current}\n"));
    Ok(())
}

fn contexts(call: &Invocation<'_>) -> Result {
    let format = call.flags.text("output");
    if !matches!(format, "" | "name") {
        return Err(CommandError::error(format!(
            "--output {format} is not available in kubectl config get-contexts; resetting to default output format"
        )));
    }
    let config = call.config()?;
    let current = config["current-context"].as_str().unwrap_or_default();
    let wanted = call.args();
    let (mut text, mut fails) = (String::new(), Vec::new());
    let headers = format.is_empty() && !call.flags.is_true("no-headers");
    if headers {
        text += "CURRENT\tNAME\tCLUSTER\tAUTHINFO\tNAMESPACE\n";
    }
    for entry in config["contexts"].items() {
        let name = entry["name"].as_str().unwrap_or_default();
        if !wanted.is_empty() && !wanted.iter().any(|word| word == name) {
            continue;
        }
        let field = |field: &str| entry["context"][field].as_str().unwrap_or_default();
        if format == "name" {
            text += &format!("{name}\n");
        } else {
            let mark = if name == current { "*" } else { "" };
            text += &format!(
                "{mark}\t{name}\t{}\t{}\t{}\n",
                field("cluster"),
                field("user"),
                field("namespace")
            );
        }
    }
    for word in wanted {
        if kubeconfig::entry(config, "contexts", "context", word).is_none() {
            fails.push(CommandError::error(format!("context {word} not found")));
        }
    }
    call.print(&table::align(&text));
    CommandError::collect(fails)
}

fn names(call: &Invocation<'_>, list: &str) -> Result {
    let mut text = "NAME\n".to_owned();
    for entry in call.config()?[list].items() {
        text += &format!("{}\n", entry["name"].as_str().unwrap_or_default());
    }
    call.print(&text);
    Ok(())
}
