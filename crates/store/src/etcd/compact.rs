//! Background tasks of the etcd engine: compaction, health probes and the database size.

use std::{
    fmt,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{EtcdShared, REQUEST_TIMEOUT};
use crate::{
    Error,
    wire::pb::{
        self, compare, maintenance_client::MaintenanceClient, request_op::Request,
        response_op::Response,
    },
};

/// The API server that first changes this key compacts, and the others wait for the next interval. Upstream's API
/// servers use the same key, so both can share an etcd.
const KEY: &[u8] = b"compact_rev_key";

/// Interval of the health probes.
const PROBE: Duration = Duration::from_secs(2);

/// Probes etcd. `patience` holds the response times after which it counts as unhealthy, and as not ready.
pub(super) async fn probe<V: fmt::Debug + Send + Sync + 'static>(
    shared: Arc<EtcdShared<V>>,
    patience: [Duration; 2],
) {
    loop {
        tokio::time::sleep(PROBE).await;
        let began = Instant::now();
        let asked = tokio::time::timeout(patience[0].max(patience[1]), shared.newest()).await;
        let (took, late) = (began.elapsed(), "context deadline exceeded");
        let said = asked.unwrap_or_else(|_| Err(Error::Unavailable(late.to_owned())));
        let said = said.err().map(|error| error.to_string());
        for (trouble, within) in
            [&shared.health_error, &shared.readiness_error].into_iter().zip(patience)
        {
            let late = (took > within).then(|| late.to_owned());
            *trouble.lock().unwrap_or_else(PoisonError::into_inner) = said.clone().or(late);
        }
    }
}

/// Queries the database size at an interval.
pub(super) async fn poll_db_size<V: fmt::Debug + Send + Sync + 'static>(
    shared: Arc<EtcdShared<V>>,
    interval: Duration,
) {
    loop {
        let mut client = MaintenanceClient::new(shared.endpoints.current().1);
        let asked =
            tokio::time::timeout(REQUEST_TIMEOUT, client.status(pb::StatusRequest {})).await;
        if let Ok(Ok(status)) = asked {
            let size = u64::try_from(status.into_inner().db_size).unwrap_or_default();
            shared.size.store(size, Ordering::Release);
        }
        tokio::time::sleep(interval).await;
    }
}

/// Compacts at each interval up to the revision of the previous interval.
pub(super) async fn compact<V: fmt::Debug + Send + Sync + 'static>(
    shared: Arc<EtcdShared<V>>,
    interval: Duration,
) {
    let (mut turn, mut revision) = (0, 0);
    loop {
        tokio::time::sleep(interval).await;
        match once(&shared, turn, revision).await {
            Ok((next, newest)) => (turn, revision) = (next, newest),
            Err(error) => warn!(%error, "cannot compact"),
        }
    }
}

/// Compacts once if this server wins. Returns the next version of the compaction key, and the newest revision.
async fn once<V: fmt::Debug + Send + Sync + 'static>(
    shared: &EtcdShared<V>,
    turn: i64,
    revision: i64,
) -> Result<(i64, i64), Error> {
    let key = Bytes::from_static(KEY);
    let operation = |request| vec![pb::RequestOp { request: Some(request) }];
    let put = pb::PutRequest {
        key: key.clone(),
        value: revision.to_string().into(),
        ..Default::default()
    };
    let look = pb::RangeRequest { key: key.clone(), ..Default::default() };
    let request = pb::TxnRequest {
        compare: vec![pb::Compare {
            target: compare::CompareTarget::Version.into(),
            key,
            target_union: Some(compare::TargetUnion::Version(turn)),
            ..Default::default()
        }],
        success: operation(Request::RequestPut(put)),
        failure: operation(Request::RequestRange(look)),
    };
    let answer = shared.endpoints.write(Instant::now() + REQUEST_TIMEOUT, |mut kv| {
        let request = request.clone();
        async move { kv.txn(request).await }
    });
    let answer = answer.await?;
    let newest = answer.header.map_or(0, |header| header.revision);
    if !answer.succeeded {
        let seen = answer.responses.into_iter().find_map(|response| match response.response? {
            Response::ResponseRange(range) => range.kvs.first().map(|kv| kv.version),
            _ => None,
        });
        return Ok((seen.unwrap_or_default(), newest));
    }
    if revision > 0 {
        let request = pb::CompactionRequest { revision, physical: false };
        let until = Instant::now() + REQUEST_TIMEOUT;
        let done = shared.endpoints.write(until, |mut kv| async move { kv.compact(request).await });
        match done.await {
            Ok(_) => info!(revision, "compacted"),
            Err(error) => warn!(revision, %error, "cannot compact"), // another server may have done so
        }
    }
    Ok((turn + 1, newest))
}
