//! `scale`: sets how many there are.

use object::Value;

use super::{ALL, Command, DRY_RUN, DryRun, FILES, SELECTOR};
use crate::{
    call::Call,
    fail::{Fail, Result},
    flags::{Flag, Kind},
    print::{self, Output},
    record::{self, Record},
    select::{How, Info},
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
            Flag::new("replicas", Kind::Int32).required(),
            Flag::new("current-replicas", Kind::Int32).default("-1"),
            Flag::text("resource-version"),
            Flag::new("timeout", Kind::Duration),
        ],
    ],
    run,
);

fn run(call: &Call<'_>) -> Result {
    let replicas = check(call)?;
    let dry_run = DryRun::of(call)?;
    let output = Output::of(call, false)?;
    let how = How { fetch: true, local: true, ..How::default() };
    let (infos, fails) = call.select(call.words(), how)?;
    if !call.flags.text("resource-version").is_empty() && infos.len() > 1 {
        return Err(Fail::error("cannot use --resource-version with multiple resources"));
    }
    if infos.is_empty() {
        Fail::collect(fails)?;
        return Err(Fail::error("no objects passed to scale"));
    }
    let done = format!("scaled{}", dry_run.suffix());
    // the first that cannot be scaled ends it
    for info in infos {
        output.print(call, &one(call, &info, replicas, dry_run)?, &done)?;
    }
    Fail::collect(fails)
}

fn check(call: &Call<'_>) -> Result<i64> {
    match call.flags.int("replicas") {
        replicas @ 0.. => Ok(replicas),
        _ => Err(Fail::error(
            "The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0",
        )),
    }
}

fn one(call: &Call<'_>, info: &Info, replicas: i64, dry_run: DryRun) -> Result<Value> {
    let mut object = info.object.clone();
    if dry_run != DryRun::Client {
        send(call, info, replicas, dry_run)?;
    }
    if dry_run == DryRun::No {
        Record::of(call).send(call, info, &mut object)?;
    }
    object["spec"]["replicas"] = replicas.into();
    Ok(object)
}

fn send(call: &Call<'_>, info: &Info, replicas: i64, dry_run: DryRun) -> Result {
    let path = info.path() + "/scale";
    let query = if dry_run == DryRun::Server { "?dryRun=All" } else { "" };
    let (expected, version) =
        (call.flags.int("current-replicas"), call.flags.text("resource-version"));
    if expected >= 0 || !version.is_empty() {
        let scale = call.server()?.get(&path)?;
        let now = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        if expected >= 0 && now != expected {
            return Err(Fail::error(format!("Expected replicas to be {expected}, was {now}")));
        }
        let current = scale["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if !version.is_empty() && current != version {
            return Err(Fail::error(format!(
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
                return Err(Fail::error("timed out waiting for the condition"));
            }
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }
    Ok(())
}
