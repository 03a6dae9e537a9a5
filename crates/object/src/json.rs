//! JSON, straight into a tree and out of it, with Go's words for what is wrong.

mod read;
mod write;

pub use self::{
    read::{JsonError, from_json, from_json_strict},
    write::{to_json, to_json_pretty, write_json},
};
