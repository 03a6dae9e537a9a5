//! kube-rs against a cluster: built-in and custom objects are created, watched, patched in
//! every way and deleted; a command runs in a container.

mod built_in;
mod containers;
mod custom;
mod watching;

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
    discovery::{Discovery, Scope},
};

const NAMESPACE: &str = "kube-rs";
const PATIENCE: Duration = Duration::from_mins(3);

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::try_default().await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": NAMESPACE}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    let ended = tokio::time::timeout(PATIENCE, story(&client)).await;
    namespaces.delete(NAMESPACE, &DeleteParams::default()).await?;
    ended.context("it took too long")?
}

async fn story(client: &Client) -> Result<()> {
    discovery(client).await.context("discovery")?;
    built_in::story(client).await.context("built-in kinds")?;
    custom::story(client).await.context("a custom kind")?;
    containers::story(client).await.context("containers")?;
    println!("kube-rs: passed");
    Ok(())
}

/// Both ways of asking what there is give the same kinds.
async fn discovery(client: &Client) -> Result<()> {
    let version = client.apiserver_version().await?;
    anyhow::ensure!(version.major == "1" && version.minor.starts_with("37"), "{version:?}");
    let (one, other) = (
        Discovery::new(client.clone()).run().await?,
        Discovery::new(client.clone()).run_aggregated().await?,
    );
    let kinds = |found: &Discovery| {
        let mut names = Vec::new();
        for group in found.groups() {
            for (kind, about) in group.recommended_resources() {
                let place = if about.scope == Scope::Cluster { "cluster" } else { "namespace" };
                names.push(format!("{}/{}: {place}", kind.api_version, kind.plural));
            }
        }
        names.sort();
        names
    };
    let (one, other) = (kinds(&one), kinds(&other));
    anyhow::ensure!(one == other && one.len() > 50, "{one:?} is not {other:?}");
    Ok(())
}
