//! One executable for every component: run as a subcommand, or under the component's upstream name.

mod commands;
mod logging;
mod memory;
mod up;

use std::{
    ffi::{CString, OsString},
    path::Path,
    process::ExitCode,
};

fn main() -> ExitCode {
    panics::install();
    end_with_the_reader();
    let mut args: Vec<OsString> = std::env::args_os().collect();
    let called = args.first().and_then(|name| Path::new(name).file_name()).unwrap_or_default();
    let called = called.to_string_lossy().into_owned();
    let is_part = up::supervise::is_part(&called, &args);
    if let Some(command) = commands::find(&called).filter(|_| !is_part) {
        return command.run(args.split_off(1), true); // under its upstream name
    }
    let Some(name) = args.get(1).map(|name| name.to_string_lossy().into_owned()) else {
        eprint!("{}", commands::help());
        return ExitCode::FAILURE;
    };
    if is_part && let Ok(called) = CString::new(called) {
        sys::process::set_name(&called);
    }
    match commands::find(&name) {
        Some(command) => command.run(args.split_off(2), false),
        None if matches!(name.as_str(), "help" | "--help" | "-h") => {
            commands::print_help();
            ExitCode::SUCCESS
        }
        None if matches!(name.as_str(), "--version" | "-V") => commands::version(args),
        None => {
            eprintln!("{}", commands::unknown(&name));
            ExitCode::FAILURE
        }
    }
}

/// Exits silently, as SIGPIPE would, when the reader of standard output has closed the pipe. `print!` and the like
/// would otherwise panic.
fn end_with_the_reader() {
    let otherwise = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let says = info.payload_as_str().unwrap_or_default();
        if says.starts_with("failed printing to std") && says.contains("Broken pipe") {
            sys::process::die_by_broken_pipe();
        }
        otherwise(info);
    }));
}
