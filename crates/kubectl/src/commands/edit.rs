//! `edit`: opens objects in an editor, and sends the changes.

use std::process::Command as Process;

use object::{Value, yaml};

use super::{Command, FIELD_MANAGER, FILES, VALIDATE};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    merge::two_way,
    print::{self, json},
    record::{self, ChangeCause},
    select::{BuilderOptions, Info},
};

pub(crate) const COMMAND: Command = Command::new(
    "edit",
    &[
        FILES,
        FIELD_MANAGER,
        VALIDATE,
        record::FLAGS,
        print::FLAGS,
        &[
            Flag::bool("output-patch"),
            Flag::bool("save-config"),
            Flag::bool("windows-line-endings"),
            Flag::text("subresource"),
        ],
    ],
    run,
);

const HEAD: &str = "# Please edit the object below. Lines beginning with a '#' will be ignored,\n# and an empty file will abort the edit. If an error occurs while saving this file will be\n# reopened with the relevant failures.\n#\n";

#[expect(clippy::too_many_lines, reason = "one loop between editor and server")]
fn run(call: &Invocation<'_>) -> Result {
    let format = call.flags.text("output");
    let as_json = match format {
        "" | "yaml" => false,
        "json" => true,
        "kyaml" => return Err(CommandError::error("the output format \"kyaml\" is not supported")),
        other => {
            return Err(CommandError::error(format!(
                "unable to match a printer suitable for the output format {}, allowed formats are: json,kyaml,yaml",
                object::quote::quote(other)
            )));
        }
    };
    let sub = call.flags.text("subresource");
    let how = BuilderOptions {
        fetch: true,
        default_namespace: true,
        all_by_default: true,
        ..BuilderOptions::default()
    };
    let mut infos = call.select_all_ok(call.args(), how)?;
    if !sub.is_empty() {
        for info in &mut infos {
            info.object = call.server()?.get(&format!("{}/{sub}", info.path()))?;
        }
    }
    if infos.is_empty() {
        return Err(CommandError::error("edit cancelled, no objects found"));
    }
    let mut shown: Vec<Value> = infos
        .iter()
        .map(|info| {
            let mut object = info.object.clone();
            if !call.flags.is_true("show-managed-fields") && !object["metadata"].is_null() {
                object["metadata"].remove("managedFields");
            }
            object
        })
        .collect();
    let whole = if shown.len() == 1 {
        shown.remove(0)
    } else {
        let mut list = print::list(shown);
        list["metadata"] = Value::object();
        list
    };
    let body = if as_json { json::indented(&whole) + "\n" } else { yaml::to_yaml(&whole) };
    let head = if as_json { "" } else { HEAD };
    let mut text = format!("{head}{body}");
    if call.flags.is_true("windows-line-endings") {
        text = text.replace('\n', "\r\n");
    }
    let file = EditorFile::new(if as_json { "json" } else { "yaml" }, &text)?;
    let mut before = text;
    let mut first = true;
    loop {
        file.edit(call)?;
        let edited = file.read()?;
        if edited == before && first {
            call.print_err("Edit cancelled, no changes made.");
            return Ok(());
        }
        let plain = without_comments(&edited);
        if plain.trim().is_empty() {
            call.print_err("Edit cancelled, saved file was empty.");
            return Ok(());
        }
        // Text that was rejected once is not sent again.
        if !first && without_comments(&before) == plain {
            call.print_err(&format!(
                "A copy of your changes has been stored to {}",
                object::quote::quote(&file.keep())
            ));
            return Err(CommandError::error("Edit cancelled, no valid changes were saved."));
        }
        let failed = match yaml::from_yaml(&plain) {
            Err(error) => CommandError::error(error.to_string()),
            Ok(tree) if tree == whole && first => {
                call.print_err("Edit cancelled, no changes made.");
                return Ok(());
            }
            Ok(tree) => match send(call, &infos, &tree) {
                Ok(()) => return Ok(()),
                Err(fail) => fail,
            },
        };
        let reasons: String = failed.report().0.lines().map(|line| format!("# {line}\n")).collect();
        let subject = infos
            .first()
            .map(|info| {
                format!("{} {}", info.resource.qualified(), object::quote::quote(&info.name))
            })
            .unwrap_or_default();
        if matches!(&failed, CommandError::Server { status, .. } if status.has_reason("Invalid")) {
            call.print_err(&format!("error: {subject} is invalid"));
        } else if let CommandError::Error(says) = &failed
            && says.starts_with("At least one of")
        {
            call.print_err(&format!(
                "A copy of your changes has been stored to {}",
                object::quote::quote(&file.keep())
            ));
            return Err(failed);
        }
        before = format!("{head}{reasons}#\n{plain}");
        file.write(&before)?;
        first = false;
    }
}

fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// Opens a value in the editor; `None` if it was not changed.
pub(super) fn edited(call: &Invocation<'_>, tree: &Value) -> Result<Option<Value>> {
    let text = format!("{HEAD}{}", yaml::to_yaml(tree));
    let file = EditorFile::new("yaml", &text)?;
    file.edit(call)?;
    let lines = file.read()?;
    let plain = without_comments(&lines);
    if plain.trim().is_empty() {
        call.print_err("Edit cancelled, saved file was empty.");
        return Ok(None);
    }
    let edited = yaml::from_yaml(&plain).map_err(|error| {
        call.print_err(&format!(
            "A copy of your changes has been stored to {}",
            object::quote::quote(&file.keep())
        ));
        CommandError::error(error.to_string())
    })?;
    if edited == *tree {
        call.print_err("Edit cancelled, no changes made.");
        return Ok(None);
    }
    Ok(Some(edited))
}

/// Sends the changes of each object as a patch.
fn send(call: &Invocation<'_>, infos: &[Info], edited: &Value) -> Result {
    let objects =
        if infos.len() > 1 { edited["items"].items().to_vec() } else { vec![edited.clone()] };
    let below = match call.flags.text("subresource") {
        "" => String::new(),
        sub => format!("/{sub}"),
    };
    let mut fails = Vec::new();
    for object in objects {
        let same = |info: &&Info| {
            let old = &info.object;
            old["kind"] == object["kind"]
                && old["metadata"]["name"] == object["metadata"]["name"]
                && old["apiVersion"] == object["apiVersion"]
        };
        let Some(info) = infos.iter().find(same) else {
            return Err(CommandError::error(
                "At least one of apiVersion, kind and name was changed",
            ));
        };
        if object["kind"].as_str() != Some(&info.resource.kind) {
            return Err(CommandError::error(format!(
                "no matches for kind {} in version {}",
                object::quote::quote(object["kind"].as_str().unwrap_or_default()),
                object::quote::quote(object["apiVersion"].as_str().unwrap_or_default())
            )));
        }
        let mut old = info.object.clone();
        old["metadata"].remove("managedFields");
        if old == object {
            call.print(&format!("{} skipped\n", info.named()));
            continue;
        }
        let mut object = object;
        ChangeCause::of(call).annotate(&mut object);
        let (patch, kind) = two_way(&old, &object)?;
        if call.flags.is_true("output-patch") {
            call.print(&format!("Patch: {}\n", json::compact(&patch)));
        }
        match call.server()?.patch(
            &(info.path() + &below + "?fieldManager=kubectl-edit&fieldValidation=Strict"),
            kind,
            &patch,
        ) {
            Ok(changed) => match call.flags.text("output") {
                "json" => call.print(&(json::indented(&without_managed(&changed)) + "\n")),
                "yaml" => call.print(&yaml::to_yaml(&without_managed(&changed))),
                _ => call.print(&format!("{} edited\n", info.named())),
            },
            Err(fail) => fails.push(fail),
        }
    }
    CommandError::collect(fails)
}

fn without_managed(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"].remove("managedFields");
    object
}

/// A temporary file for the editor, removed on drop.
struct EditorFile {
    path: std::path::PathBuf,
    kept: std::cell::Cell<bool>,
}

impl EditorFile {
    fn new(ending: &str, text: &str) -> Result<Self> {
        let micros = object::Clock::now_micros(&object::SystemClock);
        let path = std::env::temp_dir()
            .join(format!("kubectl-edit-{}.{ending}", micros.unsigned_abs() % 10_000_000_000));
        let this = Self { path, kept: std::cell::Cell::new(false) };
        this.write(text)?;
        Ok(this)
    }

    fn write(&self, text: &str) -> Result {
        use std::os::unix::fs::OpenOptionsExt as _;
        let opened = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&self.path);
        let wrote =
            opened.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
        wrote.map_err(|error| CommandError::error(error.to_string()))
    }

    fn read(&self) -> Result<String> {
        std::fs::read_to_string(&self.path).map_err(|error| CommandError::error(error.to_string()))
    }

    fn edit(&self, call: &Invocation<'_>) -> Result {
        let editor = &call.environment.editor;
        let line = format!("{editor} '{}'", self.path.display());
        let status = if editor.contains(' ') {
            Process::new("sh").arg("-c").arg(line).status()
        } else {
            Process::new(editor).arg(&self.path).status()
        };
        let failed = || {
            CommandError::error(format!(
                "unable to launch the editor {}",
                object::quote::quote(editor)
            ))
        };
        let status = status.map_err(|_| failed())?;
        match status.code() {
            Some(0) => Ok(()),
            Some(127) => Err(failed()),
            _ => Err(CommandError::error(format!(
                "there was a problem with the editor {}",
                object::quote::quote(editor)
            ))),
        }
    }

    /// Keeps the file; returns its path.
    fn keep(&self) -> String {
        self.kept.set(true);
        self.path.display().to_string()
    }
}

impl Drop for EditorFile {
    fn drop(&mut self) {
        if !self.kept.get() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
