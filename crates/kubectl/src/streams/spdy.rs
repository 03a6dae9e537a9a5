//! The session over SPDY, for servers older than WebSockets: each channel is a separate stream.

use std::io;

use httpstream::spdy::{Connection, Headers, Stream};
use object::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::session::{Sizes, first_sizes, lost, next, size_text, watch_size};
use crate::{
    error::{CommandError, Result},
    stdio,
};

pub(super) const PROTOCOL: &str = "v4.channel.k8s.io";
const CHUNK: usize = 32 << 10;
const LARGEST_RESULT: u64 = 64 << 10;

/// Forwards our streams to a process and back until it exits; returns its exit status.
pub(super) async fn exchange(
    connection: Connection,
    input: Option<impl AsyncRead + Unpin>,
    mut out: impl AsyncWrite + Unpin,
    mut err: impl AsyncWrite + Unpin,
    sizes: Sizes,
) -> Result<Value> {
    let broken = |error: io::Error| lost(&error.to_string());
    let opener = connection.opener();
    let open = async |kind: &str| opener.open(Headers::from_iter([("streamtype", kind)])).await;
    let has_terminal = !matches!(sizes, Sizes::None);
    // The order is upstream's.
    let error = open("error").await.map_err(broken)?;
    let stdin = if input.is_some() { Some(open("stdin").await.map_err(broken)?) } else { None };
    let mut stdout = open("stdout").await.map_err(broken)?;
    let mut stderr = if has_terminal { None } else { Some(open("stderr").await.map_err(broken)?) };
    let resize = if has_terminal { Some(open("resize").await.map_err(broken)?) } else { None };
    let receive = async {
        let errors = async {
            if let Some(stderr) = &mut stderr {
                pass_on(stderr, &mut err).await;
            }
        };
        let mut result = Vec::new();
        let mut error = error.take(LARGEST_RESULT);
        let (read, (), ()) =
            tokio::join!(error.read_to_end(&mut result), pass_on(&mut stdout, &mut out), errors);
        read.map(|_| result)
    };
    let send = async {
        tokio::join!(feed(input, stdin), send_sizes(resize, &sizes));
        std::future::pending::<()>().await;
    };
    let result = tokio::select! {
        result = receive => result.map_err(broken)?,
        () = send => Vec::new(),
    };
    if result.is_empty() {
        return Err(lost("unexpected EOF"));
    }
    object::from_json(&result).map_err(|error| CommandError::error(error.to_string()))
}

async fn feed(input: Option<impl AsyncRead + Unpin>, stdin: Option<Stream>) {
    if let (Some(mut input), Some(mut stdin)) = (input, stdin) {
        let _ = tokio::io::copy(&mut input, &mut stdin).await; // the process may have stopped reading
        let _ = stdin.shutdown().await;
    }
}

/// Writes output. Output to a closed pipe is dropped, and the process keeps running.
async fn pass_on(from: &mut Stream, to: &mut (impl AsyncWrite + Unpin)) {
    let mut buffer = vec![0; CHUNK];
    let mut open = true;
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        open = open && to.write_all(&buffer[..length]).await.is_ok() && to.flush().await.is_ok();
    }
}

async fn send_sizes(resize: Option<Stream>, sizes: &Sizes) {
    let (Some(mut resize), Ok(mut changed)) = (resize, watch_size(sizes)) else { return };
    let mut first = first_sizes(sizes, stdio::size());
    loop {
        let mut size = first.pop();
        if size.is_none() {
            next(&mut changed).await;
            size = stdio::size();
        }
        if let Some(size) = size
            && resize.write_all(size_text(size).as_bytes()).await.is_err()
        {
            return;
        }
    }
}
