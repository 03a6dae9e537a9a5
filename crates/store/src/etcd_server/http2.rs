//! A small HTTP/2 server for gRPC. A KV request, the most common kind, needs neither a task nor a wakeup of its own.
//!
//! ```text
//!  bytes ──► frames ──► the KV calls of one read ──► sequenced under one lock
//!                └────► all other calls: a future that the connection polls itself
//!  bytes ◄── frames ◄── the responses that have become durable, with one write
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
