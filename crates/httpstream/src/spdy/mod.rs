//! SPDY/3.1, as far as Kubernetes uses it: byte streams over one connection, for exec, attach and port-forward, for
//! clients and servers.
//!
//! ```text
//!  socket ─► reader ─► frame ─► stream's pipe ─► AsyncRead   ┐
//!                                                            ├ Stream
//!  socket ◄─ writer ◄─ outbox ◄──────────────── AsyncWrite   ┘
//! ```

mod connection;
mod frame;
mod header;
mod shared;
mod stream;
mod wire;

pub use connection::{Connection, Opener};
pub use header::Headers;
pub use stream::Stream;

/// The protocol name in the HTTP Upgrade header.
pub const PROTOCOL: &str = "SPDY/3.1";
