//! Protobuf by field number: one codec for every kind, driven by its shape.
//!
//! Upstream writes every field that is no pointer, be it empty or not, in the
//! order of the numbers, and maps by key: the same object has the same bytes.

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

/// What stands before every message: stored bytes and bodies alike.
pub const MAGIC: &[u8] = b"k8s\0";
