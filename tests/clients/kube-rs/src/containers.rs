//! A container: its output, a command inside, a connection to it.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{AttachParams, DeleteParams, LogParams, PostParams},
    runtime::{
        conditions,
        wait::{await_condition, delete::delete_and_finalize},
    },
};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::NAMESPACE;

pub(crate) async fn story(client: &Client) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "hello"},
        "spec": {
            "containers": [{"name": "main", "image": "tiphys.local/hello:1"}],
            "initContainers": [{"name": "first", "image": "tiphys.local/hello:1", "command": ["/tiphys", "help"]}],
        },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    await_condition(pods.clone(), "hello", conditions::is_pod_running()).await?;

    let first = LogParams { container: Some("first".into()), ..LogParams::default() };
    let log = pods.logs("hello", &first).await?;
    ensure!(log.contains("kubectl"), "the log is {log:?}");

    let command = ["/tiphys", "hello", "--fetch", "http://127.0.0.1/"];
    let mut process = pods.exec("hello", command, &AttachParams::default().stderr(false)).await?;
    let mut said = String::new();
    process.stdout().context("no output")?.read_to_string(&mut said).await?;
    let status = process.take_status().context("no status")?.await.context("no end")?;
    ensure!(
        said.contains("hello") && status.status.as_deref() == Some("Success"),
        "{said:?}: {status:?}"
    );

    let mut forward = pods.portforward("hello", &[80]).await?;
    let mut stream = forward.take_stream(80).context("no stream")?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: hello\r\nConnection: close\r\n\r\n").await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    ensure!(page.starts_with("HTTP/1.1 200"), "{page:?}");

    delete_and_finalize(pods, "hello", &DeleteParams::default()).await?;
    Ok(())
}
