//! Protobuf codec for every kind, driven by its type schema and field numbers.
//!
//! Upstream writes every field that is not a pointer, even if it is empty, in the order of the
//! field numbers, and maps sorted by key: equal objects have equal bytes.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod decode;
mod encode;
mod wire;

pub use self::{
    decode::{decode, decode_envelope},
    encode::{
        ENVELOPE_TAIL, encode, encode_envelope, encode_event, encode_item_header, encode_list,
        encode_list_header, encode_partial_object_metadata,
    },
    wire::DecodeError,
};

/// The prefix of every message, in storage and in bodies.
pub const MAGIC: &[u8] = b"k8s\0";
