//! kubectl as a separate executable, to try it without the other components.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl::main(std::env::args_os().skip(1).collect())
}
