//! Saves and restores snapshots of a running etcd.

use std::{fs::File, io::Write as _};

use bytes::Bytes;
use tokio::time::{Instant, timeout};
use tokio_stream::StreamExt as _;

use super::{EtcdConfig, REQUEST_TIMEOUT, endpoints::Endpoints, store_error};
use crate::{
    Error,
    archive::EtcdSnapshot,
    wire::pb::{self, maintenance_client::MaintenanceClient, request_op::Request},
};

/// Number of keys per transaction, below etcd's limit.
const AT_ONCE: usize = 64;
/// Approximate number of bytes per transaction.
const BYTES: usize = 512 << 10;

/// Saves a snapshot of etcd to a file.
pub async fn save(remote: &EtcdConfig, out: &mut File) -> Result<(), Error> {
    let endpoints = Endpoints::new(remote)?;
    let late = |_| Error::Unavailable("etcd did not answer in time".to_owned());
    let mut client =
        MaintenanceClient::new(endpoints.current().1).max_decoding_message_size(usize::MAX);
    let parts =
        timeout(REQUEST_TIMEOUT, client.snapshot(pb::SnapshotRequest {})).await.map_err(late)?;
    let mut parts = parts.map_err(|status| store_error(&status))?.into_inner();
    while let Some(part) = timeout(REQUEST_TIMEOUT * 6, parts.next()).await.map_err(late)? {
        let part = part.map_err(|status| store_error(&status))?;
        out.write_all(&part.blob)
            .map_err(|error| Error::Disk(format!("write the snapshot: {error}")))?;
    }
    out.sync_all().map_err(|error| Error::Disk(format!("write the snapshot: {error}")))
}

/// Writes the keys of a snapshot into an empty etcd. The revisions start again there.
pub async fn restore(archive: &EtcdSnapshot, remote: &EtcdConfig) -> Result<usize, Error> {
    let endpoints = Endpoints::new(remote)?;
    let all = Bytes::from_static(&[0]);
    let request = pb::RangeRequest {
        key: all.clone(),
        range_end: all,
        count_only: true,
        ..Default::default()
    };
    let there = endpoints.read(|mut kv| {
        let request = request.clone();
        async move { kv.range(request).await }
    });
    if there.await?.count > 0 {
        return Err(Error::Unavailable(
            "it holds keys already: restore into an empty one".to_owned(),
        ));
    }
    let (mut batch, mut bytes, mut count) = (Vec::new(), 0, 0);
    for (key, value) in archive.items() {
        if batch.len() == AT_ONCE || bytes + value.len() > BYTES {
            put(&endpoints, std::mem::take(&mut batch)).await?;
            bytes = 0;
        }
        bytes += value.len();
        count += 1;
        batch.push(pb::PutRequest { key: key.clone(), value: value.clone(), ..Default::default() });
    }
    put(&endpoints, batch).await?;
    Ok(count)
}

async fn put(endpoints: &Endpoints, batch: Vec<pb::PutRequest>) -> Result<(), Error> {
    let operation = |put| pb::RequestOp { request: Some(Request::RequestPut(put)) };
    let request = pb::TxnRequest {
        success: batch.into_iter().map(operation).collect(),
        ..Default::default()
    };
    let done = endpoints.write(Instant::now() + REQUEST_TIMEOUT, |mut kv| {
        let request = request.clone();
        async move { kv.txn(request).await }
    });
    done.await.map(drop)
}
