//! JSON decoder and encoder for `Value`, with Go's error messages.

mod read;
mod write;

pub use self::{
    read::{
        JsonError, StrictError, from_json, from_json_next, from_json_preserving_source,
        from_json_raw, from_json_strict, from_json_within,
    },
    write::{to_json, to_json_pretty, write_json, write_json_string},
};
