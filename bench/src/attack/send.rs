//! Sends a request over a connection within the process and reads the response.

use std::time::{Duration, Instant};

use anyhow::Result;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{ConnectionUse, Connector as _, PipeConnector};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::{
    expand::{Known, expand},
    request::{Body, Request},
};

/// Maximum size in bytes of a response; the rest is dropped.
const LARGEST: usize = 64 << 20;
/// A stream without data for this time is closed.
const SILENCE: Duration = Duration::from_millis(10);
/// A stream is closed after this time, whatever it sends.
const STREAM: Duration = Duration::from_millis(100);

/// The response to a request.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Status code; 0 if the response cannot be parsed.
    pub(crate) code: u16,
    pub(crate) media_type: String,
    pub(crate) body: Vec<u8>,
    pub(crate) took: Duration,
    /// The whole request was sent and no response came before the connection was closed or the time was over.
    pub(crate) silent: bool,
    /// The path of the object in the response.
    pub(crate) object: Option<String>,
}

/// The bytes of a request.
pub(crate) fn bytes(request: &Request, known: &dyn Known) -> Vec<u8> {
    let body = match &request.body {
        Body::None => Vec::new(),
        Body::Text(text) => expand(text, known),
        Body::Bytes(text) => STANDARD.decode(text).unwrap_or_default(),
    };
    let clean = |text: &str| text.replace(['\r', '\n'], " ");
    let path = request.path.replace([' ', '\r', '\n', '\t', '\0'], "+");
    let mut head = format!("{} {path} HTTP/1.1\r\nhost: x\r\n", clean(&request.method));
    let upgrades = request.headers.iter().any(|(name, _)| name == "upgrade");
    if !upgrades {
        head.push_str("connection: close\r\n");
        if !body.is_empty() || !matches!(request.method.as_str(), "GET" | "HEAD") {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
    }
    for (name, value) in &request.headers {
        head.push_str(&format!("{}: {}\r\n", clean(name), clean(value)));
    }
    head.push_str("\r\n");
    [head.into_bytes(), body].concat()
}

/// Sends these bytes and reads the response, for at most `patience`.
pub(crate) async fn exchange(
    pipe: &PipeConnector,
    bytes: &[u8],
    stream: bool,
    patience: Duration,
) -> Result<Answer> {
    let began = Instant::now();
    let connected = pipe.connect(ConnectionUse::Upgrade).await?;
    let (mut reader, mut writer) = tokio::io::split(connected.io);
    let mut read = Vec::new();
    let send = async {
        let _ = writer.write_all(bytes).await; // the server may have closed the connection early
        std::future::pending::<()>().await;
    };
    let receive = async {
        while read.len() < LARGEST {
            // an error response is not a stream
            let flows = stream && matches!(read.get(9..12), Some(b"200" | b"101"));
            let late = flows && began.elapsed() > STREAM;
            match timeout(if flows { SILENCE } else { patience }, reader.read_buf(&mut read)).await
            {
                Ok(Ok(count)) if count > 0 && !late => {}
                Ok(_) => return true,
                Err(_) => return flows,
            }
        }
        true
    };
    let ended = tokio::select! {
        () = send => true,
        ended = receive => ended,
    };
    Ok(parse(&read, began.elapsed(), ended))
}

fn parse(read: &[u8], took: Duration, ended: bool) -> Answer {
    let code =
        read.get(9..12).and_then(|code| str::from_utf8(code).ok()?.parse().ok()).unwrap_or(0);
    let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Answer { code, took, silent: code == 0 || !ended, ..Answer::default() };
    };
    let head = String::from_utf8_lossy(&read[..at]).to_lowercase();
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    };
    let media_type = header("content-type").to_owned();
    let body = match header("transfer-encoding") {
        "chunked" => unchunk(&read[at + 4..]),
        _ => read[at + 4..].to_vec(),
    };
    Answer { code, media_type, body, took, silent: !ended, object: None }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
        let size =
            str::from_utf8(&rest[..at]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(chunk) =
            size.filter(|size| *size > 0).and_then(|size| rest.get(at + 2..at + 2 + size))
        else {
            break;
        };
        body.extend(chunk);
        rest = rest.get(at + 4 + chunk.len()..).unwrap_or_default();
    }
    body
}
