//! `kustomize`: prints the objects that a kustomization makes.

use object::yaml;

use super::Command;
use crate::{
    call::Call,
    fail::{Fail, Result},
    flags::{Flag, Kind},
    kustomize,
    select::plain,
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
        Flag::new("mount", Kind::Each),
        Flag::new("env", Kind::Each).short('e'),
    ]],
    run,
);

/// Flags that ask for programs outside.
const OUTSIDE: &[&str] =
    &["enable-helm", "enable-alpha-plugins", "network", "as-current-user", "mount", "env"];

fn run(call: &Call<'_>) -> Result {
    let folder = match call.words() {
        [] => ".",
        [folder] => folder,
        _ => return Err(Fail::error("specify one path to kustomization.yaml")),
    };
    for flag in OUTSIDE {
        if call.flags.has(flag) {
            return Err(Fail::error(format!("--{flag} is not supported")));
        }
    }
    if call.flags.text("load-restrictor") != "LoadRestrictionsRootOnly" {
        return Err(Fail::error(format!(
            "--load-restrictor={} is not supported",
            call.flags.text("load-restrictor")
        )));
    }
    let objects = kustomize::build(folder, &mut |text| call.say(text))?;
    let texts: Vec<String> = objects.iter().map(yaml::to_yaml).collect();
    let text = texts.join("---\n");
    match call.flags.text("output") {
        "" => call.out(&text),
        path => std::fs::write(path, text)
            .map_err(|error| Fail::error(format!("open {path}: {}", plain(&error))))?,
    }
    Ok(())
}
