//! `create`: creates objects from manifests, or from arguments.

use object::{Value, yaml};

use super::{
    Command, DRY_RUN, DryRun, FIELD_MANAGER, FILES, SELECTOR, VALIDATE, generate, write_query,
};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    merge::LAST_APPLIED,
    print::{self, OutputFormat, json},
    record::{self, ChangeCause},
    select::{BuilderOptions, Info},
    server::JSON,
};

pub(crate) const COMMAND: Command = Command::new(
    "create",
    &[
        FILES,
        SELECTOR,
        WRITES,
        record::FLAGS,
        &[Flag::bool("edit"), Flag::text("raw"), Flag::bool("windows-line-endings")],
    ],
    files,
)
.inner(generate::COMMANDS);

/// Flags of every command that creates an object.
pub(crate) const WRITES: &[Flag] =
    &concat([DRY_RUN, FIELD_MANAGER, VALIDATE, print::FLAGS, &[Flag::bool("save-config")]]);

const fn concat(lists: [&[Flag]; 5]) -> [Flag; 8] {
    let mut all = [Flag::bool(""); 8];
    let (mut to, mut list) = (0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            all[to] = lists[list][at];
            (to, at) = (to + 1, at + 1);
        }
        list += 1;
    }
    all
}

fn files(call: &Invocation<'_>) -> Result {
    if !call.args().is_empty() {
        return Err(call.usage(format!("Unexpected args: [{}]", call.args().join(" "))));
    }
    if !call.has_files() {
        return Err(CommandError::error("must specify one of -f and -k"));
    }
    let raw = call.flags.text("raw");
    if !raw.is_empty() {
        if call.flags.is_true("edit") {
            return Err(CommandError::error("--raw and --edit are mutually exclusive"));
        }
        if !call.flags.text("output").is_empty() {
            return Err(CommandError::error("--raw and --output are mutually exclusive"));
        }
        if !call.flags.text("selector").is_empty() {
            return Err(CommandError::error("--raw and --selector (-l) are mutually exclusive"));
        }
        return raw_post(call, raw);
    }
    let dry_run = DryRun::of(call)?;
    let output = OutputFormat::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-create")?;
    let (mut infos, mut fails) = call.select(&[], BuilderOptions::default())?;
    if infos.is_empty() && fails.is_empty() {
        return Err(CommandError::error("no objects passed to create"));
    }
    if call.flags.is_true("edit") {
        infos = edited(call, &infos)?;
    }
    for info in infos {
        let mut object = info.object.clone();
        if call.flags.is_true("save-config") {
            annotate(&mut object);
        }
        ChangeCause::of(call).annotate(&mut object);
        if dry_run != DryRun::Client {
            match call
                .server()?
                .create(&(info.resource.path(&info.namespace, "") + &query), &object)
            {
                Ok(made) => object = made,
                Err(fail) => {
                    fails.push(while_creating(fail, &info.source));
                    continue;
                }
            }
        }
        output.print(call, &object, &format!("created{}", dry_run.suffix()))?;
    }
    CommandError::collect(fails)
}

/// Opens the objects in an editor; returns none if they were not changed.
fn edited(call: &Invocation<'_>, infos: &[Info]) -> Result<Vec<Info>> {
    let mut whole = print::list(infos.iter().map(|info| info.object.clone()).collect());
    if let [info] = infos {
        whole = info.object.clone();
    }
    let Some(edited) = super::edit::edited(call, &whole)? else { return Ok(Vec::new()) };
    let objects = match edited["items"].items() {
        [] => vec![edited],
        items => items.to_vec(),
    };
    objects
        .into_iter()
        .map(|object| {
            let info = call.info("edited-file", object, BuilderOptions::default())?;
            call.require_namespace(&info).map(|()| info)
        })
        .collect()
}

/// Adds the manifest's name to an error. Invalid objects are the exception: the server's message is sufficient.
pub(crate) fn while_creating(fail: CommandError, source: &str) -> CommandError {
    match &fail {
        CommandError::Server { status, .. } if status.has_reason("Invalid") => fail,
        _ => fail.with_action(format!("error when creating {}", object::quote::quote(source))),
    }
}

/// Rejects the value of `--raw` unless it is a path.
pub(crate) fn check_raw(path: &str) -> Result {
    if path.starts_with('/') {
        return Ok(());
    }
    let why = if path.is_empty() { "empty url" } else { "invalid URI for request" };
    Err(CommandError::error(format!(
        "--raw must be a valid URL path: parse {}: {why}",
        object::quote::quote(path)
    )))
}

fn raw_post(call: &Invocation<'_>, path: &str) -> Result {
    check_raw(path)?;
    let [file] = call.flags.all("filename") else {
        return Err(CommandError::error("--raw can only use a single local file or stdin"));
    };
    let text = std::fs::read(file).map_err(|error| {
        CommandError::error(format!("open {file}: {}", crate::select::go_io_error(&error)))
    })?;
    let bytes = call.server()?.bytes(hyper::Method::POST, path, JSON, Some((JSON, text)))?;
    call.out_bytes(&bytes);
    Ok(())
}

/// Sets the last-applied annotation, for a later `apply`.
pub(crate) fn annotate(object: &mut Value) {
    let text = last_applied(object, true);
    object["metadata"]["annotations"][LAST_APPLIED] = text.as_str().into();
}

/// Like `annotate`, for an object that kubectl has built: fields are in the order of their declaration.
pub(crate) fn annotate_declared(object: &mut Value) {
    let text = json::compact_declared(object) + "\n";
    object["metadata"]["annotations"][LAST_APPLIED] = text.as_str().into();
}

/// The object as the last-applied annotation contains it. `empty`: includes an empty `annotations` if there are none.
pub(crate) fn last_applied(object: &Value, empty: bool) -> String {
    let mut object = object.clone();
    if !object["metadata"]["annotations"].is_null() {
        object["metadata"]["annotations"].remove(LAST_APPLIED);
    }
    let none = object["metadata"]["annotations"].entries().len() == 0;
    if none && empty {
        object["metadata"]["annotations"] = Value::object();
    } else if none {
        object["metadata"].remove("annotations");
    }
    json::compact(&object) + "\n"
}

/// Creates one object that a generator has built.
pub(crate) fn make(
    call: &Invocation<'_>,
    mut object: Value,
    resource: &str,
    failed: &str,
) -> Result {
    let dry_run = DryRun::of(call)?;
    let output = OutputFormat::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-create")?;
    if call.flags.is_true("append-hash") {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let hash = crate::kustomize::hash(&object, &name, &Value::object());
        object["metadata"]["name"] = format!("{name}-{hash}").into();
    }
    if call.flags.is_true("save-config") {
        annotate_declared(&mut object);
    }
    if dry_run != DryRun::Client {
        let resource = call.resources()?.find(resource)?.clone();
        let path = resource.path(&call.namespace()?, "") + &query;
        object = call.server()?.post(&path, &object).map_err(|fail| match failed {
            "" => fail,
            failed => CommandError::error(format!("{failed}{}", fail.message())),
        })?;
    }
    output.print_declared(call, &object, &format!("created{}", dry_run.suffix()))
}

/// The single name argument of a generator.
pub(crate) fn one_name(call: &Invocation<'_>) -> Result<String> {
    let words = &call.args()[..call.flags.args_len_at_dash.unwrap_or(call.args().len())];
    match words {
        [name] => Ok(name.clone()),
        _ => Err(call.usage(format!("exactly one NAME is required, got {}", words.len()))),
    }
}

/// A new object with its name, and the namespace if one was given.
pub(crate) fn begin(
    call: &Invocation<'_>,
    api_version: &str,
    kind: &str,
    namespaced: bool,
) -> Result<Value> {
    let mut object = Value::object();
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    let name = one_name(call)?;
    if name.is_empty() {
        return Err(CommandError::error("name must be specified"));
    }
    object["metadata"]["name"] = name.as_str().into();
    if namespaced && call.namespace_given() {
        object["metadata"]["namespace"] = call.namespace()?.as_str().into();
    }
    Ok(object)
}

/// Parses YAML that is written in the code.
pub(crate) fn tree(text: &str) -> Value {
    yaml::from_yaml(text).expect("written in the code")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_requests_need_a_path() {
        for (path, why) in [
            ("/api/v1", ""),
            ("bad", "--raw must be a valid URL path: parse \"bad\": invalid URI for request"),
            ("", "--raw must be a valid URL path: parse \"\": empty url"),
        ] {
            let message = check_raw(path).err().map(|fail| fail.message()).unwrap_or_default();
            assert_eq!(message, why);
        }
    }
}
