//! HTTP client for the server's own requests to webhooks. Each request has a timeout and a maximum
//! response size.

mod connection_pool;
mod response;
mod rest_client_metrics;

use std::time::Duration;

use bytes::Bytes;
use client::{Connector, TcpConnector};
use http::{
    HeaderMap, Method, Request, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT},
};
use http_body_util::Full;
use object::{Value, to_json};
use tokio::time::{Instant, timeout};

use self::rest_client_metrics::RequestLabels;
pub use self::{connection_pool::ConnectionPool, response::server_response};
use crate::{VERSION, non_resource::architecture, trace};

/// A webhook endpoint.
#[derive(Clone, Debug)]
pub struct WebhookClient {
    pub to: TcpConnector,
    /// The Host header, if it differs from the address.
    pub host: Option<String>,
    /// Path and query.
    pub path: String,
    /// Additional headers, such as credentials.
    pub headers: HeaderMap,
    /// Pool of connections to reuse.
    pub pool: ConnectionPool,
}

impl WebhookClient {
    /// The URL for messages.
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.to.scheme(), self.host(), self.path)
    }

    /// Posts an object and decodes the object in the response.
    pub async fn post_review(&self, review: &Value, within: Duration) -> Result<Value, String> {
        let asked = self.send(Method::POST, to_json(review), within).await;
        let answer = asked.map_err(|why| format!("Post {:?}: {why}", self.url()))?;
        let read = panics::catch("webhook", || response::read(&answer));
        read.unwrap_or_else(|panicked| Err(panicked.to_string()))
    }

    /// Posts JSON and returns status and body.
    pub async fn post(
        &self,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<(StatusCode, Bytes), String> {
        let answer = self.send(Method::POST, body, within).await?;
        Ok((answer.status(), answer.into_body()))
    }

    /// Sends a GET request and returns status and body.
    pub async fn get(&self, within: Duration) -> Result<(StatusCode, Bytes), String> {
        let answer = self.send(Method::GET, Vec::new(), within).await?;
        Ok((answer.status(), answer.into_body()))
    }

    async fn send(
        &self,
        method: Method,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<Response<Bytes>, String> {
        let (name, verb) = match method == Method::GET {
            true => ("HTTP GET", "GET"),
            false => ("HTTP POST", "POST"),
        };
        let about = || vec![("http.request.method", verb.into()), ("url.full", self.url().into())];
        let (began, size) = (Instant::now(), body.len());
        let exchanged = trace::span(name, about, self.exchange(method, body));
        let done = panics::contain("webhook", timeout(within, exchanged)).await;
        let done = done.unwrap_or_else(|panicked| Ok(Err(panicked.to_string())));
        let done = done.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        let asked = RequestLabels { host: self.host(), method: verb, size };
        self.pool.tally().count(asked, &done, began.elapsed());
        done
    }

    async fn exchange(&self, method: Method, body: Vec<u8>) -> Result<Response<Bytes>, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.path.as_str())
            .header(HOST, self.host())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, format!("kube-apiserver/{VERSION} (linux/{})", architecture()))
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| error.to_string())?;
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        trace::inject_trace_context(request.headers_mut());
        self.pool.ask(&self.to, request).await
    }

    fn host(&self) -> &str {
        self.host.as_deref().unwrap_or_else(|| self.to.authority())
    }
}
