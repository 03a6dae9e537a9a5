//! JSON, straight into a tree and out of it, with Go's words for what is wrong.

mod read;
mod write;

pub use self::{
    read::{
        JsonError, Odd, from_json, from_json_as_written, from_json_next, from_json_strict,
        from_json_within, raw_json,
    },
    write::{to_json, to_json_pretty, write_json, write_json_text},
};
