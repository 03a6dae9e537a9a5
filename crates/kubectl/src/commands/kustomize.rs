//! `kustomize`: prints the objects that a kustomization builds.

use object::yaml;

use super::Command;
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    kustomize,
    select::go_io_error,
};

pub(crate) const COMMAND: Command = Command::new(
    "kustomize",
    &[&[
        Flag::text("output").short('o'),
        Flag::text("load-restrictor").default("LoadRestrictionsRootOnly"),
        Flag::bool("enable-helm"),
        Flag::bool("enable-alpha-plugins"),
        Flag::bool("network"),
        Flag::bool("as-current-user"),
        Flag::text("network-name").default("bridge"),
        Flag::text("helm-command").default("helm"),
        Flag::new("mount", FlagType::StringArray),
        Flag::new("env", FlagType::StringArray).short('e'),
    ]],
    run,
);

/// Flags for external programs, which are not supported.
const EXTERNAL_PROGRAM_FLAGS: &[&str] =
    &["enable-helm", "enable-alpha-plugins", "network", "as-current-user", "mount", "env"];

fn run(call: &Invocation<'_>) -> Result {
    let folder = match call.args() {
        [] => ".",
        [folder] => folder,
        _ => return Err(CommandError::error("specify one path to kustomization.yaml")),
    };
    for flag in EXTERNAL_PROGRAM_FLAGS {
        if call.flags.is_set(flag) {
            return Err(CommandError::error(format!("--{flag} is not supported")));
        }
    }
    if call.flags.text("load-restrictor") != "LoadRestrictionsRootOnly" {
        return Err(CommandError::error(format!(
            "--load-restrictor={} is not supported",
            call.flags.text("load-restrictor")
        )));
    }
    let objects = kustomize::build(folder, &mut |text| call.print_err(text))?;
    let texts: Vec<String> = objects.iter().map(yaml::to_yaml).collect();
    let text = texts.join("---\n");
    match call.flags.text("output") {
        "" => call.print(&text),
        path => std::fs::write(path, text).map_err(|error| {
            CommandError::error(format!("open {path}: {}", go_io_error(&error)))
        })?,
    }
    Ok(())
}
