//! One request and its answer.

use bytes::Bytes;
use futures_util::future::AbortHandle;
use tonic::body::Body;

use super::upload::RequestBody;
use crate::etcd_server::kv_call::{KvMethod, KvRequest, KvResponse};

#[derive(Debug)]
pub(super) struct Stream {
    /// How much more may be sent than what may be sent on every new stream; mostly less.
    pub(super) window: i64,
    /// What has come, and is not given back yet.
    pub(super) owed: u32,
    pub(super) incoming: Incoming,
    /// How many bytes are still to come, if the client said how many there are.
    pub(super) declared: Option<u64>,
    pub(super) outgoing: Outgoing,
    /// Whether it is among those that may send something.
    pub(super) queued: bool,
    /// Ends what a service does for it.
    pub(super) service: Option<AbortHandle>,
}

#[derive(Debug)]
pub(super) enum Incoming {
    /// A call, and its message so far.
    Call(KvMethod, Vec<u8>),
    /// A service reads it.
    Upload(RequestBody),
    /// Answered before all has come. So many more bytes are ignored; then the client is told to
    /// stop.
    Ignored(usize),
    /// All has come.
    Ended,
}

#[derive(Debug)]
pub(super) enum Outgoing {
    Nothing,
    /// Told when the log has come so far. The call, should there be no room.
    Waiting(KvResponse, KvRequest),
    /// On its way.
    Reply(KvResponse),
    /// A part of what a service says, and who will say more.
    Part(Bytes, Body),
}

impl Stream {
    pub(super) fn new(incoming: Incoming) -> Self {
        Self {
            window: 0,
            owed: 0,
            incoming,
            declared: None,
            outgoing: Outgoing::Nothing,
            queued: false,
            service: None,
        }
    }

    /// Counts what has come; false: it is not as much as the client said.
    pub(super) fn count(&mut self, bytes: usize, end: bool) -> bool {
        let Some(declared) = &mut self.declared else { return true };
        match declared.checked_sub(bytes as u64) {
            Some(left) => *declared = left,
            None => return false,
        }
        !end || *declared == 0
    }

    /// Whether all of the answer is on its way.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.incoming, Incoming::Ignored(_))
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
