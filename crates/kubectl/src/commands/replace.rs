//! `replace`: objects as files have them, whole.

use std::time::Duration;

use object::{Value, quote::quote};

use super::{
    Command, DRY_RUN, DryRun, FIELD_MANAGER, FILES, VALIDATE,
    create::annotate,
    delete::{Options, delete, propagation, say, until_gone},
    each, write_query,
};
use crate::{
    call::Call,
    fail::{Fail, Result},
    flags::{Flag, Kind},
    print::{self, Output},
    record::{self, Record},
    select::{How, Info},
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
            Flag::new("grace-period", Kind::Int64).default("-1"),
            Flag::new("timeout", Kind::Duration),
        ],
    ],
    run,
);

/// How long a deleted object may take to go, unless `--timeout` says so.
const PATIENCE: Duration = Duration::from_mins(5);

fn run(call: &Call<'_>) -> Result {
    let dry_run = check(call)?;
    let raw = call.flags.text("raw");
    if !raw.is_empty() {
        let [file] = call.flags.all("filename") else {
            return Err(Fail::error("--raw can only use a single local file or stdin"));
        };
        let text = std::fs::read(file).map_err(|error| {
            Fail::error(format!("open {file}: {}", crate::select::plain(&error)))
        })?;
        let bytes = call.server()?.bytes(hyper::Method::PUT, raw, JSON, Some((JSON, text)))?;
        call.out_bytes(&bytes);
        return Ok(());
    }
    let output = Output::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-replace")?;
    let (infos, fails) = call.select(&[], How::default())?;
    let force = call.flags.on("force");
    if force {
        for info in &infos {
            check_creation(call, info, &query)?;
        }
        remove(call, &infos)?;
    }
    let done = format!("replaced{}", dry_run.suffix());
    each(&infos, fails, |info| {
        let mut object = info.object.clone();
        if call.flags.on("save-config") {
            annotate(&mut object);
        }
        Record::of(call).note(&mut object);
        let made = if force {
            call.server()?.create(&(info.resource.path(&info.namespace, "") + &query), &object)?
        } else {
            one(call, info, object, dry_run, &query)?
        };
        output.print(call, &made, &done)
    })
}

fn check(call: &Call<'_>) -> Result<DryRun> {
    if !call.has_files() {
        return Err(Fail::error("must specify one of -f and -k"));
    }
    let (dry_run, force) = (DryRun::of(call)?, call.flags.on("force"));
    if call.flags.int("grace-period") >= 0 && !force {
        return Err(Fail::error("--grace-period must have --force specified"));
    }
    if call.flags.duration("timeout") != 0 && !force {
        return Err(Fail::error("--timeout must have --force specified"));
    }
    if force && dry_run != DryRun::No {
        return Err(Fail::error("--dry-run can not be used when --force is set"));
    }
    Ok(dry_run)
}

fn one(call: &Call<'_>, info: &Info, object: Value, dry_run: DryRun, query: &str) -> Result<Value> {
    if dry_run == DryRun::Client {
        return Ok(object);
    }
    let sub = match call.flags.text("subresource") {
        "" => String::new(),
        sub => format!("/{sub}"),
    };
    call.server()?.put(&(info.path() + &sub + query), &object).map_err(|fail| match &fail {
        Fail::Server { status, .. } if status.is("Invalid") => fail,
        _ => fail.while_doing(format!("error when replacing {}", quote(&info.source))),
    })
}

/// Fails if the server would refuse the object once the old one is gone. Nothing has been deleted
/// by then.
fn check_creation(call: &Call<'_>, info: &Info, query: &str) -> Result {
    let mut object = info.object.clone();
    if info.resource.kind == "Service" && info.resource.group.is_empty() {
        release(&mut object);
    }
    let path = info.resource.path(&info.namespace, "") + query + "&dryRun=All";
    match call.server()?.create(&path, &object) {
        // The name is taken by the old one.
        Err(Fail::Server { status, .. }) if status.is("AlreadyExists") => Ok(()),
        // The old one counts as well, until it is gone.
        Err(Fail::Server { status, .. })
            if status.is("Forbidden") && status.message().contains("exceeded quota:") =>
        {
            Ok(())
        }
        other => other.map(drop),
    }
}

/// Removes the addresses and ports of a service, which the old one may still hold.
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

/// Deletes what is there, and waits until it is gone.
fn remove(call: &Call<'_>, infos: &[Info]) -> Result {
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
    infos.iter().try_for_each(|info| until_gone(call, &info.path(), patience))
}
