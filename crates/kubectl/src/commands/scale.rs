//! `scale`: sets the number of replicas.

use object::Value;

use super::{ALL, Command, DRY_RUN, DryRun, FILES, SELECTOR};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    print::{self, OutputFormat},
    record::{self, ChangeCause},
    select::{BuilderOptions, Info},
    server::PatchType,
};

pub(crate) const COMMAND: Command = Command::new(
    "scale",
    &[
        FILES,
        SELECTOR,
        ALL,
        DRY_RUN,
        record::FLAGS,
        print::FLAGS,
        &[
            Flag::new("replicas", FlagType::Int32).required(),
            Flag::new("current-replicas", FlagType::Int32).default("-1"),
            Flag::text("resource-version"),
            Flag::new("timeout", FlagType::Duration),
        ],
    ],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    let replicas = check(call)?;
    let dry_run = DryRun::of(call)?;
    let output = OutputFormat::of(call, false)?;
    let how = BuilderOptions { fetch: true, default_namespace: true, ..BuilderOptions::default() };
    let (infos, fails) = call.select(call.args(), how)?;
    if !call.flags.text("resource-version").is_empty() && infos.len() > 1 {
        return Err(CommandError::error("cannot use --resource-version with multiple resources"));
    }
    if infos.is_empty() {
        CommandError::collect(fails)?;
        return Err(CommandError::error("no objects passed to scale"));
    }
    let done = format!("scaled{}", dry_run.suffix());
    // stops at the first object that cannot be scaled
    for info in infos {
        output.print(call, &one(call, &info, replicas, dry_run)?, &done)?;
    }
    CommandError::collect(fails)
}

fn check(call: &Invocation<'_>) -> Result<i64> {
    match call.flags.int("replicas") {
        replicas @ 0.. => Ok(replicas),
        _ => Err(CommandError::error(
            "The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0",
        )),
    }
}

fn one(call: &Invocation<'_>, info: &Info, replicas: i64, dry_run: DryRun) -> Result<Value> {
    let mut object = info.object.clone();
    if dry_run != DryRun::Client {
        send(call, info, replicas, dry_run)?;
    }
    if dry_run == DryRun::No {
        ChangeCause::of(call).send(call, info, &mut object)?;
    }
    object["spec"]["replicas"] = replicas.into();
    Ok(object)
}

fn send(call: &Invocation<'_>, info: &Info, replicas: i64, dry_run: DryRun) -> Result {
    let path = info.path() + "/scale";
    let query = if dry_run == DryRun::Server { "?dryRun=All" } else { "" };
    let (expected, version) =
        (call.flags.int("current-replicas"), call.flags.text("resource-version"));
    if expected >= 0 || !version.is_empty() {
        let scale = call.server()?.get(&path)?;
        let now = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        if expected >= 0 && now != expected {
            return Err(CommandError::error(format!(
                "Expected replicas to be {expected}, was {now}"
            )));
        }
        let current = scale["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if !version.is_empty() && current != version {
            return Err(CommandError::error(format!(
                "Expected resource version to be {version}, was {current}"
            )));
        }
    }
    let mut patch = Value::object();
    patch["spec"]["replicas"] = replicas.into();
    call.server()?.patch(&(path.clone() + query), PatchType::Merge, &patch)?;
    if call.flags.duration("timeout") > 0 && dry_run == DryRun::No {
        let until = std::time::Instant::now()
            + std::time::Duration::from_nanos(call.flags.duration("timeout").unsigned_abs());
        loop {
            let scale = call.server()?.get(&path)?;
            if scale["status"]["replicas"].as_i64().unwrap_or(0) == replicas {
                break;
            }
            if std::time::Instant::now() > until {
                return Err(CommandError::error("timed out waiting for the condition"));
            }
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }
    Ok(())
}
