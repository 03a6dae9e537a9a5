//! What is sent to the server, for whoever counts it.

use std::{fmt, time::Duration};

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
