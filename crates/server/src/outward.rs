//! Requests of the server's own to others: webhooks of every sort. Each has a deadline
//! and a bound on what comes back.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use client::{Connect, Tcp, Use};
use http::{
    HeaderMap, Method, StatusCode,
    header::{CONTENT_TYPE, HOST},
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use crate::trace;

/// Nobody has more to say than this.
const LARGEST: usize = 10 << 20;

/// Somebody to ask.
#[derive(Clone, Debug)]
pub struct Remote {
    pub to: Tcp,
    /// What the Host header says, where it is not the address.
    pub host: Option<String>,
    /// With the query.
    pub path: String,
    /// What else to say, like who asks.
    pub headers: HeaderMap,
}

impl Remote {
    /// The address as messages show it.
    pub fn url(&self) -> String {
        let host = self.host.as_deref().unwrap_or_else(|| self.to.authority());
        format!("{}://{host}{}", self.to.scheme(), self.path)
    }

    /// Posts JSON and gives what comes back.
    pub async fn post(
        &self,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<(StatusCode, Bytes), String> {
        self.ask(Method::POST, body, within).await
    }

    pub async fn get(&self, within: Duration) -> Result<(StatusCode, Bytes), String> {
        self.ask(Method::GET, Vec::new(), within).await
    }

    async fn ask(
        &self,
        method: Method,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<(StatusCode, Bytes), String> {
        let name = if method == Method::GET { "HTTP GET" } else { "HTTP POST" };
        let about =
            || vec![("http.request.method", name[5..].into()), ("url.full", self.url().into())];
        let exchanged = trace::span(name, about, self.exchange(method, body));
        match timeout(within, exchanged).await {
            Ok(done) => done,
            Err(_) => Err("context deadline exceeded".to_owned()),
        }
    }

    async fn exchange(&self, method: Method, body: Vec<u8>) -> Result<(StatusCode, Bytes), String> {
        let connected = self.to.connect(Use::Upgrade).await.map_err(|error| error.to_string())?;
        let said = |error: hyper::Error| error.to_string();
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(connected.io)).await.map_err(said)?;
        let host = self.host.as_deref().unwrap_or_else(|| self.to.authority());
        let mut request = http::Request::builder()
            .method(method)
            .uri(self.path.as_str())
            .header(HOST, host)
            .header(CONTENT_TYPE, "application/json")
            .header(http::header::ACCEPT, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| error.to_string())?;
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
        trace::pass_on(request.headers_mut());
        let answer = async move {
            let reply = sender.send_request(request).await.map_err(said)?;
            let (head, body) = reply.into_parts();
            let body = Limited::new(body, LARGEST).collect().await;
            let body = body.map_err(|error| error.to_string())?;
            Ok((head.status, body.to_bytes()))
        };
        let (mut answer, mut connection) = (pin!(answer), pin!(connection));
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                done = &mut answer => return done,
                ended = &mut connection, if open => {
                    open = false;
                    ended.map_err(said)?;
                }
            }
        }
    }
}
