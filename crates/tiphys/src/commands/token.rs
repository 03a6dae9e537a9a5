//! `token`: makes, lists and deletes the bootstrap tokens with which hosts join.

use std::{ffi::OsString, fs, net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use api::core::Secret;
use clap::{Parser, Subcommand};
use client::{Api, Client, DeleteParams, Selectors};
use object::{Bytes, Clock as _, NamespacedName, SystemClock};

use super::{duration, parse, run_async};
use crate::up::{
    ClusterConfig, DataDir, Place, administrator,
    bootstrap::{self, BootstrapToken, NAME_PREFIX, TYPE},
};

#[derive(Parser)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a token, and print the command that joins a host with it.
    Create {
        #[command(flatten)]
        place: Place,
        /// How long the token is valid; 0: until it is deleted.
        #[arg(long, default_value = "24h", value_parser = duration)]
        ttl: Duration,
        /// What the token is for.
        #[arg(long, default_value = "")]
        description: String,
    },
    /// List the tokens, without their secrets.
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Delete a token by its id or in full.
    Delete {
        #[command(flatten)]
        place: Place,
        token: String,
    },
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    match parse::<Arguments>("token", args) {
        Ok(Arguments { command }) => run_async("token", act(command)),
        Err(code) => code,
    }
}

async fn act(command: Command) -> Result<()> {
    match command {
        Command::Create { place, ttl, description } => {
            create(&place.existing()?, ttl, &description).await
        }
        Command::List { place } => list(&connect(&place.existing()?).await?).await,
        Command::Delete { place, token } => {
            delete(&connect(&place.existing()?).await?, &token).await
        }
    }
}

async fn connect(layout: &DataDir) -> Result<Client> {
    administrator(layout).await.context("the API server does not answer: see `tiphys status`")
}

async fn create(layout: &DataDir, ttl: Duration, description: &str) -> Result<()> {
    let client = connect(layout).await?;
    let settings = ClusterConfig::load(&layout.path("config.yaml"))?;
    let path = layout.path("pki/ca.crt");
    let ca = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    bootstrap::apply(&client, &settings, &ca).await?;
    let token = BootstrapToken::generate()?;
    let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
    let expires = (seconds > 0).then(|| SystemClock.now().saturating_add(seconds));
    Api::<Secret>::new(&client).create(token.to_secret(description, expires)).await?;
    let hashes: Result<Vec<String>, _> =
        pki::certificates(ca.as_bytes())?.iter().map(pki::public_key_hash).collect();
    let hashes: String = hashes?.iter().map(|hash| format!(" --ca-hash {hash}")).collect();
    let server = SocketAddr::new(settings.node_ip, settings.port);
    println!("tiphys join {server} --token {token}{hashes}");
    Ok(())
}

async fn list(client: &Client) -> Result<()> {
    let secrets = Api::<Secret>::new(client).namespaced("kube-system");
    let tokens = secrets.list_all(&Selectors::fields(format!("type={TYPE}"))).await?;
    println!("{:<8}{:<22}DESCRIPTION", "ID", "EXPIRES");
    for secret in tokens.items {
        let text = |name: &str| {
            let bytes = secret.data().get(name).and_then(Bytes::decode);
            String::from_utf8_lossy(&bytes.unwrap_or_default()).escape_debug().to_string()
        };
        let expires = Some(text("expiration")).filter(|text| !text.is_empty());
        let expires = expires.as_deref().unwrap_or("never");
        println!("{:<8}{expires:<22}{}", text("token-id"), text("description"));
    }
    Ok(())
}

async fn delete(client: &Client, token: &str) -> Result<()> {
    let id = token.split('.').next().unwrap_or(token);
    let secrets = Api::<Secret>::new(client);
    let key = NamespacedName::new("kube-system", &format!("{NAME_PREFIX}{id}"));
    let found = secrets.get(&key).await;
    if found.as_ref().is_err_and(client::Error::is_not_found) {
        anyhow::bail!("there is no token {id:?}: `tiphys token list` shows them");
    }
    found?;
    secrets.delete(&key, &DeleteParams::default()).await?;
    println!("token {id} deleted");
    Ok(())
}
