//! `replace`: objects as files have them, whole.

use object::quote::quote;

use super::{
    Command, DRY_RUN, DryRun, FIELD_MANAGER, FILES, VALIDATE,
    create::{annotate, tree},
    delete::wait_gone,
    write_query,
};
use crate::{
    call::Call,
    fail::{Fail, Result},
    flags::{Flag, Kind},
    print::{self, Output},
    record::{self, Record},
    select::{How, Info},
    server::JSON,
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

fn run(call: &Call<'_>) -> Result {
    if !call.has_files() {
        return Err(Fail::error("must specify one of -f and -k"));
    }
    if call.flags.duration("timeout") > 0 && !call.flags.on("force") {
        return Err(Fail::error("--timeout must have --force specified"));
    }
    if call.flags.int("grace-period") >= 0 && !call.flags.on("force") {
        return Err(Fail::error("--grace-period must have --force specified"));
    }
    let raw = call.flags.text("raw");
    if !raw.is_empty() {
        let [file] = call.flags.all("filename") else {
            return Err(Fail::error("--raw can only use a single local file or stdin"));
        };
        let text = std::fs::read(file).map_err(|error| {
            Fail::error(format!("open {file}: {}", crate::select::plain(&error)))
        })?;
        let bytes = call.server()?.bytes(hyper::Method::PUT, raw, JSON, Some((JSON, text)))?;
        call.out(&String::from_utf8_lossy(&bytes));
        return Ok(());
    }
    let dry_run = DryRun::of(call)?;
    let output = Output::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-replace")?;
    let (infos, mut fails) = call.select(&[], How::default())?;
    if call.flags.on("force") && dry_run == DryRun::No {
        for info in &infos {
            remove(call, info)?;
        }
    }
    for info in infos {
        let mut object = info.object.clone();
        if call.flags.on("save-config") {
            annotate(&mut object);
        }
        Record::of(call).note(&mut object);
        let sub = match call.flags.text("subresource") {
            "" => String::new(),
            sub => format!("/{sub}"),
        };
        let server = call.server()?;
        let sent = match dry_run {
            DryRun::Client => Ok(object),
            _ if call.flags.on("force") => {
                server.post(&(info.resource.path(&info.namespace, "") + &query), &object)
            }
            _ => server.put(&(info.path() + &sub + &query), &object),
        };
        match sent {
            Ok(object) => output.print(call, &object, &format!("replaced{}", dry_run.suffix()))?,
            Err(Fail::Server { status, doing }) if status.is("Invalid") => {
                fails.push(Fail::Server { status, doing });
            }
            Err(fail) => fails
                .push(fail.while_doing(format!("error when replacing {}", quote(&info.source)))),
        }
    }
    Fail::collect(fails)
}

fn remove(call: &Call<'_>, info: &Info) -> Result {
    let mut options = tree("{apiVersion: v1, kind: DeleteOptions, propagationPolicy: Background}");
    let grace = call.flags.int("grace-period");
    options["gracePeriodSeconds"] = grace.max(0).into();
    match call.server()?.delete(&info.path(), &options) {
        Err(fail) if fail.is_not_found() => Ok(()),
        Err(fail) => Err(fail),
        Ok(answer) => {
            call.out(&format!(
                "{} {} deleted from {} namespace\n",
                info.resource.kind_name(),
                quote(&info.name),
                info.namespace
            ));
            wait_gone(call, info, &answer)
        }
    }
}
