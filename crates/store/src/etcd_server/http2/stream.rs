//! An HTTP/2 stream: one request and its response.

use bytes::Bytes;
use futures_util::future::AbortHandle;
use tonic::body::Body;

use super::upload::RequestBody;
use crate::etcd_server::kv_call::{KvMethod, KvRequest, KvResponse};

/// The state of one stream.
#[derive(Debug)]
pub(super) struct Stream {
    /// The send window relative to the initial window of the connection; usually negative.
    pub(super) window: i64,
    /// Received bytes that have not been returned to the client's window yet.
    pub(super) owed: u32,
    pub(super) incoming: Incoming,
    /// Remaining bytes of the request body, if the client sent a content length.
    pub(super) declared: Option<u64>,
    pub(super) outgoing: Outgoing,
    /// Whether the stream is in the queue of ready streams.
    pub(super) queued: bool,
    /// Aborts the service future of this stream.
    pub(super) service: Option<AbortHandle>,
}

/// The request side of a stream.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A KV call, and its message so far.
    Call(KvMethod, Vec<u8>),
    /// A body that a service reads.
    Upload(RequestBody),
    /// Answered before the request was complete. This many more bytes are ignored; then the stream is reset.
    Ignored(usize),
    /// The request is complete.
    Ended,
}

/// The response side of a stream.
#[derive(Debug)]
pub(super) enum Outgoing {
    Nothing,
    /// A response that waits until its write is durable, and the call, to be retried if the disk is full.
    Waiting(KvResponse, KvRequest),
    /// A response that is being sent.
    Reply(KvResponse),
    /// A part of a service's response, and the body with the remaining parts.
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

    /// Counts received bytes; false if they do not match the content length.
    pub(super) fn count(&mut self, bytes: usize, end: bool) -> bool {
        let Some(declared) = &mut self.declared else { return true };
        match declared.checked_sub(bytes as u64) {
            Some(left) => *declared = left,
            None => return false,
        }
        !end || *declared == 0
    }

    /// Whether the whole response has been queued.
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
