//! etcd's protobuf messages and gRPC services, generated from `proto/` at build time.

/// Keys, values and events.
#[allow(clippy::all, clippy::pedantic, missing_debug_implementations, unreachable_pub)]
pub mod mvccpb {
    tonic::include_proto!("mvccpb");
}

/// Requests and responses.
#[allow(clippy::all, clippy::pedantic, missing_debug_implementations, unreachable_pub)]
pub mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}

pub use self::{etcdserverpb as pb, mvccpb::KeyValue};

/// The protobuf descriptors, for the JSON gateway.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors"));

/// A revision as the signed number that messages contain.
pub(crate) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The end of the range of all keys that begin with `prefix`.
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0] // everything from here on
}
