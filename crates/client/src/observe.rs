//! What is sent to the server, for whoever counts it.

use std::{fmt, time::Duration};

/// Buckets of `rest_client_request_duration_seconds`, as client-go has them.
pub const REQUEST_SECONDS: &[f64] =
    &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// Buckets of the sizes of requests and responses in bytes, as client-go has them.
pub const REQUEST_SIZES: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// A request and how it ended.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    pub method: &'a str,
    pub host: &'a str,
    /// Bytes of the body.
    pub size: usize,
    /// Status code of the answer; absent: there was no answer.
    pub status: Option<u16>,
    /// Whether the same request is sent again because of this answer.
    pub retry: bool,
}

/// Is called after each request. It must return at once.
pub trait RequestObserver: fmt::Debug + Send + Sync {
    fn observe(&self, sent: &Sent<'_>, took: Duration);
}
