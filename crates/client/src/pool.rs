//! The connection pool of a client. HTTP/2 connections are shared, and further ones are opened when they are full; with
//! an HTTP/1.1 server each request has its own connection.

use std::sync::Arc;

use http::{HeaderValue, Request, Response, Uri, header::HOST};
use hyper::body::Incoming;
use tokio::sync::Mutex;

use crate::{
    Connection, ConnectionUse, Connector, Error,
    http2_connection::{self, Body, Http2Connection, StreamPermit},
};

/// The open connections of a client.
#[derive(Debug)]
pub(crate) struct Pool {
    connect: Arc<dyn Connector>,
    connections: Mutex<Vec<Http2Connection>>,
}

enum PooledConnection {
    Shared(Http2Connection, StreamPermit),
    Own(Connection),
}

impl Pool {
    pub(crate) fn new(connect: Arc<dyn Connector>) -> Self {
        Self { connect, connections: Mutex::default() }
    }

    /// Sends `request`, whose URI is a path. If the connection closes before it accepted the request, another one is
    /// used.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<(Response<Incoming>, Option<StreamPermit>), Error> {
        loop {
            let (mut line, place) = match self.acquire().await? {
                PooledConnection::Own(connected) => {
                    return self.send_once(connected, request).await;
                }
                PooledConnection::Shared(line, place) => (line, place),
            };
            *request.uri_mut() = self.absolute_uri(&request)?;
            request.headers_mut().remove(HOST); // HTTP/2 has it in the URI
            match line.send.try_send_request(request).await {
                Ok(answer) => return Ok((answer, Some(place))),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if line.is_closed() => request = unsent,
                    _ => return Err(failed.into_error().into()),
                },
            }
        }
    }

    /// Sends `request` on its own connection, which it may upgrade.
    pub(crate) async fn upgrade(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, Error> {
        let connected = self.connect.connect(ConnectionUse::Upgrade).await?;
        Ok(self.send_once(connected, request).await?.0)
    }

    pub(crate) async fn clear(&self) {
        self.connections.lock().await.clear();
    }

    async fn acquire(&self) -> Result<PooledConnection, Error> {
        let mut lines = self.connections.lock().await; // while one task connects, the others wait for it
        lines.retain(|line| !line.is_closed());
        let free = lines.iter().find_map(|line| Some((line.clone(), line.try_acquire()?)));
        if let Some((line, place)) = free {
            return Ok(PooledConnection::Shared(line, place));
        }
        let connected = self.connect.connect(ConnectionUse::Requests).await?;
        if !connected.http2 {
            return Ok(PooledConnection::Own(connected));
        }
        let line = Http2Connection::open(connected).await?;
        let place =
            line.try_acquire().ok_or_else(|| Error::unavailable("the connection closed"))?;
        lines.push(line.clone());
        Ok(PooledConnection::Shared(line, place))
    }

    async fn send_once(
        &self,
        connected: Connection,
        mut request: Request<Body>,
    ) -> Result<(Response<Incoming>, Option<StreamPermit>), Error> {
        if !request.headers().contains_key(HOST) {
            let host = HeaderValue::try_from(self.connect.authority())
                .map_err(|error| Error::Invalid(error.to_string()))?;
            request.headers_mut().insert(HOST, host);
        }
        Ok((http2_connection::send_once(connected, request).await?, None))
    }

    /// The URI of a request over HTTP/2, for the host of its Host header if it has one.
    fn absolute_uri(&self, request: &Request<Body>) -> Result<Uri, Error> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let host = request.headers().get(HOST).map(HeaderValue::as_bytes);
        Uri::builder()
            .scheme(self.connect.scheme())
            .authority(host.unwrap_or(self.connect.authority().as_bytes()))
            .path_and_query(path)
            .build()
            .map_err(|error| Error::Invalid(error.to_string()))
    }
}
