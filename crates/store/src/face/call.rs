//! The calls of `KV` as most clients make them: read, judged and answered without a
//! future of their own.

use std::sync::atomic::Ordering;

use bytes::{Buf as _, Bytes};
use prost::{
    Message,
    encoding::{encode_varint, encoded_len_varint},
};
use tonic::Status;

use super::{
    fault::Fault,
    member::Turn,
    requests::{self, check},
    service::Service,
};
use crate::wire::{KeyValue, pb};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Method {
    Range,
    Put,
    DeleteRange,
    Txn,
    Compact,
}

impl Method {
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

#[derive(Clone, Debug)]
pub(super) enum Call {
    Range(pb::RangeRequest),
    Put(pb::PutRequest),
    DeleteRange(pb::DeleteRangeRequest),
    /// The request, and its size.
    Txn(pb::TxnRequest, usize),
    Compact(pb::CompactionRequest),
}

impl Call {
    pub(super) fn decode(method: Method, message: &[u8]) -> Result<Self, Status> {
        let call = match method {
            Method::Range => pb::RangeRequest::decode(message).map(Self::Range),
            Method::Put => pb::PutRequest::decode(message).map(Self::Put),
            Method::DeleteRange => pb::DeleteRangeRequest::decode(message).map(Self::DeleteRange),
            Method::Txn => {
                pb::TxnRequest::decode(message).map(|request| Self::Txn(request, message.len()))
            }
            Method::Compact => pb::CompactionRequest::decode(message).map(Self::Compact),
        };
        call.map_err(|error| Status::internal(format!("a message makes no sense: {error}")))
    }
}

/// An answer that is encoded when it is sent, piece by piece if it is long.
#[derive(Debug)]
pub(super) struct Reply {
    /// Whether it was judged by what a full disk has left.
    pub(super) spare: bool,
    left: usize,
    /// What is encoded, and where it is written next.
    encoded: Vec<u8>,
    at: usize,
    /// What follows.
    value: Bytes,
    kvs: std::vec::IntoIter<KeyValue>,
    last: Vec<u8>,
}

impl Reply {
    fn new(spare: bool, message: &impl Message) -> Self {
        let mut encoded = begin(message.encoded_len());
        message.encode(&mut encoded).expect("a vector takes all");
        Self::of(spare, encoded.len(), encoded, Vec::new(), Vec::new())
    }

    /// A range is not encoded before it is sent: it may be large, and wait for long.
    fn range(response: pb::RangeResponse) -> Self {
        let kvs = response.kvs;
        let first = pb::RangeResponse { header: response.header, ..Default::default() };
        let last =
            pb::RangeResponse { more: response.more, count: response.count, ..Default::default() };
        let wrapped = |kv: &KeyValue| {
            let length = kv.encoded_len();
            1 + encoded_len_varint(length as u64) + length
        };
        let (first, last) = (first.encode_to_vec(), last.encode_to_vec());
        let length = first.len() + kvs.iter().map(wrapped).sum::<usize>() + last.len();
        let mut encoded = begin(length);
        encoded.extend_from_slice(&first);
        Self::of(false, 5 + length, encoded, kvs, last)
    }

    fn of(spare: bool, left: usize, encoded: Vec<u8>, kvs: Vec<KeyValue>, last: Vec<u8>) -> Self {
        Self { spare, left, encoded, at: 0, value: Bytes::new(), kvs: kvs.into_iter(), last }
    }

    /// How much there is still to write.
    pub(super) fn len(&self) -> usize {
        self.left
    }

    /// Writes that much of it.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, count: usize) {
        let end = out.len() + count.min(self.left);
        self.left -= count.min(self.left);
        while out.len() < end {
            let room = end - out.len();
            if self.at < self.encoded.len() {
                let part = &self.encoded[self.at..];
                let part = &part[..part.len().min(room)];
                out.extend_from_slice(part);
                self.at += part.len();
            } else if !self.value.is_empty() {
                let length = self.value.len().min(room);
                out.extend_from_slice(&self.value[..length]);
                self.value.advance(length);
            } else if let Some(kv) = self.kvs.next() {
                self.next(kv);
            } else {
                (self.encoded, self.at) = (std::mem::take(&mut self.last), 0);
            }
        }
    }

    /// Encodes all of the next but its value, which is sent from where it lies.
    fn next(&mut self, kv: KeyValue) {
        let out = &mut self.encoded;
        out.clear();
        self.at = 0;
        out.push(0x12); // kvs
        encode_varint(kv.encoded_len() as u64, out);
        let KeyValue { key, create_revision, mod_revision, version, value, lease } = kv;
        if !key.is_empty() {
            out.push(0x0a);
            encode_varint(key.len() as u64, out);
            out.extend_from_slice(&key);
        }
        let numbers =
            [(0x10, create_revision), (0x18, mod_revision), (0x20, version), (0x30, lease)];
        for (tag, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
            out.push(tag);
            encode_varint(number.cast_unsigned(), out);
        }
        if !value.is_empty() {
            out.push(0x2a); // the order of fields is free: the value comes last
            encode_varint(value.len() as u64, out);
        }
        self.value = value;
    }
}

/// The head of a message: it is not compressed, and so long.
fn begin(length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(5 + length.min(64 << 10));
    out.push(0);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    out
}

impl Service {
    /// Judges a call: its answer, and where the log must have come before that is told.
    pub(super) fn judge(
        &self,
        turn: &mut Turn<'_>,
        call: &Call,
        spare: bool,
    ) -> Result<(Reply, Option<u64>), Fault> {
        let metrics = &self.member.metrics;
        let counted = |counter: &std::sync::atomic::AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        match call {
            Call::Range(request) => {
                check::range(request)?;
                counted(&metrics.ranges);
                let state = turn.state();
                let mut response = requests::range(state, request, state.durable)?;
                response.header = self.header_at(state.durable);
                Ok((Reply::range(response), None))
            }
            Call::Put(request) => {
                check::put(request)?;
                let size = request.key.len() + request.value.len();
                self.fits(size)?;
                counted(&metrics.puts);
                let ((mut response, now), position) = turn.judge(spare, |state| {
                    Ok((requests::put(state, request.clone())?, state.now()))
                })?;
                response.header = self.header_at(now);
                Ok((Reply::new(spare, &response), position))
            }
            Call::DeleteRange(request) => {
                check::key(&request.key)?;
                counted(&metrics.deletions);
                let ((mut response, now), position) = turn.judge(spare, |state| {
                    Ok((requests::delete(state, request.clone()), state.now()))
                })?;
                response.header = self.header_at(now);
                Ok((Reply::new(spare, &response), position))
            }
            Call::Txn(request, size) => {
                check::txn(request, self.limits.operations)?;
                self.fits(*size)?;
                counted(&metrics.transactions);
                let ((mut response, now), position) = turn.judge(spare, |state| {
                    Ok((requests::txn(state, request.clone())?, state.now()))
                })?;
                response.header = self.header_at(now);
                Ok((Reply::new(spare, &response), position))
            }
            Call::Compact(request) => {
                let revision = u64::try_from(request.revision).unwrap_or_default();
                let (now, position) = turn.judge(spare, |state| {
                    state.compact(revision)?;
                    Ok(state.now())
                })?;
                let header = self.header_at(now);
                Ok((Reply::new(spare, &pb::CompactionResponse { header }), position))
            }
        }
    }

    pub(super) fn fits(&self, size: usize) -> Result<(), Fault> {
        if size > self.limits.request_bytes { Err(Fault::TooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_encoded_as_others_do_it_in_pieces_of_any_size() {
        let kv = |nth: i64| KeyValue {
            key: format!("/k/{nth}").into(),
            create_revision: nth,
            mod_revision: nth + 200,
            version: nth % 3,
            value: vec![7; usize::try_from(nth * 40).unwrap()].into(),
            lease: -nth,
        };
        let header =
            Some(pb::ResponseHeader { revision: 9, cluster_id: 1 << 60, ..Default::default() });
        let whole =
            pb::RangeResponse { header, kvs: (0..20).map(kv).collect(), more: true, count: 77 };
        for size in [1, 2, 7, 100, 1_000, 1 << 20] {
            let mut reply = Reply::range(whole.clone());
            let (mut out, length) = (Vec::new(), reply.len());
            while reply.len() > 0 {
                reply.write(&mut out, size);
            }
            assert_eq!((out.len(), &out[..1]), (length, &[0][..]));
            assert_eq!(out[1..5], u32::try_from(length - 5).unwrap().to_be_bytes());
            assert_eq!(pb::RangeResponse::decode(&out[5..]).unwrap(), whole);
        }
    }

    #[test]
    fn nonsense_is_no_call() {
        assert_eq!(Method::of(b"/etcdserverpb.KV/RangeStream"), None);
        assert_eq!(Method::of(b"/etcdserverpb.Watch/Watch"), None);
        for method in
            [Method::Range, Method::Put, Method::DeleteRange, Method::Txn, Method::Compact]
        {
            assert!(Call::decode(method, &[0xff; 9]).is_err());
            assert!(Call::decode(method, &[]).is_ok());
        }
    }
}
