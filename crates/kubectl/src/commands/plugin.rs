//! `plugin`, and the execution of plugins: executables named `kubectl-NAME` that act as commands.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command as Process,
};

use object::quote::quote;

use super::{COMMANDS, Command};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::{Environment, Invocation},
    select::go_io_error,
};

pub(crate) const COMMAND: Command =
    Command::group("plugin", &[Command::new("list", &[&[Flag::bool("name-only")]], list)]);

/// Executes the plugin for the command line, if there is one: for `a b c` that is `kubectl-a-b-c`, `kubectl-a-b` or
/// `kubectl-a`, whichever is found first. A plugin's name needs more words than `below`, the built-in command that it
/// extends.
pub(crate) fn run(environment: &Environment, args: &[String], below: &[&str]) -> Result {
    let mut words: Vec<String> = args
        .iter()
        .take_while(|arg| !arg.starts_with('-'))
        .map(|arg| arg.replace('-', "_"))
        .collect();
    if let (true, Some(first)) = (words.is_empty(), args.first()) {
        return Err(CommandError::Raw(format!(
            "Error: flags cannot be placed before plugin name: {first}"
        )));
    }
    let least = below.len();
    while words.len() > least {
        let name = format!("kubectl-{}", words.join("-"));
        if let Some(path) = find(environment, &name) {
            let mut program = Process::new(&path);
            let failed = program.args(&args[words.len()..]).exec();
            return Err(CommandError::error(format!(
                "{}: {}",
                path.display(),
                go_io_error(&failed)
            )));
        }
        words.pop();
    }
    Ok(())
}

fn find(environment: &Environment, name: &str) -> Option<PathBuf> {
    folders(environment)
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file() && is_executable(path).unwrap_or(false))
}

fn folders(environment: &Environment) -> Vec<&str> {
    let mut folders: Vec<&str> = Vec::new();
    for folder in environment.path.split(':').filter(|folder| !folder.trim().is_empty()) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

fn is_executable(path: &Path) -> std::io::Result<bool> {
    let about = fs::metadata(path)?;
    Ok(!about.is_dir() && about.permissions().mode() & 0o111 != 0)
}

fn list(call: &Invocation<'_>) -> Result {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in folders(call.environment) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                call.print_err(&format!(
                    "Unable to read directory {} from your PATH: open {folder}: {}. Skipping...",
                    quote(folder),
                    go_io_error(&error)
                ));
                continue;
            }
        };
        let mut here: Vec<PathBuf> = entries
            .filter_map(std::result::Result::ok)
            .filter(|entry| !entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("kubectl-"))
            .map(|entry| entry.path())
            .collect();
        here.sort();
        found.extend(here);
    }
    if found.is_empty() {
        return Err(CommandError::error("unable to find any kubectl plugins in your PATH"));
    }
    call.print("The following compatible plugins are available:\n\n");
    let mut seen: BTreeMap<String, &Path> = BTreeMap::new();
    let mut warnings = 0;
    for path in &found {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if call.flags.is_true("name-only") {
            call.print(&format!("{name}\n"));
        } else {
            call.print(&format!("{}\n", path.display()));
        }
        for wrong in problems(path, &name, &mut seen) {
            call.print_err(&format!("  - {wrong}"));
            warnings += 1;
        }
    }
    match warnings {
        0 => Ok(()),
        1 => Err(CommandError::error("one plugin warning was found")),
        _ => Err(CommandError::error(format!("{warnings} plugin warnings were found"))),
    }
}

fn problems<'a>(path: &'a Path, name: &str, seen: &mut BTreeMap<String, &'a Path>) -> Vec<String> {
    let shown = path.display();
    let mut wrong = Vec::new();
    match is_executable(path) {
        Ok(true) => {}
        Ok(false) => wrong.push(format!(
            "warning: {shown} identified as a kubectl plugin, but it is not executable"
        )),
        Err(error) => wrong.push(format!(
            "error: unable to identify {shown} as an executable file: {}",
            go_io_error(&error)
        )),
    }
    match seen.get(name) {
        Some(first) => wrong.push(format!(
            "warning: {shown} is overshadowed by a similarly named plugin: {}",
            first.display()
        )),
        None => {
            seen.insert(name.to_owned(), path);
        }
    }
    if let Some(command) = command_of(name) {
        wrong.push(format!(
            "warning: {name} overwrites existing command: {}",
            quote(&format!("kubectl {command}"))
        ));
    }
    wrong
}

/// The built-in command that has a plugin's name.
fn command_of(name: &str) -> Option<String> {
    let (mut known, mut path) = (COMMANDS, Vec::new());
    for word in name.split('-').skip(1) {
        match known.iter().find(|command| command.name == word || command.aliases.contains(&word)) {
            Some(command) => {
                path.push(command.name);
                known = command.subcommands;
            }
            None if path.is_empty() => return None,
            None => break,
        }
    }
    Some(path.join(" "))
}
