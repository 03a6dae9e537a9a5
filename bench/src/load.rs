//! The load of the request benchmark: pods are created by many clients at once, read one by one, listed, and read
//! during writes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use client::{Auth, Client, Config, TcpConnector, TlsOptions};
use http::{HeaderMap, HeaderValue, Method, header};
use tokio::{task::JoinSet, time::sleep_until};

use crate::peer::ServerUnderTest;

const CLIENTS: u32 = 64;
const PODS: &str = "/api/v1/namespaces/default/pods";
/// Reads during writes: number of each per second, low enough for every server, and duration.
const RATE: u32 = 200;
const SECONDS: u32 = 10;

/// The clients and the number of pods.
pub(crate) struct Load {
    /// The clients, each with its own connection.
    clients: Vec<Client>,
    pods: u32,
}

impl Load {
    pub(crate) fn new(peer: &ServerUnderTest, pods: u32) -> Self {
        let tls = Arc::new(TlsOptions { insecure: true, ..TlsOptions::default() });
        let client = |_| {
            let tcp = TcpConnector::new("127.0.0.1", peer.port, Some(tls.clone()));
            Client::new(Config::new(Arc::new(tcp)).auth(Auth::Token(peer.token.as_str().into())))
        };
        Self { clients: (0..CLIENTS).map(client).collect(), pods }
    }

    /// Creates the service account that pods need.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let account =
            r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#;
        let path = "/api/v1/namespaces/default/serviceaccounts";
        post(&self.clients[0], path, account.to_owned()).await
    }

    /// Creates all pods.
    pub(crate) async fn create(&self) -> Result<()> {
        self.spread(|client, at| async move { post(&client, PODS, pod(at)).await }).await
    }

    /// Reads all pods, one by one.
    pub(crate) async fn get(&self) -> Result<()> {
        self.spread(|client, at| async move {
            read(&client, &format!("{PODS}/p{at}"), "application/json").await.map(drop)
        })
        .await
    }

    /// Lists all pods several times.
    pub(crate) async fn list(&self, accept: &'static str, times: u32) -> Result<()> {
        for _ in 0..times {
            let size = read(&self.clients[0], PODS, accept).await?;
            ensure!(size > self.pods as usize * 100, "the list is too short: {size} bytes");
        }
        Ok(())
    }

    /// Sends reads and writes at a fixed rate, regardless of whether earlier ones have completed. Returns the
    /// latencies of the reads from their scheduled start, sorted.
    pub(crate) async fn get_during_writes(&self) -> Result<Vec<Duration>> {
        let (began, mut reads, mut writes) = (Instant::now(), JoinSet::new(), JoinSet::new());
        for at in 0..RATE * SECONDS {
            let due = began + Duration::from_secs(1) * at / RATE;
            sleep_until(due.into()).await;
            let client = |number: u32| self.clients[(number % CLIENTS) as usize].clone();
            let (reader, writer, pods) = (client(2 * at), client(2 * at + 1), self.pods);
            writes.spawn(async move { post(&writer, PODS, pod(pods + at)).await });
            reads.spawn(async move {
                let path = format!("{PODS}/p{}", at.wrapping_mul(7919) % pods);
                read(&reader, &path, "application/json").await?;
                anyhow::Ok(due.elapsed())
            });
        }
        while let Some(done) = writes.join_next().await {
            done??;
        }
        let all = reads.join_all().await.into_iter();
        let mut all = all.collect::<Result<Vec<_>>>()?;
        all.sort_unstable();
        Ok(all)
    }

    /// Distributes the numbers of the pods among the clients, which work concurrently.
    async fn spread<F>(&self, work: impl Fn(Client, u32) -> F + Copy + Send + 'static) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let mut tasks = JoinSet::new();
        for (first, client) in (0..).zip(&self.clients) {
            let (client, pods) = (client.clone(), self.pods);
            tasks.spawn(async move {
                for at in (first..pods).step_by(CLIENTS as usize) {
                    work(client.clone(), at).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }
}

pub(crate) async fn post(client: &Client, path: &str, body: String) -> Result<()> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let answer = client.request(Method::POST, path, headers, Bytes::from(body)).await?;
    answer.error_for_status().await.with_context(|| path.to_owned())?.bytes().await?;
    Ok(())
}

/// Size of the response in bytes.
async fn read(client: &Client, path: &str, accept: &'static str) -> Result<usize> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    let answer = client.request(Method::GET, path, headers, Bytes::new()).await?;
    let mut answer = answer.error_for_status().await.with_context(|| path.to_owned())?;
    let mut size = 0;
    while let Some(chunk) = answer.chunk().await? {
        size += chunk.len();
    }
    Ok(size)
}

fn pod(at: u32) -> String {
    let app = at % 10;
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{at}","labels":{{"app":"a{app}"}}}},
        "spec":{{"containers":[{{"name":"c","image":"i","env":[{{"name":"A","value":"b"}}],
        "resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}}}}}}]}}}}"#
    )
}
