//! `set`: changes one field of existing objects.

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
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    merge::two_way,
    print::{self, OutputFormat, typed},
    record::ChangeCause,
    select::{BuilderOptions, Info},
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

/// Messages about the changed objects.
struct SetMessages<'a> {
    /// Message about a change, such as `image updated`.
    done: &'a str,
    /// Prefix of the server's error.
    failed: &'a str,
    /// Whether the object is printed even if nothing changed.
    always: bool,
}

/// The objects that `words` and manifests select.
fn objects(call: &Invocation<'_>, words: &[String]) -> Result<Vec<Info>> {
    let local = call.flags.is_true("local");
    if local && !words.is_empty() {
        return Err(CommandError::error(LOCAL_ONLY_FILES));
    }
    let (infos, fails) = call.select(
        words,
        BuilderOptions { fetch: !local, default_namespace: true, ..BuilderOptions::default() },
    )?;
    CommandError::collect(fails)?;
    Ok(infos)
}

fn check_dry_run(call: &Invocation<'_>, dry_run: DryRun) -> Result {
    if call.flags.is_true("local") && dry_run == DryRun::Server {
        return Err(CommandError::error(
            "cannot specify --local and --dry-run=server - did you mean --dry-run=client?",
        ));
    }
    Ok(())
}

/// Changes the objects one by one, and patches those that changed. `change` returns whether it changed the object,
/// and adds errors to the list that it gets.
fn change_all(
    call: &Invocation<'_>,
    infos: Vec<Info>,
    setting: &SetMessages<'_>,
    mut change: impl FnMut(&mut Value, &mut Vec<CommandError>) -> Result<bool>,
) -> Result {
    let dry_run = DryRun::of(call)?;
    let output = OutputFormat::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-set")?;
    let record = ChangeCause::of(call);
    let mut fails = Vec::new();
    let mut changes = Vec::new();
    for info in infos {
        info.resource.require_type()?;
        let mut object = info.object.clone();
        match change(&mut object, &mut fails) {
            Ok(true) => {
                record.annotate(&mut object);
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
                // Without a server only the kind is known, not the resource.
                let name = match call.flags.is_true("local") {
                    false => format!("{}/{}", info.resource.plural, info.name),
                    true if info.resource.group.is_empty() => info.named(),
                    true => format!("{}\n", info.named()),
                };
                fails.push(CommandError::Raw(format!("error: {name} {}\n", fail.message())));
                continue;
            }
        };
        let (patch, sent) = two_way(&info.object, &object)?;
        if patch.entries().len() == 0 && !setting.always {
            continue;
        }
        let local = call.flags.is_true("local");
        if local || dry_run == DryRun::Client {
            typed::fill_zero_values(&mut object);
        } else {
            match call.server()?.patch(&(info.path() + &query), sent, &patch) {
                Ok(patched) => object = patched,
                Err(fail) => {
                    fails.push(CommandError::error(format!(
                        "{} {}",
                        setting.failed,
                        fail.message()
                    )));
                    continue;
                }
            }
        }
        output.print_declared(call, &object, &format!("{}{}", setting.done, dry_run.suffix()))?;
    }
    CommandError::collect(fails)
}
