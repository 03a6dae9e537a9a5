//! `diff`: shows with a diff program what applying manifests would change.

use std::{
    fs,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Command as Process,
};

use object::{Value, quote::quote, yaml};

use super::{
    Command, FIELD_MANAGER, FILES, SELECTOR,
    apply::patch_of,
    create::last_applied,
    prune::{self, AppliedObjects},
};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    resources::escape,
    select::{BuilderOptions, Info, go_io_error},
    server::PatchType,
};

pub(crate) const COMMAND: Command = Command::new(
    "diff",
    &[
        FILES,
        SELECTOR,
        FIELD_MANAGER,
        &[
            Flag::bool("server-side"),
            Flag::bool("force-conflicts"),
            Flag::bool("show-managed-fields"),
            Flag::bool("show-secrets"),
            Flag::bool("prune"),
            Flag::new("prune-allowlist", FlagType::StringArray),
            Flag::new("concurrency", FlagType::Int32).default("1"),
        ],
    ],
    run,
)
.failure(2);

/// Replacement for a secret value.
const MASK: &str = "***";

fn run(call: &Invocation<'_>) -> Result {
    if !call.args().is_empty() {
        return Err(call.usage(format!("Unexpected args: [{}]", call.args().join(" "))));
    }
    if !call.has_files() {
        return Err(CommandError::error("must specify one of -f and -k"));
    }
    if call.flags.is_true("force-conflicts") && !call.flags.is_true("server-side") {
        return Err(CommandError::error("--force-conflicts only works with --server-side"));
    }
    let pruned = if call.flags.is_true("prune") { Some(prune::resources(call)?) } else { None };
    let (live, merged) = (DiffDir::new("LIVE")?, DiffDir::new("MERGED")?);
    let (infos, fails) = call.select(&[], BuilderOptions::default())?;
    CommandError::collect(fails)?;
    let mut seen = AppliedObjects::default();
    for info in infos {
        if info.name.is_empty() {
            return Err(CommandError::error("resource name may not be empty"));
        }
        let mut from = match call.server()?.get(&info.path()) {
            Ok(object) => object,
            Err(fail) if fail.is_not_found() => Value::Null,
            Err(fail) => return Err(fail),
        };
        seen.note(&info, &from);
        let mut to = merged_object(call, &info, &from)?;
        if !call.flags.is_true("show-managed-fields") {
            for object in [&mut from, &mut to] {
                if !object["metadata"].is_null() {
                    object["metadata"].remove("managedFields");
                }
            }
        }
        if info.resource.kind == "Secret"
            && info.resource.version == "v1"
            && !call.flags.is_true("show-secrets")
        {
            mask(&mut from, &mut to);
            // An object that does not exist is shown as null.
            if from.is_null() {
                from = "null".into();
            }
        }
        let name = file_name(&info);
        live.write(&name, &from)?;
        merged.write(&name, &to)?;
    }
    if let Some(resources) = pruned {
        for info in prune::candidates(call, &resources, &seen)? {
            live.write(&file_name(&info), &info.object)?;
        }
    }
    show(call, &live.0, &merged.0)
}

/// The file name of an object: `apps.v1.Deployment.shop.web`.
fn file_name(info: &Info) -> String {
    let resource = &info.resource;
    let name = format!("{}.{}.{}.{}", resource.version, resource.kind, info.namespace, info.name);
    if resource.group.is_empty() { name } else { format!("{}.{name}", resource.group) }
}

/// The object after the apply, from a dry run.
fn merged_object(call: &Invocation<'_>, info: &Info, current: &Value) -> Result<Value> {
    let server_side = call.flags.is_true("server-side");
    let manager = match (call.flags.text("field-manager"), server_side) {
        ("", true) => "kubectl",
        ("", false) => "kubectl-client-side-apply",
        (given, _) => given,
    };
    let query = format!("?dryRun=All&fieldManager={}", escape(manager));
    if server_side {
        let query = format!("{query}&force={}", call.flags.is_true("force-conflicts"));
        return call.server()?.patch(&(info.path() + &query), PatchType::Apply, &info.object);
    }
    if current.is_null() {
        let path = info.resource.path(&info.namespace, "") + &query;
        return call.server()?.create(&path, &info.object);
    }
    let modified = object::from_json(last_applied(&info.object, true).as_bytes())
        .map_err(|error| CommandError::error(error.to_string()))?;
    let (mut patch, kind) = patch_of(&modified, current)?;
    if patch.entries().len() == 0 {
        return Ok(current.clone());
    }
    patch["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
    call.server()?.patch(&(info.path() + &query), kind, &patch)
}

/// Masks the values of a Secret, but keeps visible which of them differ.
fn mask(from: &mut Value, to: &mut Value) {
    let (old, new) = (from["data"].clone(), to["data"].clone());
    for (name, value) in old.entries() {
        let changed = !new.get(name).is_null() && new.get(name) != value;
        from["data"][name] = if changed { format!("{MASK} (before)") } else { MASK.into() }.into();
        if changed {
            to["data"][name] = format!("{MASK} (after)").into();
        }
    }
    for (name, value) in new.entries() {
        if old.get(name).is_null() || old.get(name) == value {
            to["data"][name] = MASK.into();
        }
    }
}

/// Runs the diff program; exit code 1 means that there are differences.
fn show(call: &Invocation<'_>, from: &Path, to: &Path) -> Result {
    let external = &call.environment.external_diff;
    let mut words = external.split(' ');
    let (program, options): (&str, Vec<&str>) = if external.is_empty() {
        ("diff", Vec::new())
    } else {
        let plain = |word: &&str| {
            !word.is_empty()
                && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '=')
        };
        (words.next().unwrap_or_default(), words.filter(plain).collect())
    };
    let mut process = Process::new(program);
    if external.is_empty() {
        process.args(["-u", "-N"]);
    }
    let failed =
        |why: String| CommandError::error(format!("failed to run {}: {why}", quote(program)));
    let status = process.arg(from).arg(to).args(options).status();
    let status = status.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            failed(format!("exec: {}: executable file not found in $PATH", quote(program)))
        }
        _ => failed(go_io_error(&error)),
    })?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => Err(CommandError::Code(1)),
        Some(code) => Err(failed(format!("exit status {code}"))),
        None => Err(failed("it was ended by a signal".to_owned())),
    }
}

/// A temporary directory for one side of the comparison, removed on drop.
struct DiffDir(PathBuf);

impl DiffDir {
    fn new(name: &str) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut number = object::Clock::now_micros(&object::SystemClock).unsigned_abs();
        loop {
            let path = std::env::temp_dir().join(format!("{name}-{}", number % 10_000_000_000));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(CommandError::error(go_io_error(&error))),
            }
        }
    }

    fn write(&self, name: &str, object: &Value) -> Result {
        let text = match object {
            Value::Null => String::new(),
            Value::Text(plain) => format!("{plain}\n"),
            object => yaml::to_yaml(object),
        };
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o700);
        let opened = file.open(self.0.join(name));
        opened
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            .map_err(|error| CommandError::error(go_io_error(&error)))
    }
}

impl Drop for DiffDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn masks_values_but_not_changes() {
    let read = |text: &str| yaml::from_yaml(text).expect("YAML");
    let (mut from, mut to) = (read("data: {a: x, b: y, c: z}"), read("data: {a: q, b: y, d: w}"));
    mask(&mut from, &mut to);
    assert_eq!(from, read("data: {a: '*** (before)', b: '***', c: '***'}"));
    assert_eq!(to, read("data: {a: '*** (after)', b: '***', d: '***'}"));
}
