//! `completion`: prints a shell script for command line completion. The script calls kubectl itself.

use super::Command;
use crate::{error::Result, invocation::Invocation};

pub(crate) const COMMAND: Command = Command::new("completion", &[], run);

fn run(call: &Invocation<'_>) -> Result {
    let shell = match call.args() {
        [] => return Err(call.usage("Shell not specified.")),
        [shell] => shell.as_str(),
        _ => return Err(call.usage("Too many arguments. Expected only the shell type.")),
    };
    call.print(match shell {
        "bash" => include_str!("completion/bash.sh"),
        "zsh" => include_str!("completion/zsh.sh"),
        "fish" => include_str!("completion/fish.sh"),
        "powershell" => include_str!("completion/powershell.ps1"),
        other => {
            return Err(
                call.usage(format!("Unsupported shell type {}.", object::quote::quote(other)))
            );
        }
    });
    Ok(())
}
