//! `kube-apiserver`: reads its flags and runs it.

use std::{ffi::OsString, process::ExitCode};

use apiserver::{Config, Flags, grouped, start};
use clap::{CommandFactory as _, Parser};
use tracing::info;

use super::{exit, parse, run_async, wait_for_shutdown_signal};

#[derive(Parser)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) flags: Flags,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{}", grouped(&Arguments::command()).render_help());
        return ExitCode::SUCCESS;
    }
    let Arguments { flags } = match parse("kube-apiserver", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if let Some(text) = version(&flags.general.version) {
        println!("{text}");
        return ExitCode::SUCCESS;
    }
    let checked = Config::new(flags).and_then(|config| Ok((config.logging()?, config)));
    let (logging, config) = match checked {
        Ok(checked) => checked,
        Err(error) => return exit("kube-apiserver", Err(error)),
    };
    crate::logging::start_with(&logging);
    run_async("kube-apiserver", async {
        let running = start(config).await?;
        info!(port = running.port, "serving");
        wait_for_shutdown_signal().await?;
        running.stop().await;
        Ok(())
    })
}

/// The text that `--version` prints; `None` if the flag is not given and the server is to start.
fn version(asked: &str) -> Option<String> {
    let version = server::VERSION;
    match asked {
        "true" => Some(format!("Kubernetes {version}")),
        "raw" => {
            let mut parts = version.trim_start_matches('v').split('.');
            let (major, minor) = (parts.next()?, parts.next()?);
            Some(format!(
                "version.Info{{Major:{major:?}, Minor:{minor:?}, EmulationMajor:\"\", \
                 EmulationMinor:\"\", MinCompatibilityMajor:\"\", MinCompatibilityMinor:\"\", \
                 GitVersion:{version:?}, GitCommit:\"\", GitTreeState:\"\", \
                 BuildDate:\"1970-01-01T00:00:00Z\", GoVersion:\"\", Compiler:\"rustc\", \
                 Platform:\"linux/{}\"}}",
                server::architecture()
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_said() {
        assert_eq!(version("true").as_deref(), Some("Kubernetes v1.37.1"));
        let raw = version("raw").expect("all of it");
        assert!(raw.starts_with("version.Info{Major:\"1\", Minor:\"37\", "), "{raw}");
        assert_eq!(version("false"), None);
    }
}
