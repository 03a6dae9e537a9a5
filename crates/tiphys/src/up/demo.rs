//! The application of `up --demo`, and a function that applies built-in manifests.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::{apps::Deployment, core::Service};
use client::{Api, Client, Patch};
use object::{NamespacedName, Object, Value, View, yaml};
use tokio::time::{Instant, sleep};

use super::{ClusterConfig, progress};

const MANIFEST: &str = include_str!("demo.yaml");
const PATIENCE: Duration = Duration::from_mins(1);

/// Deploys the application and prints the URL at which it responds.
pub(super) async fn run(client: &Client, settings: &ClusterConfig) -> Result<()> {
    apply(client, MANIFEST).await.context("the demo")?;
    let key = NamespacedName::new("default", "hello");
    let began = Instant::now();
    let deployments = Api::<Deployment>::new(client);
    loop {
        let deployment = deployments.get(&key).await?;
        if deployment.status().available_replicas() >= 3 {
            break;
        }
        if began.elapsed() > PATIENCE {
            bail!("the demo does not start: see `tiphys kubectl describe pods`");
        }
        sleep(Duration::from_millis(100)).await;
    }
    let service = Api::<Service>::new(client).get(&key).await?;
    let port = service.spec().ports().iter().next().map_or(0, api::core::ServicePort::node_port);
    let url = format!("http://{}:{port}/", settings.node_ip);
    let page = loop {
        match crate::commands::hello::fetch(&url).await {
            Ok(page) => break page,
            Err(error) if began.elapsed() > PATIENCE => {
                return Err(error).with_context(|| url.clone());
            }
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    };
    let took = began.elapsed().as_secs_f64();
    progress::print(&format!("hello runs in 3 pods ({took:.1} s): {url}\n{page}"));
    Ok(())
}

/// Applies every object of a manifest with server-side apply, as the field manager `tiphys`.
pub(super) async fn apply(client: &Client, manifest: &str) -> Result<()> {
    let mapper = client.discover().await?;
    for document in yaml::split_documents(manifest)? {
        let object = yaml::from_yaml(document)?;
        let named = Object::view(&object);
        let found = mapper
            .of_kind(named.api_version(), named.kind())
            .with_context(|| format!("the server has no {}", named.kind()))?;
        let key = NamespacedName::from_meta(named.metadata());
        let api =
            Api::<Value>::for_resource(client, found.resource.clone()).namespaced(&key.namespace);
        let patch = Patch::Apply { object: object.clone(), manager: "tiphys".into(), force: true };
        api.patch(&key, &patch).await.with_context(|| format!("{} {key}", named.kind()))?;
    }
    Ok(())
}
