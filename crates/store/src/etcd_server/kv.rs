//! The `KV` service of etcd: ranges, writes, transactions, compaction.

use std::{pin::Pin, sync::atomic::Ordering};

use prost::Message as _;
use tokio_stream::Stream;
use tonic::{Code, Request, Response, Status};

use super::{
    requests::{self, validate},
    service::Service,
};
use crate::wire::pb::{self, kv_server::Kv};

/// Approximate size in bytes of one message of a range stream.
const PART: usize = 512 << 10;

type Parts = Pin<Box<dyn Stream<Item = Result<pb::RangeStreamResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Kv for Service {
    async fn range(
        &self,
        request: Request<pb::RangeRequest>,
    ) -> Result<Response<pb::RangeResponse>, Status> {
        let request = request.into_inner();
        validate::range(&request)?;
        self.member.metrics.ranges.fetch_add(1, Ordering::Relaxed);
        let (response, revision) = self
            .member
            .read(|state| (requests::range(state, &request, state.durable), state.durable));
        let header = self.header_at(revision);
        Ok(Response::new(pb::RangeResponse { header, ..response? }))
    }

    type RangeStreamStream = Parts;

    async fn range_stream(
        &self,
        request: Request<pb::RangeRequest>,
    ) -> Result<Response<Parts>, Status> {
        let request = request.into_inner();
        validate::range(&request)?;
        if request.sort_order != 0 || request.sort_target != 0 {
            let what = "RangeStream does not support custom sort orders";
            return Err(Status::unimplemented(what));
        }
        let bounds = [request.min_mod_revision, request.max_mod_revision];
        if bounds
            .into_iter()
            .chain([request.min_create_revision, request.max_create_revision])
            .any(|b| b != 0)
        {
            return Err(Status::unimplemented("RangeStream does not support revision filters"));
        }
        let mut whole = self.range(Request::new(request)).await?.into_inner();
        let mut parts = Vec::new();
        let mut rest = std::mem::take(&mut whole.kvs).into_iter().peekable();
        while rest.peek().is_some() {
            let mut size = 0;
            let mut part = pb::RangeResponse::default();
            while size < PART
                && let Some(kv) = rest.next()
            {
                size += kv.encoded_len();
                part.kvs.push(kv);
            }
            parts.push(part);
        }
        let last = parts.pop().unwrap_or_default();
        parts.push(pb::RangeResponse { kvs: last.kvs, ..whole });
        let parts = parts
            .into_iter()
            .map(|part| Ok(pb::RangeStreamResponse { range_response: Some(part) }));
        Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
    }

    async fn put(
        &self,
        request: Request<pb::PutRequest>,
    ) -> Result<Response<pb::PutResponse>, Status> {
        let request = request.into_inner();
        validate::put(&request)?;
        self.fits(request.encoded_len())?;
        self.member.metrics.puts.fetch_add(1, Ordering::Relaxed);
        let (response, revision) = self
            .member
            .write(|state| Ok((requests::put(state, request.clone())?, state.now())))
            .await?;
        let header = self.header_at(revision);
        Ok(Response::new(pb::PutResponse { header, ..response }))
    }

    async fn delete_range(
        &self,
        request: Request<pb::DeleteRangeRequest>,
    ) -> Result<Response<pb::DeleteRangeResponse>, Status> {
        let request = request.into_inner();
        validate::key(&request.key)?;
        self.member.metrics.deletions.fetch_add(1, Ordering::Relaxed);
        let (response, revision) = self
            .member
            .write(|state| Ok((requests::delete(state, request.clone()), state.now())))
            .await?;
        let header = self.header_at(revision);
        Ok(Response::new(pb::DeleteRangeResponse { header, ..response }))
    }

    async fn txn(
        &self,
        request: Request<pb::TxnRequest>,
    ) -> Result<Response<pb::TxnResponse>, Status> {
        let request = request.into_inner();
        validate::txn(&request, self.limits.operations)?;
        self.fits(request.encoded_len())?;
        self.member.metrics.transactions.fetch_add(1, Ordering::Relaxed);
        let (response, revision) = self
            .member
            .write(|state| Ok((requests::txn(state, request.clone())?, state.now())))
            .await?;
        let header = self.header_at(revision);
        Ok(Response::new(pb::TxnResponse { header, ..response }))
    }

    async fn compact(
        &self,
        request: Request<pb::CompactionRequest>,
    ) -> Result<Response<pb::CompactionResponse>, Status> {
        let revision = u64::try_from(request.into_inner().revision).unwrap_or_default();
        self.member.write(|state| state.compact(revision)).await?;
        Ok(Response::new(pb::CompactionResponse { header: self.header() }))
    }
}

/// The error for operations that need a cluster of several members.
pub(super) fn refused(what: &str) -> Status {
    let why = format!(
        "etcdserver: {what} is not possible: this is a single member; for a cluster of several, run etcd \
         itself and give the API server its --etcd-servers"
    );
    Status::new(Code::Unimplemented, why)
}
