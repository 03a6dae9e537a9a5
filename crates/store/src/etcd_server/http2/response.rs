//! Sending of responses, within the flow-control windows.

use http::{HeaderMap, Response};
use hyper::body::Body as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::Status;

use super::{
    connection::{Connection, OUT, ServiceOutput},
    frame::{self, ErrorCode},
    hpack,
    stream::{Incoming, Outgoing},
};
use crate::etcd_server::{
    fault::EtcdError,
    kv_call::{KvRequest, KvResponse},
    mailbox::CommitOutcome,
};

/// The headers of a successful gRPC response: `:status: 200` and `content-type: application/grpc`.
const OK_HEADERS: &[u8] = b"\x88\x0f\x10\x10application/grpc";
/// The trailers of a successful gRPC response: `grpc-status: 0`.
const OK_TRAILERS: &[u8] = b"\x00\x0bgrpc-status\x010";

/// Number of bytes of a request that are still read and ignored after it is answered.
const IGNORED: usize = 64 << 10;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Executes all received KV calls under one lock.
    pub(super) fn judge(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        let calls = std::mem::take(&mut self.calls);
        let member = self.service.member.clone();
        let mut turn = member.turn();
        for (stream, call, spare) in calls {
            match self.service.execute(&mut turn, &call, spare) {
                Ok((reply, None)) => self.reply(stream, reply),
                Ok((reply, Some(position))) => {
                    if let Some(open) = self.streams.get_mut(&stream) {
                        turn.wait(position, stream, &self.mailbox);
                        open.outgoing = Outgoing::Waiting(reply, call);
                    }
                }
                Err(fault) => self.fail(stream, &fault.into()),
            }
        }
    }

    /// A call that was executed is now durable, or has failed.
    pub(super) fn on_committed(&mut self, stream: u32, outcome: CommitOutcome) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let Outgoing::Waiting(reply, call) =
            std::mem::replace(&mut open.outgoing, Outgoing::Nothing)
        else {
            return;
        };
        match (outcome, call) {
            (CommitOutcome::Durable, _) => self.reply(stream, reply),
            (CommitOutcome::Broken, _) => self.fail(stream, &EtcdError::Stopped.into()),
            (CommitOutcome::Full, KvRequest::Put(_)) => {
                self.fail(stream, &EtcdError::NoSpace.into())
            }
            // Retried with the reserve: the call may be a deletion.
            (CommitOutcome::Full, call) if !reply.used_reserve => {
                self.calls.push((stream, call, true))
            }
            (CommitOutcome::Full, _) => self.fail(stream, &EtcdError::NoSpace.into()),
        }
    }

    /// Sends a response completely if the windows permit; otherwise starts to.
    fn reply(&mut self, stream: u32, mut reply: KvResponse) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let length = reply.len();
        frame::headers(&mut self.out.bytes, stream, OK_HEADERS, false);
        let fits = length <= self.frame
            && i64::try_from(length)
                .is_ok_and(|length| length <= (open.window + self.initial).min(self.window));
        if !fits {
            open.outgoing = Outgoing::Reply(reply);
            return self.enqueue(stream);
        }
        self.window -= i64::try_from(length).unwrap_or_default();
        frame::head(&mut self.out.bytes, frame::DATA, 0, stream, length);
        reply.write(&mut self.out, length);
        frame::headers(&mut self.out.bytes, stream, OK_TRAILERS, true);
        self.close(stream);
    }

    /// Sends an error response.
    pub(super) fn fail(&mut self, stream: u32, status: &Status) {
        let mut response = status.clone().into_http::<()>();
        response.headers_mut().remove(http::header::CONTENT_LENGTH);
        self.head(stream, &response, true);
        self.close(stream);
    }

    /// Handles the output of a service.
    pub(super) fn on_service_output(&mut self, stream: u32, done: ServiceOutput) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        match done {
            ServiceOutput::Answer(response) => {
                let over = response.body().is_end_stream();
                self.head(stream, &response, over);
                if over {
                    self.close(stream);
                } else {
                    self.ask(stream, response.into_body());
                }
            }
            ServiceOutput::Part(Some(Ok(part)), body) => match part.into_data() {
                Ok(data) => {
                    open.outgoing = Outgoing::Part(data, body);
                    self.enqueue(stream);
                }
                Err(part) => {
                    let trailers = part.into_trailers().unwrap_or_default();
                    let mut block = Vec::new();
                    write(&mut block, &trailers);
                    frame::headers(&mut self.out.bytes, stream, &block, true);
                    self.close(stream);
                }
            },
            ServiceOutput::Part(None, _) => {
                frame::head(&mut self.out.bytes, frame::DATA, frame::END_STREAM, stream, 0);
                self.close(stream);
            }
            ServiceOutput::Part(Some(Err(_)), _) => self.reset(stream, ErrorCode::Closed),
        }
    }

    /// Sends the data of ready streams, in turn, as far as the windows permit.
    pub(super) fn flush_streams(&mut self) {
        while self.window > 0
            && self.out.len() < OUT
            && let Some(stream) = self.ready.pop_front()
        {
            self.pump_one(stream);
        }
    }

    /// Marks a stream as ready to send.
    pub(super) fn enqueue(&mut self, stream: u32) {
        if let Some(open) = self.streams.get_mut(&stream).filter(|open| !open.queued) {
            open.queued = true;
            self.ready.push_back(stream);
        }
    }

    fn pump_one(&mut self, stream: u32) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.queued = false;
        let window = (open.window + self.initial).min(self.window);
        let may = usize::try_from(window).unwrap_or(0).min(self.frame);
        let length = match &open.outgoing {
            Outgoing::Reply(reply) => reply.len(),
            Outgoing::Part(part, _) => part.len(),
            Outgoing::Nothing | Outgoing::Waiting(..) => return,
        };
        let count = length.min(may);
        if count == 0 && length > 0 {
            self.blocked.insert(stream);
            return; // until the client enlarges the window
        }
        open.window -= i64::try_from(count).unwrap_or_default();
        self.window -= i64::try_from(count).unwrap_or_default();
        frame::head(&mut self.out.bytes, frame::DATA, 0, stream, count);
        match &mut open.outgoing {
            Outgoing::Reply(reply) => reply.write(&mut self.out, count),
            Outgoing::Part(part, _) => self.out.value(part.split_to(count)),
            Outgoing::Nothing | Outgoing::Waiting(..) => {}
        }
        if count < length {
            return self.enqueue(stream);
        }
        if let Outgoing::Part(_, body) = std::mem::replace(&mut open.outgoing, Outgoing::Nothing) {
            return self.ask(stream, body);
        }
        frame::headers(&mut self.out.bytes, stream, OK_TRAILERS, true);
        self.close(stream);
    }

    fn head<B>(&mut self, stream: u32, response: &Response<B>, end: bool) {
        let mut block = Vec::with_capacity(128);
        hpack::write_status(&mut block, response.status().as_u16());
        write(&mut block, response.headers());
        frame::headers(&mut self.out.bytes, stream, &block, end);
    }

    /// The response is complete. The rest of an incomplete request is ignored.
    fn close(&mut self, stream: u32) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        if open.is_ended() {
            return self.forget(stream);
        }
        let incoming = std::mem::replace(&mut open.incoming, Incoming::Ignored(IGNORED));
        (open.outgoing, open.service) = (Outgoing::Nothing, None);
        self.blocked.remove(&stream);
        if let Incoming::Call(_, message) = incoming {
            self.buffered -= message.len();
        }
    }
}

fn write(block: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        if !matches!(name.as_str(), "connection" | "transfer-encoding") {
            hpack::write(block, name.as_str().as_bytes(), value.as_bytes());
        }
    }
}
