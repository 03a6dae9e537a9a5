//! `delete`: deletes objects, and waits until they have been deleted.

use std::time::{Duration, Instant};

use object::{Value, quote::quote};

use super::{
    ALL, ALL_NAMESPACES, Command, DRY_RUN, DryRun, FIELD_SELECTOR, FILES, SELECTOR, create::tree,
};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    select::{BuilderOptions, Info},
    server::JSON,
};

pub(crate) const COMMAND: Command = Command::new(
    "delete",
    &[
        FILES,
        SELECTOR,
        FIELD_SELECTOR,
        ALL,
        ALL_NAMESPACES,
        DRY_RUN,
        &[
            Flag::text("cascade").default("background").bare("background"),
            Flag::new("grace-period", FlagType::Int64).default("-1"),
            Flag::bool("force"),
            Flag::bool("now"),
            Flag::bool("ignore-not-found"),
            Flag::bool("wait").default("true"),
            Flag::new("timeout", FlagType::Duration),
            Flag::text("output").short('o'),
            Flag::text("raw"),
            Flag::bool("interactive").short('i'),
        ],
    ],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    let raw = call.flags.text("raw");
    if !raw.is_empty() {
        super::create::check_raw(raw)?;
        if call.flags.all("filename").len() > 1 {
            return Err(CommandError::error("--raw can only use a single local file or stdin"));
        }
        let bytes = call.server()?.bytes(hyper::Method::DELETE, raw, JSON, None)?;
        call.out_bytes(&bytes);
        return Ok(());
    }
    let selecting =
        ["selector", "field-selector"].iter().any(|flag| !call.flags.text(flag).is_empty());
    let ignore = if call.flags.is_set("ignore-not-found") {
        call.flags.is_true("ignore-not-found")
    } else {
        call.flags.is_true("all") || selecting
    };
    let dry_run = DryRun::of(call)?;
    let (infos, mut fails) = call.select(
        call.args(),
        BuilderOptions {
            default_namespace: true,
            ignore_missing: ignore,
            ..BuilderOptions::default()
        },
    )?;
    let options = Options::of(call, dry_run)?;
    if infos.is_empty() && fails.is_empty() {
        if options.short {
            return Ok(());
        }
        call.print("No resources found\n");
        return Ok(());
    }
    if call.flags.is_true("all-namespaces") && call.namespace_given() {
        let refuse = |info: &Info| {
            CommandError::error(format!(
                "the namespace from the provided object {} does not match the namespace \"\". You must pass '--namespace={}' to perform this operation.",
                quote(&info.namespace),
                info.namespace
            ))
        };
        fails.extend(infos.iter().filter(|info| info.resource.namespaced).map(refuse));
        return CommandError::collect(fails);
    }
    if call.flags.is_true("interactive") && !confirm(call, &infos) {
        return Ok(());
    }
    if options.grace == Some(0) && !call.flags.is_true("now") && call.flags.is_true("force") {
        call.print_err("Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. The resource may continue to run on the cluster indefinitely.");
    }
    if call.namespace_given() && infos.iter().any(|info| !info.resource.namespaced) {
        call.print_err(
            "Warning: deleting cluster-scoped resources, not scoped to the provided namespace",
        );
    }
    let mut going = Vec::new();
    for info in infos {
        match delete(call, &info, &options) {
            Ok(answer) => {
                say(call, &info, &options);
                going.push((info, answer));
            }
            Err(fail) if fail.is_not_found() && ignore => {}
            Err(fail) if info.source.is_empty() => fails.push(fail),
            Err(fail) => {
                fails
                    .push(fail.with_action(format!("error when deleting {}", quote(&info.source))));
            }
        }
    }
    CommandError::collect(fails)?;
    if call.flags.is_true("wait") && options.dry_run == DryRun::No {
        for (info, answer) in going {
            wait_for_deletion(call, &info, &answer)?;
        }
    }
    Ok(())
}

/// The propagation policy that `--cascade` selects for dependents.
pub(crate) fn propagation(call: &Invocation<'_>) -> Result<&'static str> {
    let given = call.flags.text("cascade");
    let old = |instead: &str| {
        call.print_err(&format!("warning: --cascade={given} is deprecated (boolean value) and can be replaced with --cascade={instead}."));
    };
    match given {
        "background" => Ok("Background"),
        "foreground" => Ok("Foreground"),
        "orphan" => Ok("Orphan"),
        "1" | "t" | "T" | "true" | "TRUE" | "True" => {
            old("background");
            Ok("Background")
        }
        "0" | "f" | "F" | "false" | "FALSE" | "False" => {
            old("orphan");
            Ok("Orphan")
        }
        other => Err(CommandError::error(format!(
            "invalid cascade value ({other}). Must be \"background\", \"foreground\", or \"orphan\""
        ))),
    }
}

/// Polls once a second until an object has been deleted, so that it can be recreated.
pub(crate) fn poll_until_deleted(call: &Invocation<'_>, path: &str, patience: Duration) -> Result {
    let began = Instant::now();
    loop {
        match call.server()?.get(path) {
            Err(fail) if fail.is_not_found() => return Ok(()),
            Err(fail) => return Err(fail),
            Ok(_) if began.elapsed() >= patience => {
                return Err(CommandError::error("context deadline exceeded"));
            }
            Ok(_) => std::thread::sleep(Duration::from_secs(1).min(patience)),
        }
    }
}

/// How objects are deleted.
pub(crate) struct Options {
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: &'static str,
    pub(crate) dry_run: DryRun,
    pub(crate) short: bool,
    pub(crate) force: bool,
}

impl Options {
    fn of(call: &Invocation<'_>, dry_run: DryRun) -> Result<Self> {
        let propagation = propagation(call)?;
        let short = match call.flags.text("output") {
            "" => false,
            "name" => true,
            _ => {
                return Err(CommandError::error(format!(
                    "unexpected -o output mode: {}. We only support '-o name'",
                    call.flags.text("output")
                )));
            }
        };
        let mut grace = Some(call.flags.int("grace-period")).filter(|n| *n >= 0);
        if call.flags.is_true("now") {
            if grace.is_some() {
                return Err(CommandError::error(
                    "--now and --grace-period cannot be specified together",
                ));
            }
            grace = Some(1);
        }
        let force = call.flags.is_true("force");
        if grace == Some(0) && !force {
            // A grace period of 0 would skip graceful termination, which needs --force.
            grace = Some(1);
        }
        if force && grace.is_none() {
            grace = Some(0);
        }
        if force && grace.is_some_and(|n| n > 0) {
            return Err(CommandError::error(
                "--force and --grace-period greater than 0 cannot be specified together",
            ));
        }
        Ok(Self { grace, propagation, dry_run, short, force })
    }
}

fn confirm(call: &Invocation<'_>, infos: &[Info]) -> bool {
    call.print("You are about to delete the following ");
    call.print(&format!("{} resource(s):\n", infos.len()));
    for info in infos {
        call.print(&format!("{}\n", info.named()));
    }
    call.print("Do you want to continue? (y/N): ");
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    let yes = matches!(line.trim(), "y" | "Y");
    if !yes {
        call.print("deletion is cancelled\n");
    }
    yes
}

/// The error about an object without a name, which has no path of its own.
pub(crate) fn nameless(doing: &str, source: &str) -> CommandError {
    let empty = "resource name may not be empty";
    CommandError::error(match source {
        "" => empty.to_owned(),
        source => format!("error when {doing} {}: {empty}", quote(source)),
    })
}

/// Deletes an object; returns the server's response.
pub(crate) fn delete(call: &Invocation<'_>, info: &Info, options: &Options) -> Result<Value> {
    // Without a name the path would be the one of the collection.
    if info.name.is_empty() {
        return Err(nameless("deleting", &info.source));
    }
    if options.dry_run == DryRun::Client {
        return Ok(Value::Null);
    }
    let mut body = tree("{apiVersion: v1, kind: DeleteOptions}");
    body["propagationPolicy"] = options.propagation.into();
    if let Some(grace) = options.grace {
        body["gracePeriodSeconds"] = grace.into();
    }
    if options.dry_run == DryRun::Server {
        body["dryRun"] = tree("[All]");
    }
    call.server()?.delete(&info.path(), &body)
}

/// Prints that an object was deleted.
pub(crate) fn say(call: &Invocation<'_>, info: &Info, options: &Options) {
    if options.short {
        call.print(&format!("{}\n", info.named()));
        return;
    }
    let done = match options.grace {
        Some(0) if options.force => "force deleted",
        _ => "deleted",
    };
    let place = if info.namespace.is_empty() {
        String::new()
    } else {
        format!(" from {} namespace", info.namespace)
    };
    call.print(&format!(
        "{} {} {done}{place}{}\n",
        info.resource.kind_name(),
        quote(&info.name),
        options.dry_run.suffix()
    ));
}

/// Waits until an object has been deleted; an object of the same name with another UID is ignored.
pub(crate) fn wait_for_deletion(call: &Invocation<'_>, info: &Info, answer: &Value) -> Result {
    let uid = if answer["kind"].as_str() == Some("Status") {
        &answer["details"]["uid"]
    } else {
        &answer["metadata"]["uid"]
    };
    let uid = uid.as_str().unwrap_or_default().to_owned();
    if call.flags.duration("timeout") < 0 {
        call.log('E', "\"Timeout for context shall not be negative\"");
    }
    let timeout = match call.flags.duration("timeout") {
        0 => None,
        n if n < 0 => Some(7.0 * 24.0 * 3600.0),
        #[expect(clippy::cast_precision_loss, reason = "a duration")]
        n => Some(n as f64 / 1e9),
    };
    let gone = call.watch_object(info, timeout, |object| {
        Ok(object.is_some_and(|object| {
            uid.is_empty() || object["metadata"]["uid"].as_str() == Some(&uid)
        }))
    });
    match gone {
        Ok(true) => Ok(()),
        Ok(false) => {
            let (plural, name) = (&info.resource.plural, &info.name);
            Err(CommandError::error(format!(
                "timed out waiting for the condition on {plural}/{name}"
            )))
        }
        // A user who may delete an object need not be allowed to watch it.
        Err(CommandError::Server { status, .. })
            if status.has_reason("Forbidden") || status.has_reason("MethodNotAllowed") =>
        {
            Ok(())
        }
        Err(fail) => Err(fail),
    }
}
