//! kubectl as a program of its own, to try it without the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl::main(std::env::args_os().skip(1).collect())
}
