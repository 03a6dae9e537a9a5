//! Scalability of writes: CPU time of a write with a growing number of objects of the same kind, and of watches that
//! the write does not affect.

use std::time::Duration;

use anyhow::{Result, ensure};
use client::Client;
use http::StatusCode;
use tokio::task::JoinSet;

use crate::{
    line::{Http2Connection, WatchStream},
    peer::ServerUnderTest,
    watches::{client, make, patch},
};

const CLIENTS: u32 = 32;
/// Number of writes that are measured.
const WRITES: u32 = 4_000;
/// Number of watches on one connection.
const WATCHES_PER_CONNECTION: usize = 1_000;

/// Measures writes with a growing number of objects.
pub(crate) async fn objects(peer: ServerUnderTest, most: u32) -> Result<()> {
    let clients: Vec<Client> = (0..CLIENTS).map(|_| client(&peer)).collect();
    let mut made = 0;
    println!("{:<28} {:>12}", "objects of the kind", "CPU a write");
    for count in [1_000, 10_000, 50_000, 200_000] {
        let count = most.min(count);
        spread(&clients, made..count, |client, at| async move {
            make(&client, &format!("o{at}")).await
        })
        .await?;
        made = made.max(count);
        println!("{count:<28} {:>12}", measure_writes(&peer, &clients, count).await?);
        if count == most {
            break;
        }
    }
    peer.stop();
    Ok(())
}

/// Measures writes with a growing number of watches of other objects.
pub(crate) async fn watchers(peer: ServerUnderTest) -> Result<()> {
    let clients: Vec<Client> = (0..CLIENTS).map(|_| client(&peer)).collect();
    spread(&clients, 0..1_000, |client, at| async move { make(&client, &format!("o{at}")).await })
        .await?;
    println!("{:<28} {:>12}", "watchers of other objects", "CPU a write");
    let mut open: Vec<(Http2Connection, Vec<WatchStream>)> = Vec::new();
    let since = patch(&clients[0], "o0", r#"{"data":{"n":"first"}}"#).await?;
    for count in [0, 1_000, 10_000] {
        while open.len() * WATCHES_PER_CONNECTION < count {
            let mut line = Http2Connection::open(peer.port, &peer.token).await?;
            let mut watches = Vec::new();
            for number in 0..WATCHES_PER_CONNECTION {
                let path = format!(
                    "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={since}&\
                     fieldSelector=metadata.name%3Dother-{}-{number}",
                    open.len()
                );
                let (status, watch) = line.watch(&path).await?;
                ensure!(status == StatusCode::OK, "{status}");
                watches.push(watch);
            }
            open.push((line, watches));
        }
        println!("{count:<28} {:>12}", measure_writes(&peer, &clients, 1_000).await?);
    }
    peer.stop();
    Ok(())
}

/// The server's CPU time per write, averaged over many.
async fn measure_writes(peer: &ServerUnderTest, clients: &[Client], count: u32) -> Result<String> {
    let before = peer.usage().cpu;
    spread(clients, 0..WRITES, move |client, at| async move {
        let name = format!("o{}", at.wrapping_mul(7919) % count);
        let body = format!(r#"{{"data":{{"n":"{at}"}}}}"#);
        patch(&client, &name, &body).await.map(drop)
    })
    .await?;
    let each: Duration = peer.usage().cpu.saturating_sub(before) / WRITES;
    Ok(format!("{:.3} ms", each.as_secs_f64() * 1e3))
}

/// Distributes numbers among the clients, which work concurrently.
async fn spread<F>(
    clients: &[Client],
    numbers: std::ops::Range<u32>,
    work: impl Fn(Client, u32) -> F + Copy + Send + 'static,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (first, client) in (numbers.start..).zip(clients) {
        let (client, end) = (client.clone(), numbers.end);
        tasks.spawn(async move {
            for at in (first..end).step_by(CLIENTS as usize) {
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
