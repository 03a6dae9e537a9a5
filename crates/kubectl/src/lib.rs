//! kubectl: the command line client of Kubernetes, compatible with upstream's output.
//!
//! ```text
//!  main ── finds the command in `commands::COMMANDS`, reads its flags
//!    └► Invocation ── flags, kubeconfig, server; `select` finds the objects that arguments refer to
//!         └► commands/NAME.rs ── one file for each command
//!              └► print ── tables, YAML, JSON, JSONPath, columns
//! ```

#![allow(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "what is printed is short, and reads better this way"
)]

mod commands;
mod describe;
mod error;
mod fetch;
mod files;
mod flags;
mod invocation;
mod kubeconfig;
mod kustomize;
mod merge;
mod preferences;
mod print;
mod record;
mod request_log;
mod resources;
mod select;
mod server;
mod stdio;
mod streams;
mod watch_object;
mod workload;

use std::{ffi::OsString, process::ExitCode};

use self::invocation::Environment;

/// Default data directory of a cluster on this host.
const DATA_DIR: &str = "/var/lib/tiphys";

/// Runs kubectl with these arguments (without the name of the program).
pub fn main(args: Vec<OsString>) -> ExitCode {
    let args: Vec<String> =
        args.into_iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    match commands::run(&environment(), &args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => {
            let (text, code) = fail.report();
            stdio::write(&mut std::io::stderr(), text.as_bytes());
            ExitCode::from(code)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
fn environment() -> Environment {
    let read = |name: &str| std::env::var(name).unwrap_or_default();
    let editor =
        [read("KUBE_EDITOR"), read("EDITOR")].into_iter().find(|editor| !editor.is_empty());
    Environment {
        kubeconfig: read("KUBECONFIG"),
        home: read("HOME"),
        external_diff: read("KUBECTL_EXTERNAL_DIFF"),
        editor: editor.unwrap_or_else(|| "vi".to_owned()),
        path: read("PATH"),
        kuberc: if read("KUBECTL_KUBERC") == "false" { "off".to_owned() } else { read("KUBERC") },
        service_host: read("KUBERNETES_SERVICE_HOST"),
        service_port: read("KUBERNETES_SERVICE_PORT"),
        websockets: read("KUBECTL_REMOTE_COMMAND_WEBSOCKETS") != "false",
        port_forward_websockets: read("KUBECTL_PORT_FORWARD_WEBSOCKETS") != "false",
        data_dir: Some(read("TIPHYS_DATA_DIR"))
            .filter(|dir| !dir.is_empty())
            .unwrap_or_else(|| DATA_DIR.to_owned()),
    }
}
