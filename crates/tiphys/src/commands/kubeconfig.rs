//! `kubeconfig`: signs a certificate for a person or a further node.

use std::{ffi::OsString, fs, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::Parser;
use object::{Clock, SystemClock};
use pki::{Authority, Leaf};

use super::parse;

#[derive(Parser)]
struct Arguments {
    /// Where everything of the cluster is kept.
    #[arg(long, default_value = "/var/lib/tiphys")]
    data_dir: PathBuf,
    /// The user's name.
    #[arg(long)]
    user: String,
    /// A group that the user is in.
    #[arg(long)]
    group: Vec<String>,
    /// How the user reaches the API server: https://HOST:PORT.
    #[arg(long, default_value = "https://127.0.0.1:6443")]
    server: String,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let arguments = match parse::<Arguments>("kubeconfig", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match sign(&arguments) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("kubeconfig: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn sign(arguments: &Arguments) -> Result<String> {
    let read = |name: &str| {
        let path = arguments.data_dir.join("pki").join(name);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let authority = Authority::from_pem(&read("ca.crt")?, &read("ca.key")?)?;
    let groups: Vec<&str> = arguments.group.iter().map(String::as_str).collect();
    let pair = authority.issue(&Leaf::client(&arguments.user, &groups), SystemClock.now())?;
    Ok(pair.kubeconfig(&arguments.server, &authority)?)
}
