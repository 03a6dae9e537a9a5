//! Multiplexed streams over an upgraded HTTP connection, which carry exec, attach and port-forward: SPDY/3.1, and
//! the channel numbers of the WebSocket subprotocols. Servers and clients use the same code.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

pub mod channel;
mod outbox;
pub mod spdy;

pub use self::outbox::Outbox;
