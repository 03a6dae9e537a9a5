//! A blocking client of the API server: commands are synchronous code.

use std::{cell::RefCell, collections::HashSet, time::Duration};

use bytes::Bytes;
use client::{Client, Config, Error, Response, WebSocket};
use httpstream::spdy::{self, Connection};
use hyper::{
    HeaderMap, Method,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use object::{Value, from_json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Runtime,
};

use crate::{
    error::{CommandError, Result},
    print::json,
    request_log::RequestLog,
    stdio,
};

pub(crate) const JSON: &str = "application/json";

/// A client, and the Tokio runtime that drives it.
#[derive(Debug)]
pub(crate) struct Server {
    client: Client,
    runtime: Runtime,
    /// Host and port, for messages.
    pub(crate) address: String,
    /// The warnings of the server that were already printed.
    printed_warnings: RefCell<HashSet<String>>,
    log: RequestLog,
}

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

impl Server {
    pub(crate) fn new(config: Config, address: String, log: RequestLog) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CommandError::error(error.to_string()))?;
        let guard = runtime.enter();
        let client = Client::new(config);
        drop(guard);
        Ok(Self { client, runtime, address, printed_warnings: RefCell::default(), log })
    }

    /// Number of distinct warnings that the server sent.
    pub(crate) fn warnings(&self) -> usize {
        self.printed_warnings.borrow().len()
    }

    /// Blocks on a future, for code that runs several requests at once.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        self.get_as(path, JSON)
    }

    /// Gets an object in the media type `accept`.
    pub(crate) fn get_as(&self, path: &str, accept: &str) -> Result<Value> {
        let bytes = self.bytes(Method::GET, path, accept, None)?;
        decode(&bytes)
    }

    pub(crate) fn post(&self, path: &str, object: &Value) -> Result<Value> {
        let body = (JSON, json::compact(object).into_bytes());
        decode(&self.bytes(Method::POST, path, JSON, Some(body))?)
    }

    /// Creates an object, without its resourceVersion: an object that was read from a server has one, and a new
    /// object must not.
    pub(crate) fn create(&self, path: &str, object: &Value) -> Result<Value> {
        if object["metadata"]["resourceVersion"].is_null() {
            return self.post(path, object);
        }
        let mut object = object.clone();
        object["metadata"].remove("resourceVersion");
        self.post(path, &object)
    }

    pub(crate) fn put(&self, path: &str, object: &Value) -> Result<Value> {
        let body = (JSON, json::compact(object).into_bytes());
        decode(&self.bytes(Method::PUT, path, JSON, Some(body))?)
    }

    pub(crate) fn patch(&self, path: &str, kind: PatchType, patch: &Value) -> Result<Value> {
        let body = (kind.media_type(), json::compact(patch).into_bytes());
        decode(&self.bytes(Method::PATCH, path, JSON, Some(body))?)
    }

    pub(crate) fn delete(&self, path: &str, options: &Value) -> Result<Value> {
        let body = (JSON, json::compact(options).into_bytes());
        decode(&self.bytes(Method::DELETE, path, JSON, Some(body))?)
    }

    /// Sends any request, and returns the whole response body.
    pub(crate) fn bytes(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<Bytes> {
        self.runtime.block_on(async {
            let answer = self.send(method, path, accept, body).await?;
            let bytes = answer.bytes().await.map_err(|error| self.fail(error))?;
            self.log.response_body(&bytes);
            Ok(bytes)
        })
    }

    /// Passes each chunk of a streamed response to `take`, until that returns false.
    pub(crate) fn stream(&self, path: &str, mut take: impl FnMut(&[u8]) -> Result<bool>) -> Result {
        self.runtime.block_on(async {
            let mut answer = self.send(Method::GET, path, JSON, None).await?;
            while let Some(chunk) = answer.chunk().await.map_err(|error| self.fail(error))? {
                if !take(&chunk)? {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Passes each event of a watch to `take`, until that returns false, the server ends the watch, or `limit` has
    /// passed. Returns whether `take` ended it.
    pub(crate) fn watch(
        &self,
        path: &str,
        accept: &str,
        limit: Option<Duration>,
        mut take: impl FnMut(&str, &Value) -> Result<bool>,
    ) -> Result<bool> {
        let watching = async {
            let mut answer = self.send(Method::GET, path, accept, None).await?;
            let mut buffer: Vec<u8> = Vec::new();
            while let Some(chunk) = answer.chunk().await.map_err(|error| self.fail(error))? {
                buffer.extend_from_slice(&chunk);
                while let Some(end) = buffer.iter().position(|b| *b == b'\n') {
                    let line: Vec<u8> = buffer.drain(..=end).collect();
                    let event = decode(&line)?;
                    let kind = event["type"].as_str().unwrap_or_default();
                    if kind == "ERROR" {
                        let status = object::Status::from(event["object"].clone());
                        return Err(CommandError::Server { status, doing: String::new() });
                    }
                    if !take(kind, &event["object"])? {
                        return Ok(true);
                    }
                }
            }
            Ok(false)
        };
        self.runtime.block_on(async {
            match limit {
                None => watching.await,
                Some(limit) => tokio::time::timeout(limit, watching).await.unwrap_or(Ok(false)),
            }
        })
    }

    /// Sends one of several concurrent requests.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        let body = body.map(|body| (JSON, json::compact(body).into_bytes()));
        let answer = self.send(method, path, JSON, body).await?;
        decode(&answer.bytes().await.map_err(|error| self.fail(error))?)
    }

    /// Opens a response whose body is streamed.
    pub(crate) async fn open(&self, path: &str) -> Result<Response> {
        self.send(Method::GET, path, JSON, None).await
    }

    pub(crate) async fn websocket(&self, path: &str, protocols: &[&str]) -> Result<WebSocket> {
        self.client.upgrade(path, protocols).await.map_err(|error| self.fail(error))
    }

    /// Opens a SPDY connection with this subprotocol, for servers that do not support WebSockets.
    pub(crate) async fn spdy(&self, path: &str, protocol: &'static str) -> Result<Connection> {
        let mut headers = HeaderMap::new();
        headers.insert("x-stream-protocol-version", HeaderValue::from_static(protocol));
        let tunnel = self.client.tunnel(Method::POST, path, spdy::PROTOCOL, headers).await;
        let tunnel = tunnel.map_err(|error| self.fail(error))?;
        Ok(self.spdy_over(tunnel.io))
    }

    /// Starts the client side of SPDY on an established connection.
    pub(crate) fn spdy_over(&self, io: impl AsyncRead + AsyncWrite + Send + 'static) -> Connection {
        let _inside = self.runtime.enter();
        Connection::client(io)
    }

    /// Sends a request with any headers, and returns the response whatever its status is.
    pub(crate) async fn send_raw(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response> {
        self.client.request(method, path, headers, body).await.map_err(|error| self.fail(error))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<Response> {
        let mut headers = HeaderMap::new();
        let value = |text: &str| {
            HeaderValue::try_from(text).map_err(|error| CommandError::error(error.to_string()))
        };
        headers.insert(ACCEPT, value(accept)?);
        let mut bytes = Vec::new();
        if let Some((media_type, body)) = body {
            headers.insert(CONTENT_TYPE, value(media_type)?);
            bytes = body;
        }
        let sent = self.log.request(&method, path, &headers, &bytes);
        let answer = self
            .client
            .request(method, path, headers, bytes.into())
            .await
            .map_err(|error| self.fail(error))?;
        self.log.response(&sent, answer.status, &answer.headers);
        for warning in answer.headers.get_all("warning") {
            let text = warning.to_str().unwrap_or_default();
            let text = text
                .split_once('"')
                .map_or(text, |(_, text)| text.strip_suffix('"').unwrap_or(text));
            let text = text.replace("\\\"", "\"");
            if self.printed_warnings.borrow_mut().insert(text.clone()) {
                stdio::write(&mut std::io::stderr(), format!("Warning: {text}\n").as_bytes());
            }
        }
        answer.error_for_status().await.map_err(|error| self.fail(error))
    }

    fn fail(&self, error: Error) -> CommandError {
        match error {
            Error::Unavailable(why) if why.to_lowercase().contains("refused") => {
                CommandError::Raw(format!(
                    "The connection to the server {} was refused - did you specify the right host or port?",
                    self.address
                ))
            }
            Error::Unavailable(why) => {
                CommandError::Raw(format!("Unable to connect to the server: {why}"))
            }
            Error::Status(mut status) if status.message() == "404 page not found" => {
                status.set_message("the server could not find the requested resource");
                Error::Status(status).into()
            }
            other => other.into(),
        }
    }
}

fn decode(bytes: &[u8]) -> Result<Value> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    from_json(bytes).map_err(|error| CommandError::error(error.to_string()))
}
