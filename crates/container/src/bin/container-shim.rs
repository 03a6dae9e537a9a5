//! The shim as a program of its own, for the tests of this crate; the full binary has it as a subcommand.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    container::shim::main(&args)
}
