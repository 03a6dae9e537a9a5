//! `set`: changes one thing of objects that exist.

mod env;
mod image;
mod resources;
mod selector;
mod service_account;
mod source;
mod subject;

use object::Value;

use super::{ALL, Command, DRY_RUN, DryRun, FIELD_MANAGER, FILES, write_query};
use crate::{
    call::Call,
    fail::{Fail, Result},
    flags::Flag,
    merge::two_way,
    print::{self, Output, typed},
    record::Record,
    select::{How, Info},
};

pub(crate) const COMMAND: Command = Command::group(
    "set",
    &[
        env::COMMAND,
        image::COMMAND,
        resources::COMMAND,
        selector::COMMAND,
        service_account::COMMAND,
        subject::COMMAND,
    ],
);

const LOCAL: &[Flag] = &[Flag::bool("local")];

const LOCAL_ONLY_FILES: &str = "you must specify resources by --filename when --local is set.\nExample resource specifications include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'";

/// What is done to each object, and in what words.
struct Setting<'a> {
    /// `image updated`.
    done: &'a str,
    /// What stands before the server's refusal.
    failed: &'a str,
    /// Whether the object is shown even if nothing changed.
    always: bool,
}

/// The objects that `words` and files mean.
fn objects(call: &Call<'_>, words: &[String]) -> Result<Vec<Info>> {
    let local = call.flags.on("local");
    if local && !words.is_empty() {
        return Err(Fail::error(LOCAL_ONLY_FILES));
    }
    let (infos, fails) =
        call.select(words, How { fetch: !local, local: true, ..How::default() })?;
    Fail::collect(fails)?;
    Ok(infos)
}

fn check_dry_run(call: &Call<'_>, dry_run: DryRun) -> Result {
    if call.flags.on("local") && dry_run == DryRun::Server {
        return Err(Fail::error(
            "cannot specify --local and --dry-run=server - did you mean --dry-run=client?",
        ));
    }
    Ok(())
}

/// Changes the objects one by one, and sends what became different. `change` says whether it
/// did anything, and keeps what it found wrong in the list that it is given.
fn change_all(
    call: &Call<'_>,
    infos: Vec<Info>,
    setting: &Setting<'_>,
    mut change: impl FnMut(&mut Value, &mut Vec<Fail>) -> Result<bool>,
) -> Result {
    let dry_run = DryRun::of(call)?;
    let output = Output::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-set")?;
    let record = Record::of(call);
    let mut fails = Vec::new();
    let mut changes = Vec::new();
    for info in infos {
        let mut object = info.object.clone();
        match change(&mut object, &mut fails) {
            Ok(true) => {
                record.note(&mut object);
                changes.push((info, Ok(object)));
            }
            Ok(false) => {}
            Err(fail) => changes.push((info, Err(fail))),
        }
    }
    for (info, changed) in changes {
        let mut object = match changed {
            Ok(object) => object,
            Err(fail) => {
                // Without a server its resource is not known, only its kind.
                let name = match call.flags.on("local") {
                    false => format!("{}/{}", info.resource.plural, info.name),
                    true if info.resource.group.is_empty() => info.named(),
                    true => format!("{}\n", info.named()),
                };
                fails.push(Fail::Plain(format!("error: {name} {}\n", fail.words())));
                continue;
            }
        };
        let (patch, sent) = two_way(&info.object, &object)?;
        if patch.entries().len() == 0 && !setting.always {
            continue;
        }
        let local = call.flags.on("local");
        if local || dry_run == DryRun::Client {
            typed::complete(&mut object);
        } else {
            match call.server()?.patch(&(info.path() + &query), sent, &patch) {
                Ok(patched) => object = patched,
                Err(fail) => {
                    fails.push(Fail::error(format!("{} {}", setting.failed, fail.words())));
                    continue;
                }
            }
        }
        output.print_declared(call, &object, &format!("{}{}", setting.done, dry_run.suffix()))?;
    }
    Fail::collect(fails)
}
