//! `replace`: replaces whole objects by those in manifests.

use std::time::Duration;

use object::{Value, quote::quote};

use super::{
    Command, DRY_RUN, DryRun, FIELD_MANAGER, FILES, VALIDATE,
    create::annotate,
    delete::{Options, delete, poll_until_deleted, propagation, say},
    for_each_object, write_query,
};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    print::{self, OutputFormat},
    record::{self, ChangeCause},
    select::{BuilderOptions, Info},
    server::JSON,
    workload::items_mut,
};

pub(crate) const COMMAND: Command = Command::new(
    "replace",
    &[
        FILES,
        DRY_RUN,
        FIELD_MANAGER,
        VALIDATE,
        record::FLAGS,
        print::FLAGS,
        &[
            Flag::bool("force"),
            Flag::bool("save-config"),
            Flag::text("raw"),
            Flag::text("subresource"),
            Flag::text("cascade").default("background").bare("background"),
            Flag::new("grace-period", FlagType::Int64).default("-1"),
            Flag::new("timeout", FlagType::Duration),
        ],
    ],
    run,
);

/// Timeout for the deletion of an object, unless `--timeout` is given.
const PATIENCE: Duration = Duration::from_mins(5);

fn run(call: &Invocation<'_>) -> Result {
    let dry_run = check(call)?;
    let raw = call.flags.text("raw");
    if !raw.is_empty() {
        super::create::check_raw(raw)?;
        let [file] = call.flags.all("filename") else {
            return Err(CommandError::error("--raw can only use a single local file or stdin"));
        };
        let text = std::fs::read(file).map_err(|error| {
            CommandError::error(format!("open {file}: {}", crate::select::go_io_error(&error)))
        })?;
        let bytes = call.server()?.bytes(hyper::Method::PUT, raw, JSON, Some((JSON, text)))?;
        call.out_bytes(&bytes);
        return Ok(());
    }
    let output = OutputFormat::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-replace")?;
    let (infos, fails) = call.select(&[], BuilderOptions::default())?;
    let force = call.flags.is_true("force");
    if force {
        for info in &infos {
            check_creation(call, info, &query)?;
        }
        remove(call, &infos)?;
    }
    let done = format!("replaced{}", dry_run.suffix());
    for_each_object(&infos, fails, |info| {
        let mut object = info.object.clone();
        if call.flags.is_true("save-config") {
            annotate(&mut object);
        }
        ChangeCause::of(call).annotate(&mut object);
        let made = if force {
            call.server()?.create(&(info.resource.path(&info.namespace, "") + &query), &object)?
        } else {
            one(call, info, object, dry_run, &query)?
        };
        output.print(call, &made, &done)
    })
}

fn check(call: &Invocation<'_>) -> Result<DryRun> {
    if !call.has_files() {
        return Err(CommandError::error("must specify one of -f and -k"));
    }
    super::delete::propagation(call)?;
    let (dry_run, force) = (DryRun::of(call)?, call.flags.is_true("force"));
    if call.flags.int("grace-period") >= 0 && !force {
        return Err(CommandError::error("--grace-period must have --force specified"));
    }
    if call.flags.duration("timeout") != 0 && !force {
        return Err(CommandError::error("--timeout must have --force specified"));
    }
    if force && dry_run != DryRun::No {
        return Err(CommandError::error("--dry-run can not be used when --force is set"));
    }
    Ok(dry_run)
}

fn one(
    call: &Invocation<'_>,
    info: &Info,
    object: Value,
    dry_run: DryRun,
    query: &str,
) -> Result<Value> {
    if info.name.is_empty() {
        return Err(super::delete::nameless("replacing", &info.source));
    }
    if dry_run == DryRun::Client {
        return Ok(object);
    }
    let sub = match call.flags.text("subresource") {
        "" => String::new(),
        sub => format!("/{sub}"),
    };
    call.server()?.put(&(info.path() + &sub + query), &object).map_err(|fail| match &fail {
        CommandError::Server { status, .. } if status.has_reason("Invalid") => fail,
        _ => fail.with_action(format!("error when replacing {}", quote(&info.source))),
    })
}

/// Fails if the server would reject the new object after the old one has been deleted. Runs before anything is
/// deleted.
fn check_creation(call: &Invocation<'_>, info: &Info, query: &str) -> Result {
    let mut object = info.object.clone();
    if info.resource.kind == "Service" && info.resource.group.is_empty() {
        release(&mut object);
    }
    let path = info.resource.path(&info.namespace, "") + query + "&dryRun=All";
    match call.server()?.create(&path, &object) {
        // The old object still has the name.
        Err(CommandError::Server { status, .. }) if status.has_reason("AlreadyExists") => Ok(()),
        // The old object still counts towards the quota.
        Err(CommandError::Server { status, .. })
            if status.has_reason("Forbidden") && status.message().contains("exceeded quota:") =>
        {
            Ok(())
        }
        other => other.map(drop),
    }
}

/// Removes the IPs and node ports of a Service, which the old object may still hold.
fn release(service: &mut Value) {
    if !service["spec"].is_object() {
        return;
    }
    let spec = &mut service["spec"];
    if spec["clusterIP"].as_str() != Some("None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    if !spec["ports"].is_null() {
        items_mut(&mut spec["ports"]).iter_mut().for_each(|port| port.remove("nodePort"));
    }
}

/// Deletes the existing objects, and waits until they have been deleted.
fn remove(call: &Invocation<'_>, infos: &[Info]) -> Result {
    let grace = Some(call.flags.int("grace-period")).filter(|grace| *grace >= 0);
    let options = Options {
        grace: grace.map(|grace| grace.max(1)),
        propagation: propagation(call)?,
        dry_run: DryRun::No,
        short: call.flags.text("output") == "name",
        force: true,
    };
    for info in infos {
        match delete(call, info, &options) {
            Ok(_) => say(call, info, &options),
            Err(fail) if fail.is_not_found() => {}
            Err(fail) => return Err(fail),
        }
    }
    let patience = match call.flags.duration("timeout") {
        0 => PATIENCE,
        timeout => Duration::from_nanos(timeout.max(0).unsigned_abs()),
    };
    infos.iter().try_for_each(|info| poll_until_deleted(call, &info.path(), patience))
}
