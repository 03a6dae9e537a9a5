//! `encryption`: manages the keys of encryption at rest.

use std::{ffi::OsString, fs, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use pki::Dir;
use server::EncryptionConfig;

use super::parse;
use crate::up::Place;

#[derive(Parser)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a new key. The API server takes it over by itself, and writes everything anew.
    Rotate {
        #[command(flatten)]
        place: Place,
    },
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let Arguments { command: Command::Rotate { place } } = match parse("encryption", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match place.existing().and_then(|layout| rotate(&layout.path("pki"))) {
        Ok(()) => {
            println!("a new key is in use; stored objects are re-encrypted within seconds");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("encryption: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn rotate(pki: &std::path::Path) -> Result<()> {
    let path = pki.join(apiserver::ENCRYPTION);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut config =
        EncryptionConfig::parse(&text).with_context(|| format!("in {}", path.display()))?;
    config.rotate()?;
    Ok(Dir::open(pki)?.replace(apiserver::ENCRYPTION, config.to_yaml().as_bytes(), 0o600)?)
}
