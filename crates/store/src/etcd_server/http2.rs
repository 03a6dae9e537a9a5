//! HTTP/2 for gRPC, by hand: what most requests need costs neither a task nor a wakeup
//! of their own.
//!
//! ```text
//!  bytes ──► frames ──► calls of KV, all that one read has brought ──► judged under one lock
//!                └────► everything else: a future that the connection polls itself
//!  bytes ◄── frames ◄── what has become durable, all of it with one write
//! ```

mod connection;
mod fields;
mod frame;
mod hpack;
mod huffman;
mod rate;
mod receive;
mod response;
mod stream;
mod upload;
mod write_buffer;

pub(super) use self::{connection::Connection, frame::PREFACE, write_buffer::WriteBuffer};
