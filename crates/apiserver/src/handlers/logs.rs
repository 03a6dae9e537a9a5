//! `/logs/`: serves the files of a directory.

use std::{
    io,
    path::{Component, Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame};
use object::{Status, percent_decode};
use server::{EndpointHandler, Reply, Request, ResponseFuture, Server, text_reply};
use tokio::{
    fs::File,
    io::{AsyncRead, AsyncReadExt as _, ReadBuf},
};

/// Size of the read buffer, in bytes.
const PIECE: usize = 64 << 10;

/// The handler of `/logs/`.
#[derive(Debug)]
pub(crate) struct Logs {
    pub(crate) folder: PathBuf,
}

impl EndpointHandler for Logs {
    fn handle<'a>(&'a self, _: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            if request.head.method != Method::GET {
                return Ok(text_reply(405, "405: Method Not Allowed"));
            }
            let path = request.head.uri.path().strip_prefix("/logs").unwrap_or_default();
            match self.reply(&percent_decode(path, false)).await {
                Ok(reply) => Ok(reply),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Ok(text_reply(404, "404 page not found"))
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    Ok(text_reply(400, "invalid URL path"))
                }
                Err(error) => Err(Status::internal(error.to_string())),
            }
        })
    }
}

impl Logs {
    async fn reply(&self, path: &str) -> io::Result<Reply> {
        let within = Path::new(path.trim_start_matches('/'));
        if !within.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let place = self.folder.join(within);
        let about = tokio::fs::metadata(&place).await?;
        if about.is_dir() && !path.ends_with('/') {
            let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = if within.as_os_str().is_empty() { "logs".to_owned() } else { name };
            let mut reply = text_reply(301, "");
            let to = HeaderValue::from_str(&format!("{}/", escaped(&name)));
            let to = to.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            reply.headers_mut().insert(header::LOCATION, to);
            return Ok(reply);
        }
        if about.is_dir() {
            return Ok(typed("text/html; charset=utf-8", listing(&place).await?.into(), None));
        }
        if !about.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut file = File::open(&place).await?;
        let mut begin = vec![0; 512];
        let read = file.read(&mut begin).await?;
        begin.truncate(read);
        let is_text = begin.iter().all(|byte| *byte >= 32 || matches!(byte, 9 | 10 | 12 | 13 | 27));
        let form = if is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
        Ok(typed(form, begin.into(), Some(file)))
    }
}

fn typed(form: &'static str, begin: Bytes, rest: Option<File>) -> Reply {
    let body = Content { begin: Some(begin), rest, piece: vec![0; PIECE] };
    let mut reply = Reply::new(body.boxed_unsync());
    *reply.status_mut() = StatusCode::OK;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(form));
    reply
}

/// The entries of a directory, formatted as Go's file server does.
async fn listing(folder: &Path) -> io::Result<String> {
    let mut names = Vec::new();
    let mut entries = tokio::fs::read_dir(folder).await?;
    while let Some(entry) = entries.next_entry().await? {
        let slash = if entry.file_type().await?.is_dir() { "/" } else { "" };
        names.push(format!("{}{slash}", entry.file_name().to_string_lossy()));
    }
    names.sort();
    let lines = names.iter().map(|name| {
        let shown = name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let shown = shown.replace('"', "&#34;").replace('\'', "&#39;");
        format!("<a href=\"{}\">{shown}</a>\n", escaped(name))
    });
    Ok(format!(
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n{}</pre>\n",
        lines.collect::<String>()
    ))
}

fn escaped(name: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    name.bytes().map(one).collect()
}

/// A response body: the first bytes, and then a file to its end.
struct Content {
    begin: Option<Bytes>,
    rest: Option<File>,
    piece: Vec<u8>,
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if let Some(begin) = this.begin.take().filter(|begin| !begin.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(begin))));
        }
        let Some(file) = &mut this.rest else { return Poll::Ready(None) };
        let mut room = ReadBuf::new(&mut this.piece);
        ready!(Pin::new(file).poll_read(cx, &mut room))?;
        let read = room.filled();
        if read.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(read)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn body(reply: Reply) -> String {
        let bytes = reply.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn files_are_read_and_folders_listed() {
        let folder = tempfile::TempDir::new().unwrap();
        let long = "a line\n".repeat(100_000);
        std::fs::create_dir(folder.path().join("pods")).unwrap();
        std::fs::write(folder.path().join("a b.log"), &long).unwrap();
        let logs = Logs { folder: folder.path().to_owned() };
        let of =
            async |path: &str| body(logs.reply(&percent_decode(path, false)).await.unwrap()).await;
        assert_eq!(of("/a%20b.log").await, long);
        let shown = of("/").await;
        assert!(shown.contains("<a href=\"a%20b.log\">a b.log</a>\n"), "{shown}");
        assert!(shown.contains("<a href=\"pods/\">pods/</a>\n"), "{shown}");
        assert_eq!(logs.reply("/pods").await.unwrap().status(), 301);
        assert_eq!(logs.reply("/x").await.unwrap_err().kind(), io::ErrorKind::NotFound);
        let outside = logs.reply("/pods/../../x").await.unwrap_err();
        assert_eq!(outside.kind(), io::ErrorKind::InvalidInput);
    }
}
