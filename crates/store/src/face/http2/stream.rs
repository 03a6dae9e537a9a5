//! One request and its answer.

use bytes::Bytes;
use futures_util::future::AbortHandle;
use tonic::body::Body;

use super::upload::Upload;
use crate::face::call::{Call, Method, Reply};

#[derive(Debug)]
pub(super) struct Stream {
    /// How much more may be sent than what may be sent on every new stream; mostly less.
    pub(super) window: i64,
    /// What has come, and is not given back yet.
    pub(super) owed: u32,
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// Whether it is among those that may send something.
    pub(super) queued: bool,
    /// Ends what a service does for it.
    pub(super) service: Option<AbortHandle>,
}

#[derive(Debug)]
pub(super) enum Incoming {
    /// A call, and its message so far.
    Call(Method, Vec<u8>),
    /// A service reads it.
    Upload(Upload),
    /// All has come.
    Ended,
}

#[derive(Debug)]
pub(super) enum Outgoing {
    Nothing,
    /// Told when the log has come so far. The call, should there be no room.
    Waiting(Reply, Call),
    /// On its way.
    Reply(Reply),
    /// A part of what a service says, and who will say more.
    Part(Bytes, Body),
}

impl Stream {
    pub(super) fn new(incoming: Incoming) -> Self {
        Self {
            window: 0,
            owed: 0,
            incoming,
            outgoing: Outgoing::Nothing,
            queued: false,
            service: None,
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.incoming, Incoming::Ended)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(service) = &self.service {
            service.abort();
        }
    }
}
