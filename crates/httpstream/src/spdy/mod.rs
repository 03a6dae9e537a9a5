//! SPDY/3.1, as far as Kubernetes speaks it: streams of bytes over one connection, for exec, attach and
//! port-forward, from either end.
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

/// The name under which HTTP upgrades to it.
pub const PROTOCOL: &str = "SPDY/3.1";
