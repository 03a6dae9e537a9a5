//! `hollow`: nodes without containers, for trying schedulers, controllers and large clusters.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use client::{Client, Kubeconfig};
use runtime::Context;

use super::{parse, run_async, wait_for_shutdown_signal};
use crate::up::Place;

#[derive(Parser)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// The administrator's kubeconfig; that of the cluster on this machine.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// How many nodes there are.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,
    /// What the names of the nodes begin with.
    #[arg(long, default_value = "hollow-")]
    name_prefix: String,
    /// Capacity of each node: RESOURCE=QUANTITY.
    #[arg(long, value_name = "RESOURCE=QUANTITY", value_parser = capacity)]
    capacity: Vec<(String, String)>,
    /// A further label of each node: NAME=VALUE.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    node_label: Vec<(String, String)>,
    /// The number of zones that the nodes are spread over.
    #[arg(long, default_value_t = 0)]
    zones: u32,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    match parse::<Arguments>("hollow", args) {
        Ok(arguments) => run_async("hollow", serve(arguments)),
        Err(code) => code,
    }
}

async fn serve(arguments: Arguments) -> Result<()> {
    ensure!(
        object::names::dns1123_subdomain(&format!("{}0", arguments.name_prefix)).is_empty(),
        "--name-prefix {:?}: a node's name has lower case letters, digits, '-' and '.'",
        arguments.name_prefix
    );
    let kubeconfig = match arguments.kubeconfig {
        Some(path) => path,
        None => arguments.place.existing()?.path("kubeconfig/admin"),
    };
    let config = Kubeconfig::read(&kubeconfig)?.config(None)?;
    let client = Client::new(config.manager("kubelet").user_agent("hollow"));
    let defaults = hollow::Config::default();
    let mut capacity = defaults.capacity;
    capacity.extend(arguments.capacity);
    let config = hollow::Config {
        nodes: arguments.nodes,
        prefix: arguments.name_prefix,
        capacity,
        labels: BTreeMap::from_iter(arguments.node_label),
        zones: arguments.zones,
    };
    let cx = Context::new(&client);
    hollow::start(&cx, &config);
    wait_for_shutdown_signal().await?;
    cx.stop().await;
    Ok(())
}

/// The name and value of NAME=VALUE.
fn pair(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').context("must be NAME=VALUE")?;
    ensure!(!name.is_empty(), "must be NAME=VALUE");
    Ok((name.to_owned(), value.to_owned()))
}

fn capacity(text: &str) -> Result<(String, String)> {
    let (name, value) = pair(text)?;
    value
        .parse::<object::quantity::Quantity>()
        .map_err(|_| anyhow::anyhow!("{value:?} is no quantity"))?;
    Ok((name, value))
}
