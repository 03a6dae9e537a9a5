//! Handling of received frames.

use bytes::{Buf as _, Bytes};
use http::{HeaderName, HeaderValue, Method as Verb, Request, Version};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::{Code, Status};

use super::{
    connection::{ALL_WINDOW, Connection, STREAM_WINDOW, STREAMS},
    fields,
    frame::{self, ErrorCode, FrameHeader, HEAD, LARGEST, MAX_WINDOW},
    hpack::Field,
    stream::{Incoming, Stream},
    upload::RequestBody,
};
use crate::etcd_server::kv_call::{KvMethod, KvRequest};

/// Maximum size in bytes of a header block split over several frames.
const BLOCK: usize = 64 << 10;
/// Maximum number of bytes buffered for incomplete calls, all together.
const BUFFERED: usize = 256 << 20;
/// Number of closed streams that are remembered.
const REMEMBERED: usize = 256;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Handles all complete frames of the input.
    pub(super) fn receive(&mut self) -> Result<(), ErrorCode> {
        let (mut input, mut at) = (std::mem::take(&mut self.input), 0);
        while let Some(head) = FrameHeader::parse(&input[at..]) {
            if head.length > LARGEST {
                return Err(ErrorCode::FrameSize);
            }
            let Some(payload) = input[at + HEAD..].get(..head.length) else { break };
            self.frame(head, payload)?;
            at += HEAD + head.length;
        }
        input.advance(at);
        self.input = input;
        if self.unreturned_window > ALL_WINDOW / 4 {
            frame::number(
                &mut self.out.bytes,
                frame::WINDOW_UPDATE,
                0,
                std::mem::take(&mut self.unreturned_window),
            );
        }
        Ok(())
    }

    fn frame(&mut self, head: FrameHeader, payload: &[u8]) -> Result<(), ErrorCode> {
        if self.block.is_some() != (head.kind == frame::CONTINUATION) {
            return Err(ErrorCode::Protocol);
        }
        let of_stream = matches!(
            head.kind,
            frame::DATA | frame::HEADERS | frame::PRIORITY | frame::RESET | frame::CONTINUATION
        );
        let of_all = matches!(head.kind, frame::SETTINGS | frame::PING | frame::GO_AWAY);
        if (of_stream && head.stream == 0) || (of_all && head.stream != 0) {
            return Err(ErrorCode::Protocol);
        }
        match head.kind {
            frame::DATA => self.data(head, payload),
            frame::PRIORITY if payload.len() != 5 => Err(ErrorCode::FrameSize),
            frame::HEADERS | frame::PRIORITY if head.dependency(payload) == Some(head.stream) => {
                Err(ErrorCode::Protocol)
            }
            frame::HEADERS => {
                let block = head.content(payload)?.to_vec();
                self.headers(head.stream, head.has(frame::END_STREAM), block, head)
            }
            frame::CONTINUATION => {
                let (stream, end, mut block) = self.block.take().ok_or(ErrorCode::Protocol)?;
                block.extend_from_slice(payload);
                if stream != head.stream {
                    return Err(ErrorCode::Protocol);
                }
                self.headers(stream, end, block, head)
            }
            frame::RESET => {
                frame::to_number(payload)?;
                if head.stream > self.last {
                    return Err(ErrorCode::Protocol);
                }
                let answered = self.streams.get(&head.stream).is_none_or(Stream::is_answered);
                if !answered && !self.resets.allows() {
                    return Err(ErrorCode::EnhanceYourCalm);
                }
                self.forget(head.stream);
                self.remember(head.stream, true);
                Ok(())
            }
            frame::SETTINGS => self.settings(head, payload),
            frame::PING if payload.len() != 8 => Err(ErrorCode::FrameSize),
            frame::PING if !head.has(frame::ACK) => {
                frame::head(&mut self.out.bytes, frame::PING, frame::ACK, 0, payload.len());
                self.out.bytes.extend_from_slice(payload);
                Ok(())
            }
            frame::WINDOW_UPDATE => self.on_window_update(head.stream, frame::to_number(payload)?),
            frame::PUSH => Err(ErrorCode::Protocol),
            _ => Ok(()), // GOAWAY and PRIORITY frames of the client, and unknown frames
        }
    }

    fn settings(&mut self, head: FrameHeader, mut payload: &[u8]) -> Result<(), ErrorCode> {
        if !payload.len().is_multiple_of(6) {
            return Err(ErrorCode::FrameSize);
        } else if head.has(frame::ACK) {
            return Ok(());
        } else if !self.settings.allows() {
            return Err(ErrorCode::EnhanceYourCalm);
        }
        let before = self.initial;
        while let Some(((name, value), rest)) = frame::setting(payload) {
            payload = rest;
            match name {
                frame::INITIAL_WINDOW => {
                    self.initial = i64::from(value);
                    if self.initial > MAX_WINDOW {
                        return Err(ErrorCode::FlowControl);
                    }
                }
                frame::FRAME_SIZE => {
                    let size = usize::try_from(value).unwrap_or(usize::MAX);
                    if !(LARGEST..1 << 24).contains(&size) {
                        return Err(ErrorCode::Protocol);
                    }
                    self.frame = size.min(1 << 20);
                }
                frame::ENABLE_PUSH if value > 1 => return Err(ErrorCode::Protocol),
                _ => {}
            }
        }
        if self.initial > before {
            let blocked = std::mem::take(&mut self.blocked);
            blocked.into_iter().for_each(|stream| self.enqueue(stream));
        }
        frame::head(&mut self.out.bytes, frame::SETTINGS, frame::ACK, 0, 0);
        Ok(())
    }

    fn on_window_update(&mut self, stream: u32, more: u32) -> Result<(), ErrorCode> {
        let more = i64::from(more & 0x7fff_ffff);
        if more == 0 || stream > self.last {
            return Err(ErrorCode::Protocol); // an idle stream has no window
        }
        if stream == 0 {
            self.window += more;
            return if self.window > MAX_WINDOW { Err(ErrorCode::FlowControl) } else { Ok(()) };
        }
        if let Some(open) = self.streams.get_mut(&stream) {
            open.window += more;
            if open.window + self.initial > MAX_WINDOW {
                self.reset(stream, ErrorCode::FlowControl);
            } else {
                self.enqueue(stream);
            }
        }
        Ok(())
    }

    fn data(&mut self, head: FrameHeader, payload: &[u8]) -> Result<(), ErrorCode> {
        let length = u32::try_from(payload.len()).map_err(|_| ErrorCode::FrameSize)?;
        self.unreturned_window += length;
        let content = head.content(payload)?;
        let end = head.has(frame::END_STREAM);
        if head.stream > self.last {
            return Err(ErrorCode::Protocol);
        }
        let Some(stream) = self.streams.get_mut(&head.stream) else {
            let by_client = self.closed_by_client(head.stream) == Some(true);
            return if by_client { Err(ErrorCode::Closed) } else { Ok(()) };
        };
        if !stream.is_ended() && !stream.count(content.len(), end) {
            self.reset(head.stream, ErrorCode::Protocol);
            return Ok(());
        }
        let limit = self.service.limits.request_bytes + (512 << 10);
        match &mut stream.incoming {
            Incoming::Ended => {
                self.reset(head.stream, ErrorCode::Closed);
                return Ok(());
            }
            Incoming::Ignored(_) if end => {
                stream.incoming = Incoming::Ended;
                self.forget(head.stream);
                return Ok(());
            }
            Incoming::Ignored(left) => {
                if let Some(less) = left.checked_sub(content.len()) {
                    *left = less;
                } else {
                    self.reset(head.stream, ErrorCode::NoError);
                    return Ok(());
                }
            }
            Incoming::Upload(upload) => {
                if !upload.push(content) {
                    self.reset(head.stream, ErrorCode::EnhanceYourCalm);
                    return Ok(());
                }
                if end {
                    upload.end();
                    stream.incoming = Incoming::Ended;
                }
            }
            Incoming::Call(method, message) => {
                if end && message.is_empty() {
                    let call = read(*method, content);
                    stream.incoming = Incoming::Ended;
                    self.called(head.stream, call);
                    return Ok(());
                }
                message.extend_from_slice(content);
                self.buffered += content.len();
                let (method, size) = (*method, message.len());
                if end {
                    let message = std::mem::take(message);
                    stream.incoming = Incoming::Ended;
                    self.buffered -= size;
                    self.called(head.stream, read(method, &message));
                } else if size > limit {
                    let what =
                        format!("grpc: received message larger than max ({size} vs. {limit})");
                    self.fail(head.stream, &Status::new(Code::ResourceExhausted, what));
                } else if self.buffered > BUFFERED {
                    self.reset(head.stream, ErrorCode::EnhanceYourCalm);
                }
            }
        }
        if !end && length > 0 && self.streams.contains_key(&head.stream) {
            self.return_window(head.stream, length);
        }
        Ok(())
    }

    /// Returns received bytes to the client's window of a stream, once enough have accumulated.
    fn return_window(&mut self, stream: u32, length: u32) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.owed += length;
        if open.owed > STREAM_WINDOW / 4 {
            let owed = std::mem::take(&mut open.owed);
            frame::number(&mut self.out.bytes, frame::WINDOW_UPDATE, stream, owed);
        }
    }

    fn called(&mut self, stream: u32, call: Result<KvRequest, Status>) {
        match call {
            Ok(call) => self.calls.push((stream, call, false)),
            Err(status) => self.fail(stream, &status),
        }
    }

    fn headers(
        &mut self,
        stream: u32,
        end: bool,
        block: Vec<u8>,
        head: FrameHeader,
    ) -> Result<(), ErrorCode> {
        if block.len() > BLOCK {
            return Err(ErrorCode::EnhanceYourCalm);
        } else if !head.has(frame::END_HEADERS) {
            self.block = Some((stream, end, block));
            return Ok(());
        }
        let mut fields = Vec::with_capacity(12);
        self.decoder.decode(&block, &mut fields).map_err(|_| ErrorCode::Compression)?;
        if let Some(open) = self.streams.get(&stream) {
            if open.is_ended() {
                return Err(ErrorCode::Closed);
            }
            if !end || fields.iter().any(|(name, _)| !fields::is_plain(name)) {
                self.reset(stream, ErrorCode::Protocol);
                return Ok(());
            }
            return self.ended(stream);
        } else if stream.is_multiple_of(2) {
            return Err(ErrorCode::Protocol);
        } else if stream <= self.last {
            return match self.closed_by_client(stream) {
                Some(true) => Err(ErrorCode::Closed),
                Some(false) => Ok(()), // trailers of a finished stream
                None => Err(ErrorCode::Protocol),
            };
        }
        if self.going_away {
            return Ok(()); // the client got a GOAWAY
        }
        self.last = stream;
        if self.streams.len() >= usize::try_from(STREAMS).unwrap_or(usize::MAX) {
            self.reset(stream, ErrorCode::Refused);
            return Ok(());
        }
        match fields::declared_length(&fields) {
            Ok(declared) if !end || declared.unwrap_or(0) == 0 => {
                self.open(stream, end, &fields);
                if let Some(open) = self.streams.get_mut(&stream) {
                    open.declared = declared;
                }
            }
            _ => self.reset(stream, ErrorCode::Protocol),
        }
        Ok(())
    }

    /// The request of a stream is complete.
    fn ended(&mut self, stream: u32) -> Result<(), ErrorCode> {
        let Some(open) = self.streams.get_mut(&stream) else { return Ok(()) };
        if !open.is_ended() && !open.count(0, true) {
            self.reset(stream, ErrorCode::Protocol);
            return Ok(());
        }
        match std::mem::replace(&mut open.incoming, Incoming::Ended) {
            Incoming::Call(method, message) => {
                self.buffered -= message.len();
                self.called(stream, read(method, &message));
            }
            Incoming::Upload(upload) => upload.end(),
            Incoming::Ignored(_) => self.forget(stream),
            Incoming::Ended => return Err(ErrorCode::Closed),
        }
        Ok(())
    }

    fn open(&mut self, stream: u32, end: bool, fields: &[Field]) {
        let value = |name: &[u8]| {
            let found = fields.iter().find(|(found, _)| found == name);
            found.map_or(&b""[..], |(_, value)| value)
        };
        let grpc = value(b"content-type").starts_with(b"application/grpc");
        let method = if grpc { KvMethod::of(value(b":path")) } else { None };
        if let Some(method) = method {
            let incoming = Incoming::Call(method, Vec::new());
            self.streams.insert(stream, Stream::new(incoming));
            if end {
                let _ = self.ended(stream); // the stream was just opened
            }
            return;
        }
        let upload = RequestBody::default();
        let incoming = if end {
            upload.end();
            Incoming::Ended
        } else {
            Incoming::Upload(upload.clone())
        };
        self.streams.insert(stream, Stream::new(incoming));
        match request(fields, upload) {
            Some(request) => {
                let answer = (self.serve)(request);
                self.start(stream, answer);
            }
            None => self.reset(stream, ErrorCode::Protocol),
        }
    }

    /// Resets a stream with RST_STREAM.
    pub(super) fn reset(&mut self, stream: u32, reason: ErrorCode) {
        frame::number(&mut self.out.bytes, frame::RESET, stream, reason as u32);
        self.forget(stream);
    }

    pub(super) fn forget(&mut self, stream: u32) {
        let gone = self.streams.remove(&stream);
        self.blocked.remove(&stream);
        if let Some(gone) = &gone {
            self.remember(stream, gone.is_ended());
        }
        if let Some(Incoming::Call(_, message)) = gone.as_ref().map(|gone| &gone.incoming) {
            self.buffered -= message.len();
        }
    }

    /// Records which side closed a stream. A stream that the client closed must not be used again; of one that this
    /// side closed, the client may not know yet.
    fn remember(&mut self, stream: u32, by_client: bool) {
        if self.closed.len() >= REMEMBERED {
            self.closed.pop_front();
        }
        self.closed.push_back((stream, by_client));
    }

    /// Whether the client closed the stream; `None` if it was never open, or was closed long ago.
    fn closed_by_client(&self, stream: u32) -> Option<bool> {
        let found = self.closed.iter().rev().find(|(closed, _)| *closed == stream);
        found.map(|(_, by_client)| *by_client)
    }
}

/// Decodes a gRPC message with its five-byte prefix: a compression flag and the length.
fn read(method: KvMethod, message: &[u8]) -> Result<KvRequest, Status> {
    let Some((&[compressed, a, b, c, d], rest)) = message.split_first_chunk() else {
        return Err(Status::internal("a message breaks off"));
    };
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if compressed != 0 {
        Err(Status::unimplemented("grpc: messages must not be compressed"))
    } else if length != rest.len() {
        Err(Status::internal("there must be one message, and all of it"))
    } else {
        KvRequest::decode(method, rest)
    }
}

fn request(fields: &[Field], upload: RequestBody) -> Option<Request<RequestBody>> {
    let mut request = Request::new(upload);
    *request.version_mut() = Version::HTTP_2;
    let mut path = None;
    for (name, value) in fields {
        match &**name {
            b":method" => *request.method_mut() = Verb::from_bytes(value).ok()?,
            b":path" => path = Some(value.clone()),
            b":authority" => {
                let host = HeaderValue::from_maybe_shared(value.clone()).ok()?;
                request.headers_mut().insert(http::header::HOST, host);
            }
            [b':', ..] => {}
            _ => {
                let value: Bytes = value.clone();
                let name = HeaderName::from_bytes(name).ok()?;
                request.headers_mut().append(name, HeaderValue::from_maybe_shared(value).ok()?);
            }
        }
    }
    *request.uri_mut() = http::Uri::from_maybe_shared(path?).ok()?;
    Some(request)
}
