//! What can be chosen about a server.

use std::time::Duration;

use crate::Edge;

/// Bounds on what a client can make the server do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub body: usize,
    pub headers: usize,
    pub request: Duration,
    /// Requests in flight: reading ones, and writing ones.
    pub reads: usize,
    pub writes: usize,
    /// Seats that only leases, node status and administrators can take.
    pub reserved: usize,
    pub watch_min: Duration,
    /// Requests at once on a connection of HTTP/2; `None`: only HTTP/1.1 is spoken.
    pub streams: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 3 << 20,
            headers: 64 << 10,
            request: Duration::from_mins(1),
            reads: 400,
            writes: 200,
            reserved: 100,
            watch_min: Duration::from_mins(30),
            streams: Some(1000),
        }
    }
}

/// How a server ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shutdown {
    /// How long it goes on as before, but says that it is not ready, so that nobody is sent
    /// here any more.
    pub delay: Duration,
    /// Whether who still comes is told to come again, while others are being answered.
    pub retry_after: bool,
    /// Within what time watches end: not all at once.
    pub watches: Duration,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub limits: Limits,
    /// What `/version` says.
    pub version: &'static str,
    pub commit: &'static str,
    /// Whether those who say nothing about themselves get in as nobody.
    pub anonymous: bool,
    /// What this server's own address is, for `/api`.
    pub advertise: String,
    pub edge: Edge,
    pub shutdown: Shutdown,
    /// Metrics that are not told.
    pub disabled_metrics: Vec<String>,
    /// Whether CBOR is spoken, and custom objects are stored in it.
    pub cbor: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            version: "v1.37.1",
            commit: "",
            anonymous: true,
            advertise: String::new(),
            edge: Edge::default(),
            shutdown: Shutdown::default(),
            disabled_metrics: Vec::new(),
            cbor: false,
        }
    }
}
