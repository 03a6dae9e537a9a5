//! Execution of KV requests, single and in transactions.

use std::cmp::Ordering;

use bytes::Bytes;
use prost::Message as _;

use super::{fault::EtcdError, keyspace::Version, range::Range, state::State};
use crate::wire::{
    KeyValue,
    pb::{self, compare, request_op::Request, response_op::Response},
    to_i64,
};

/// Maximum nesting depth of transactions.
const DEPTH: usize = 16;

/// The result of a range request, borrowed from the state.
struct RangeResult<'a> {
    versions: Vec<(&'a Bytes, &'a Version)>,
    count: i64,
    more: bool,
}

/// Evaluates a range request at its own revision, or at `now`.
fn find<'a>(
    state: &'a State,
    request: &pb::RangeRequest,
    now: u64,
) -> Result<RangeResult<'a>, EtcdError> {
    let at = revision(state, request.revision, now)?;
    let range = Range::new(request.key.clone(), request.range_end.clone());
    if request.count_only {
        let count = i64::try_from(state.keys.count(&range, at)).unwrap_or(i64::MAX);
        return Ok(RangeResult { versions: Vec::new(), count, more: false });
    }
    let sorts = sorts(request);
    let limit =
        usize::try_from(request.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let (mut versions, mut count, mut more) = (Vec::new(), 0, false);
    for found in state.keys.range(&range, at) {
        count += 1;
        if within(request, found.1) {
            if versions.len() < limit || sorts {
                versions.push(found);
            } else {
                more = true;
            }
        }
    }
    if sorts {
        sort(request, &mut versions);
        more = versions.len() > limit;
        versions.truncate(limit);
    }
    Ok(RangeResult { versions, count, more })
}

/// A range response as encoded entries, with the total count and whether there are more.
pub(super) fn entries(
    state: &mut State,
    request: &pb::RangeRequest,
) -> Result<(Vec<Bytes>, i64, bool), EtcdError> {
    let pb::RangeRequest { key, range_end, .. } = request;
    let plain = pb::RangeRequest {
        key: key.clone(),
        range_end: range_end.clone(),
        serializable: request.serializable,
        ..Default::default()
    };
    let now = state.durable;
    if *request == plain && !range_end.is_empty() {
        let (entries, count) = state.keys.entries(&Range::new(plain.key, plain.range_end), now);
        return Ok((entries, i64::try_from(count).unwrap_or(i64::MAX), false));
    }
    let RangeResult { versions, count, more } = find(state, request, now)?;
    let entry = |(key, version): (&Bytes, &Version)| {
        if !request.keys_only {
            return version.encoded.clone();
        }
        let kvs = vec![KeyValue { value: Bytes::new(), ..version.to_key_value(key) }];
        pb::RangeResponse { kvs, ..Default::default() }.encode_to_vec().into()
    };
    Ok((versions.into_iter().map(entry).collect(), count, more))
}

/// A range response as a message.
pub(super) fn range(
    state: &State,
    request: &pb::RangeRequest,
    now: u64,
) -> Result<pb::RangeResponse, EtcdError> {
    let RangeResult { versions, count, more } = find(state, request, now)?;
    let shown = |(key, version): (&Bytes, &Version)| {
        let kv = version.to_key_value(key);
        if request.keys_only { KeyValue { value: Bytes::new(), ..kv } } else { kv }
    };
    let kvs = versions.into_iter().map(shown).collect();
    Ok(pb::RangeResponse { header: None, kvs, more, count })
}

pub(super) fn put(
    state: &mut State,
    request: pb::PutRequest,
) -> Result<pb::PutResponse, EtcdError> {
    let pb::PutRequest { key, mut value, mut lease, prev_kv, ignore_value, ignore_lease } = request;
    if ignore_value || ignore_lease {
        let before = state.keys.at(&key, state.now()).ok_or(EtcdError::KeyNotFound)?;
        if ignore_value {
            value = before.value.clone().unwrap_or_default();
        }
        if ignore_lease {
            lease = before.lineage.lease;
        }
    }
    let before = state.put(&key, &value, lease)?;
    let prev_kv = before.filter(|_| prev_kv).map(|before| before.to_key_value(&key));
    Ok(pb::PutResponse { header: None, prev_kv })
}

pub(super) fn delete(
    state: &mut State,
    request: pb::DeleteRangeRequest,
) -> pb::DeleteRangeResponse {
    let gone = state.delete(&Range::new(request.key, request.range_end));
    let deleted = i64::try_from(gone.len()).unwrap_or(i64::MAX);
    let shown =
        gone.iter().filter(|_| request.prev_kv).map(|(key, version)| version.to_key_value(key));
    pb::DeleteRangeResponse { header: None, deleted, prev_kvs: shown.collect() }
}

/// Executes a transaction. Every comparison, of nested transactions too, is made before anything is written.
pub(super) fn txn(
    state: &mut State,
    request: pb::TxnRequest,
) -> Result<pb::TxnResponse, EtcdError> {
    let mut path = Vec::new();
    choose(state, &request, &mut path);
    apply(state, request, &mut path.into_iter())
}

/// Validation of requests that needs no access to keys.
pub(super) mod validate {
    use super::{DEPTH, EtcdError, Range, Request, pb};

    pub(in crate::etcd_server) fn range(request: &pb::RangeRequest) -> Result<(), EtcdError> {
        let known = pb::range_request::SortOrder::try_from(request.sort_order).is_ok()
            && pb::range_request::SortTarget::try_from(request.sort_target).is_ok();
        key(&request.key)?;
        if known { Ok(()) } else { Err(EtcdError::InvalidSort) }
    }

    pub(in crate::etcd_server) fn put(request: &pb::PutRequest) -> Result<(), EtcdError> {
        key(&request.key)?;
        if request.ignore_value && !request.value.is_empty() {
            Err(EtcdError::ValueProvided)
        } else if request.ignore_lease && request.lease != 0 {
            Err(EtcdError::LeaseProvided)
        } else {
            Ok(())
        }
    }

    pub(in crate::etcd_server) fn key(key: &[u8]) -> Result<(), EtcdError> {
        if key.is_empty() { Err(EtcdError::EmptyKey) } else { Ok(()) }
    }

    pub(in crate::etcd_server) fn txn(
        request: &pb::TxnRequest,
        operations: usize,
    ) -> Result<(), EtcdError> {
        shape(request, operations, DEPTH)?;
        changes(&request.success)?;
        changes(&request.failure).map(drop)
    }

    fn shape(request: &pb::TxnRequest, operations: usize, depth: usize) -> Result<(), EtcdError> {
        let pb::TxnRequest { compare, success, failure } = request;
        let count = compare.len().max(success.len()).max(failure.len());
        let left = operations.checked_sub(count).ok_or(EtcdError::TooManyOps)?;
        compare.iter().try_for_each(|compare| key(&compare.key))?;
        for operation in success.iter().chain(failure) {
            match operation.request.as_ref().ok_or(EtcdError::KeyNotFound)? {
                Request::RequestRange(request) => range(request)?,
                Request::RequestPut(request) => put(request)?,
                Request::RequestDeleteRange(request) => key(&request.key)?,
                Request::RequestTxn(_) if depth == 0 => return Err(EtcdError::TooManyOps),
                Request::RequestTxn(request) => shape(request, left, depth - 1)?,
            }
        }
        Ok(())
    }

    /// The keys that are put and the ranges that are deleted. It is an error if a key is put twice, or both put and
    /// deleted.
    fn changes(operations: &[pb::RequestOp]) -> Result<(Vec<Range>, Vec<Range>), EtcdError> {
        let (mut puts, mut deletions): (Vec<Range>, Vec<Range>) = Default::default();
        for request in operations.iter().filter_map(|operation| operation.request.as_ref()) {
            if let Request::RequestDeleteRange(pb::DeleteRangeRequest { key, range_end, .. }) =
                request
            {
                deletions.push(Range::new(key.clone(), range_end.clone()));
            }
        }
        let mut inner = Vec::new();
        for request in operations.iter().filter_map(|operation| operation.request.as_ref()) {
            let new = match request {
                Request::RequestPut(put) => vec![Range::new(put.key.clone(), bytes::Bytes::new())],
                Request::RequestTxn(txn) => {
                    // Only one of the two branches will be executed.
                    let (mut then, gone) = changes(&txn.success)?;
                    let (other, gone_too) = changes(&txn.failure)?;
                    then.extend(
                        other.into_iter().filter(|put| !then.contains(put)).collect::<Vec<_>>(),
                    );
                    inner.extend(gone.into_iter().chain(gone_too));
                    then
                }
                _ => continue,
            };
            let twice =
                |put: &Range| puts.contains(put) || deletions.iter().any(|gone| gone.meets(put));
            if new.iter().any(twice) {
                return Err(EtcdError::DuplicateKey);
            }
            puts.extend(new);
        }
        deletions.extend(inner);
        Ok((puts, deletions))
    }
}

fn choose(state: &State, request: &pb::TxnRequest, path: &mut Vec<bool>) {
    let holds = request.compare.iter().all(|compare| holds(state, compare));
    path.push(holds);
    let taken = if holds { &request.success } else { &request.failure };
    for request in taken.iter().filter_map(|operation| operation.request.as_ref()) {
        if let Request::RequestTxn(inner) = request {
            choose(state, inner, path);
        }
    }
}

fn apply(
    state: &mut State,
    request: pb::TxnRequest,
    path: &mut dyn Iterator<Item = bool>,
) -> Result<pb::TxnResponse, EtcdError> {
    let succeeded = path.next().unwrap_or_default();
    let taken = if succeeded { request.success } else { request.failure };
    let mut responses = Vec::with_capacity(taken.len());
    for request in taken.into_iter().filter_map(|operation| operation.request) {
        let response = match request {
            Request::RequestRange(request) => {
                Response::ResponseRange(range(state, &request, state.now())?)
            }
            Request::RequestPut(request) => Response::ResponsePut(put(state, request)?),
            Request::RequestDeleteRange(request) => {
                Response::ResponseDeleteRange(delete(state, request))
            }
            Request::RequestTxn(request) => Response::ResponseTxn(apply(state, request, path)?),
        };
        responses.push(pb::ResponseOp { response: Some(response) });
    }
    // Nested responses contain the revision too; it is the same for all of them.
    let revision = to_i64(state.now());
    let header = || Some(pb::ResponseHeader { revision, ..pb::ResponseHeader::default() });
    for response in responses.iter_mut().filter_map(|response| response.response.as_mut()) {
        match response {
            Response::ResponseRange(response) => response.header = header(),
            Response::ResponsePut(response) => response.header = header(),
            Response::ResponseDeleteRange(response) => response.header = header(),
            Response::ResponseTxn(response) => response.header = header(),
        }
    }
    Ok(pb::TxnResponse { header: None, succeeded, responses })
}

/// Whether a comparison holds for every existing key of its range. An empty range is compared as an absent key.
fn holds(state: &State, compare: &pb::Compare) -> bool {
    let range = Range::new(compare.key.clone(), compare.range_end.clone());
    let mut any = false;
    let all = state.keys.range(&range, state.now()).all(|(key, version)| {
        any = true;
        compares(compare, &version.to_key_value(key))
    });
    let value = compare.target() == compare::CompareTarget::Value;
    if any { all } else { !value && compares(compare, &KeyValue::default()) }
}

fn compares(compare: &pb::Compare, kv: &KeyValue) -> bool {
    use pb::compare::{CompareResult, CompareTarget, TargetUnion};
    let number = |target: CompareTarget| match (&compare.target_union, target) {
        (Some(TargetUnion::Version(number)), CompareTarget::Version)
        | (Some(TargetUnion::CreateRevision(number)), CompareTarget::Create)
        | (Some(TargetUnion::ModRevision(number)), CompareTarget::Mod)
        | (Some(TargetUnion::Lease(number)), CompareTarget::Lease) => *number,
        _ => 0,
    };
    let target = compare.target();
    let order = match target {
        CompareTarget::Version => kv.version.cmp(&number(target)),
        CompareTarget::Create => kv.create_revision.cmp(&number(target)),
        CompareTarget::Mod => kv.mod_revision.cmp(&number(target)),
        CompareTarget::Lease => kv.lease.cmp(&number(target)),
        CompareTarget::Value => match &compare.target_union {
            Some(TargetUnion::Value(value)) => kv.value.cmp(value),
            _ => kv.value.cmp(&Bytes::new()),
        },
    };
    match compare.result() {
        CompareResult::Equal => order == Ordering::Equal,
        CompareResult::NotEqual => order != Ordering::Equal,
        CompareResult::Greater => order == Ordering::Greater,
        CompareResult::Less => order == Ordering::Less,
    }
}

/// The revision to read at.
fn revision(state: &State, asked: i64, now: u64) -> Result<u64, EtcdError> {
    match u64::try_from(asked).unwrap_or_default() {
        0 => Ok(now),
        asked if asked > now => Err(EtcdError::Future),
        asked if asked < state.keys.compact_revision => Err(EtcdError::Compacted),
        asked => Ok(asked),
    }
}

fn within(request: &pb::RangeRequest, version: &Version) -> bool {
    let (revision, created) =
        (to_i64(version.lineage.mod_revision), to_i64(version.lineage.create_revision));
    let least = |bound: i64, number: i64| bound == 0 || number >= bound;
    let most = |bound: i64, number: i64| bound == 0 || number <= bound;
    least(request.min_mod_revision, revision)
        && most(request.max_mod_revision, revision)
        && least(request.min_create_revision, created)
        && most(request.max_create_revision, created)
}

/// Whether the request asks for another order than that of the keys.
fn sorts(request: &pb::RangeRequest) -> bool {
    use pb::range_request::{SortOrder, SortTarget};
    request.sort_order() == SortOrder::Descend || request.sort_target() != SortTarget::Key
}

fn sort(request: &pb::RangeRequest, found: &mut [(&Bytes, &Version)]) {
    use pb::range_request::{SortOrder, SortTarget};
    match request.sort_target() {
        SortTarget::Key => found.sort_by(|a, b| a.0.cmp(b.0)),
        SortTarget::Version => found.sort_by_key(|(_, version)| version.lineage.version),
        SortTarget::Create => found.sort_by_key(|(_, version)| version.lineage.create_revision),
        SortTarget::Mod => found.sort_by_key(|(_, version)| version.lineage.mod_revision),
        SortTarget::Value => found.sort_by(|a, b| a.1.value.cmp(&b.1.value)),
    }
    if request.sort_order() == SortOrder::Descend {
        found.reverse();
    }
}
