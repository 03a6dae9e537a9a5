//! The fast path for KV calls: decoded, executed and answered without a future per call.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use prost::Message;
use tonic::Status;

use super::{
    fault::EtcdError,
    http2::WriteBuffer,
    member::StateGuard,
    requests::{self, validate},
    service::Service,
};
use crate::wire::pb;

/// A method of the `KV` service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum KvMethod {
    Range,
    Put,
    DeleteRange,
    Txn,
    Compact,
}

impl KvMethod {
    pub(super) fn of(path: &[u8]) -> Option<Self> {
        match path.strip_prefix(b"/etcdserverpb.KV/")? {
            b"Range" => Some(Self::Range),
            b"Put" => Some(Self::Put),
            b"DeleteRange" => Some(Self::DeleteRange),
            b"Txn" => Some(Self::Txn),
            b"Compact" => Some(Self::Compact),
            _ => None,
        }
    }
}

/// A decoded request of the `KV` service.
#[derive(Clone, Debug)]
pub(super) enum KvRequest {
    Range(pb::RangeRequest),
    Put(pb::PutRequest),
    DeleteRange(pb::DeleteRangeRequest),
    /// The request, and its encoded size in bytes.
    Txn(pb::TxnRequest, usize),
    Compact(pb::CompactionRequest),
}

impl KvRequest {
    pub(super) fn decode(method: KvMethod, message: &[u8]) -> Result<Self, Status> {
        let call = match method {
            KvMethod::Range => pb::RangeRequest::decode(message).map(Self::Range),
            KvMethod::Put => pb::PutRequest::decode(message).map(Self::Put),
            KvMethod::DeleteRange => pb::DeleteRangeRequest::decode(message).map(Self::DeleteRange),
            KvMethod::Txn => {
                pb::TxnRequest::decode(message).map(|request| Self::Txn(request, message.len()))
            }
            KvMethod::Compact => pb::CompactionRequest::decode(message).map(Self::Compact),
        };
        call.map_err(|error| Status::internal(format!("invalid message: {error}")))
    }
}

/// A response that is encoded while it is sent, in pieces if it is long.
#[derive(Debug)]
pub(super) struct KvResponse {
    /// Whether the call was executed with the space reserved for a full disk.
    pub(super) used_reserve: bool,
    left: usize,
    /// The encoded start of the message, and the position to write next.
    encoded: Vec<u8>,
    at: usize,
    /// The data that follows it.
    value: Bytes,
    entries: std::vec::IntoIter<Bytes>,
    last: Vec<u8>,
}

impl KvResponse {
    fn new(spare: bool, message: &impl Message) -> Self {
        let mut encoded = begin(message.encoded_len());
        message.encode(&mut encoded).expect("a vector takes all");
        Self::of(spare, encoded.len(), encoded, Vec::new(), Vec::new())
    }

    /// A range response. Its entries were encoded when they were written, and are sent without copying.
    fn range(
        header: Option<pb::ResponseHeader>,
        entries: Vec<Bytes>,
        count: i64,
        more: bool,
    ) -> Self {
        let first = pb::RangeResponse { header, ..Default::default() }.encode_to_vec();
        let last = pb::RangeResponse { more, count, ..Default::default() }.encode_to_vec();
        let length = first.len() + entries.iter().map(Bytes::len).sum::<usize>() + last.len();
        let mut encoded = begin(length);
        encoded.extend_from_slice(&first);
        Self::of(false, 5 + length, encoded, entries, last)
    }

    fn of(spare: bool, left: usize, encoded: Vec<u8>, entries: Vec<Bytes>, last: Vec<u8>) -> Self {
        let (value, entries) = (Bytes::new(), entries.into_iter());
        Self { used_reserve: spare, left, encoded, at: 0, value, entries, last }
    }

    /// Number of bytes still to write.
    pub(super) fn len(&self) -> usize {
        self.left
    }

    /// Writes `count` bytes of it.
    pub(super) fn write(&mut self, out: &mut WriteBuffer, count: usize) {
        let mut room = count.min(self.left);
        self.left -= room;
        while room > 0 {
            if self.at < self.encoded.len() {
                let part = &self.encoded[self.at..];
                let part = &part[..part.len().min(room)];
                out.bytes.extend_from_slice(part);
                self.at += part.len();
                room -= part.len();
            } else if !self.value.is_empty() {
                let part = self.value.split_to(self.value.len().min(room));
                room -= part.len();
                out.value(part);
            } else if let Some(entry) = self.entries.next() {
                self.value = entry;
            } else {
                (self.encoded, self.at) = (std::mem::take(&mut self.last), 0);
            }
        }
    }
}

/// The prefix of a gRPC message: not compressed, and its length.
fn begin(length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(5 + length.min(64 << 10));
    out.push(0);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    out
}

impl Service {
    /// Executes a call. Returns the response, and the log position that must be durable before it is sent.
    pub(super) fn execute(
        &self,
        turn: &mut StateGuard<'_>,
        call: &KvRequest,
        spare: bool,
    ) -> Result<(KvResponse, Option<u64>), EtcdError> {
        let metrics = &self.member.metrics;
        let counted = |counter: &std::sync::atomic::AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        match call {
            KvRequest::Range(request) => {
                validate::range(request)?;
                counted(&metrics.ranges);
                let state = turn.state_mut();
                let (entries, count, more) = requests::entries(state, request)?;
                Ok((KvResponse::range(self.header_at(state.durable), entries, count, more), None))
            }
            KvRequest::Put(request) => {
                validate::put(request)?;
                let size = request.key.len() + request.value.len();
                self.fits(size)?;
                counted(&metrics.puts);
                let ((mut response, now), position) = turn.execute(spare, |state| {
                    Ok((requests::put(state, request.clone())?, state.now()))
                })?;
                response.header = self.header_at(now);
                Ok((KvResponse::new(spare, &response), position))
            }
            KvRequest::DeleteRange(request) => {
                validate::key(&request.key)?;
                counted(&metrics.deletions);
                let ((mut response, now), position) = turn.execute(spare, |state| {
                    Ok((requests::delete(state, request.clone()), state.now()))
                })?;
                response.header = self.header_at(now);
                Ok((KvResponse::new(spare, &response), position))
            }
            KvRequest::Txn(request, size) => {
                validate::txn(request, self.limits.operations)?;
                self.fits(*size)?;
                counted(&metrics.transactions);
                let ((mut response, now), position) = turn.execute(spare, |state| {
                    Ok((requests::txn(state, request.clone())?, state.now()))
                })?;
                response.header = self.header_at(now);
                Ok((KvResponse::new(spare, &response), position))
            }
            KvRequest::Compact(request) => {
                let revision = u64::try_from(request.revision).unwrap_or_default();
                let (now, position) = turn.execute(spare, |state| {
                    state.compact(revision)?;
                    Ok(state.now())
                })?;
                let header = self.header_at(now);
                Ok((KvResponse::new(spare, &pb::CompactionResponse { header }), position))
            }
        }
    }

    pub(super) fn fits(&self, size: usize) -> Result<(), EtcdError> {
        if size > self.limits.request_bytes { Err(EtcdError::TooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::KeyValue;

    #[test]
    fn a_range_is_encoded_as_others_do_it_in_pieces_of_any_size() {
        let kv = |nth: usize| KeyValue {
            key: format!("/k/{nth}").into(),
            mod_revision: 7,
            value: vec![7; nth * 400].into(),
            ..Default::default()
        };
        let header =
            Some(pb::ResponseHeader { revision: 9, cluster_id: 1 << 60, ..Default::default() });
        let kvs: Vec<_> = (0..20).map(kv).collect();
        let entry = |kv: &KeyValue| {
            let one = pb::RangeResponse { kvs: vec![kv.clone()], ..Default::default() };
            Bytes::from(one.encode_to_vec())
        };
        let entries: Vec<_> = kvs.iter().map(entry).collect();
        let whole = pb::RangeResponse { header, kvs, more: true, count: 77 };
        for size in [1, 2, 7, 1_000, 1 << 20] {
            let mut reply = KvResponse::range(header, entries.clone(), 77, true);
            let (mut parts, mut out, length) = (WriteBuffer::default(), Vec::new(), reply.len());
            while reply.len() > 0 {
                reply.write(&mut parts, size);
            }
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(parts.write(std::pin::Pin::new(&mut out), &mut cx).unwrap());
            assert_eq!((out.len(), &out[..1]), (length, &[0][..]));
            assert_eq!(out[1..5], u32::try_from(length - 5).unwrap().to_be_bytes());
            assert_eq!(pb::RangeResponse::decode(&out[5..]).unwrap(), whole);
        }
    }

    #[test]
    fn nonsense_is_no_call() {
        assert_eq!(KvMethod::of(b"/etcdserverpb.KV/RangeStream"), None);
        assert_eq!(KvMethod::of(b"/etcdserverpb.Watch/Watch"), None);
        for method in [
            KvMethod::Range,
            KvMethod::Put,
            KvMethod::DeleteRange,
            KvMethod::Txn,
            KvMethod::Compact,
        ] {
            assert!(KvRequest::decode(method, &[0xff; 9]).is_err());
            assert!(KvRequest::decode(method, &[]).is_ok());
        }
    }
}
