//! `patch`: patches fields of objects.

use object::{Value, quote::quote, yaml};

use super::{Command, DRY_RUN, DryRun, FIELD_MANAGER, FILES, write_query};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    merge::{merge_patch, strategic},
    print::{self, OutputFormat},
    record::{self, ChangeCause},
    select::{BuilderOptions, go_io_error},
    server::PatchType,
};

pub(crate) const COMMAND: Command = Command::new(
    "patch",
    &[
        FILES,
        DRY_RUN,
        FIELD_MANAGER,
        record::FLAGS,
        print::FLAGS,
        &[
            Flag::text("patch").short('p'),
            Flag::text("patch-file"),
            Flag::text("type").default("strategic"),
            Flag::text("subresource"),
            Flag::bool("local"),
        ],
    ],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    let (inline, file) = (call.flags.text("patch"), call.flags.text("patch-file"));
    if !inline.is_empty() && !file.is_empty() {
        return Err(CommandError::error("cannot specify --patch and --patch-file together"));
    }
    if inline.is_empty() && file.is_empty() {
        return Err(CommandError::error(
            "must specify --patch or --patch-file containing the contents of the patch",
        ));
    }
    let kind = match call.flags.text("type").to_lowercase().as_str() {
        "" | "strategic" => PatchType::Strategic,
        "merge" => PatchType::Merge,
        "json" => PatchType::Json,
        _ => {
            return Err(CommandError::error(format!(
                "--type must be one of [json merge strategic], not {}",
                quote(call.flags.text("type"))
            )));
        }
    };
    let text = if file.is_empty() {
        inline.to_owned()
    } else {
        std::fs::read_to_string(file).map_err(|error| {
            CommandError::error(format!(
                "unable to read patch file: open {file}: {}",
                go_io_error(&error)
            ))
        })?
    };
    let dry_run = DryRun::of(call)?;
    let output = OutputFormat::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-patch")?;
    let sub = match call.flags.text("subresource") {
        "" => String::new(),
        sub => format!("/{sub}"),
    };
    let local = call.flags.is_true("local");
    check_local(call, local, dry_run)?;
    let (infos, mut fails) = call.select(
        call.args(),
        BuilderOptions { fetch: !local, default_namespace: true, ..BuilderOptions::default() },
    )?;
    if infos.is_empty() {
        return CommandError::collect(fails);
    }
    let patch: Value = yaml::from_yaml(&text).map_err(|error| {
        CommandError::error(format!("unable to parse {}: {error}", quote(&text)))
    })?;
    for info in infos {
        if local || dry_run == DryRun::Client {
            let patched = patched_here(&info.object, &patch, kind)?;
            output.print(call, &patched, operation(patched == info.object))?;
            continue;
        }
        match call.server()?.patch(&(info.path() + &sub + &query), kind, &patch) {
            Ok(mut object) => {
                let same = object == info.object;
                if dry_run == DryRun::No {
                    ChangeCause::of(call).send(call, &info, &mut object)?;
                }
                output.print(call, &object, operation(same))?;
            }
            Err(CommandError::Server { status, .. })
                if status.has_reason("UnsupportedMediaType") =>
            {
                fails.push(CommandError::error(format!(
                    "{} is not supported by {}: {}",
                    kind.media_type(),
                    info.resource.gvk(),
                    status.message()
                )));
            }
            Err(fail) => fails.push(fail),
        }
    }
    CommandError::collect(fails)
}

/// What is printed behind the name. Upstream's printer replaces the suffix of a dry run by it.
fn operation(same: bool) -> &'static str {
    if same { "patched (no change)" } else { "patched" }
}

fn check_local(call: &Invocation<'_>, local: bool, dry_run: DryRun) -> Result {
    if local && !call.args().is_empty() {
        return Err(CommandError::error("cannot specify --local and server resources"));
    }
    if local && dry_run == DryRun::Server {
        return Err(CommandError::error(
            "cannot specify --local and --dry-run=server - did you mean --dry-run=client?",
        ));
    }
    Ok(())
}

/// Applies the patch to the object locally, without a server.
fn patched_here(object: &Value, patch: &Value, kind: PatchType) -> Result<Value> {
    let mut patched = object.clone();
    match kind {
        PatchType::Json => {
            patched = schema::patch::apply_json_patch(object, patch)?;
        }
        PatchType::Merge => merge_patch(&mut patched, patch),
        _ => strategic(&mut patched, patch)?,
    }
    Ok(patched)
}
