//! One executable, every component: by subcommand, or under its upstream name.

mod commands;
mod logging;
mod memory;
mod up;

use std::{ffi::OsString, path::Path, process::ExitCode};

fn main() -> ExitCode {
    panics::install();
    let mut args: Vec<OsString> = std::env::args_os().collect();
    let called = args.first().and_then(|name| Path::new(name).file_name()).unwrap_or_default();
    let called = called.to_string_lossy().into_owned();
    if let Some(command) = commands::find(&called) {
        return command.run(args.split_off(1)); // under its upstream name
    }
    let Some(name) = args.get(1).map(|name| name.to_string_lossy().into_owned()) else {
        print!("{}", commands::help());
        return ExitCode::FAILURE;
    };
    match commands::find(&name) {
        Some(command) => command.run(args.split_off(2)),
        None if matches!(name.as_str(), "help" | "--help" | "-h") => {
            print!("{}", commands::help());
            ExitCode::SUCCESS
        }
        None if name == "--version" => commands::version(args),
        None => {
            eprintln!("tiphys: unknown command {name:?}\n\n{}", commands::help());
            ExitCode::FAILURE
        }
    }
}
