//! An API client for one server and one user.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, WARNING},
};
use object::{Text, Value, WriteCause, bounded_wait};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::debug;

use crate::{
    CAUSE_HEADER, Config, Error, RequestObserver, Response, Sent, cause_to_header, codec,
    http2_connection::Body, pool::Pool,
};

/// Maximum number of retries when the server sends Retry-After.
const MAX_RETRIES: usize = 10;

/// An API client. Clones are cheap and share connections.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) pool: Arc<Pool>,
    config: Arc<Config>,
    headers: HeaderMap,
    manager: Text,
    observer: Option<Arc<dyn RequestObserver>>,
}

impl Client {
    pub fn new(config: Config) -> Self {
        let mut headers = config.headers.clone();
        if let Ok(agent) = HeaderValue::try_from(&config.user_agent) {
            headers.insert(USER_AGENT, agent);
        }
        Self {
            pool: Arc::new(Pool::new(config.connect.clone())),
            headers,
            manager: (&*config.field_manager).into(),
            config: Arc::new(config),
            observer: None,
        }
    }

    /// The same client; its writes carry `cause`.
    pub fn with_cause(&self, cause: &WriteCause) -> Self {
        let mut this = self.clone();
        match cause_to_header(cause) {
            Some(header) => this.headers.insert(CAUSE_HEADER, header),
            None => this.headers.remove(CAUSE_HEADER),
        };
        this
    }

    /// The same client with another user agent.
    pub fn with_user_agent(&self, agent: &str) -> Self {
        let mut this = self.clone();
        if let Ok(agent) = HeaderValue::try_from(agent) {
            this.headers.insert(USER_AGENT, agent);
        }
        this
    }

    /// The same client with another field manager.
    pub fn with_field_manager(&self, manager: &str) -> Self {
        Self { manager: manager.into(), ..self.clone() }
    }

    /// The same, with its requests observed.
    #[must_use]
    pub fn observed(&self, observer: &Arc<dyn RequestObserver>) -> Self {
        Self { observer: Some(observer.clone()), ..self.clone() }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The namespace of objects that specify none.
    pub fn default_namespace(&self) -> &str {
        &self.config.namespace
    }

    pub(crate) fn field_manager(&self) -> &str {
        &self.manager
    }

    /// Sends a request and returns the response, whatever its status. The headers must arrive within the timeout; the
    /// body may take any time.
    pub async fn request(
        &self,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response, Error> {
        let until = Instant::now() + self.config.timeout;
        let (mut tries, mut asked_again) = (0, false);
        loop {
            let request = self.prepare(&method, path_and_query, &headers, body.clone()).await?;
            let began = Instant::now();
            let sent = timeout_at(until, self.pool.send(request)).await;
            let sent = sent.map_err(|_| Error::unavailable("no answer in time")).flatten();
            let status = sent.as_ref().ok().map(|(answer, _)| answer.status().as_u16());
            let host = self.config.connect.authority();
            let observed =
                Sent { method: method.as_str(), host, size: body.len(), status, retry: false };
            self.observe(observed, began);
            let (answer, place) = sent?;
            let answer = Response::new(answer, place);
            self.report_warnings(&answer.headers);
            tries += 1;
            if answer.status == StatusCode::UNAUTHORIZED && !asked_again {
                asked_again = self.config.auth.on_unauthorized().await;
                if asked_again {
                    continue;
                }
            }
            match retry_after(&answer) {
                Some(wait)
                    if self.config.retries
                        && tries < MAX_RETRIES
                        && Instant::now() + wait < until =>
                {
                    self.observe(Sent { retry: true, ..observed }, began);
                    sleep(wait).await;
                }
                _ => return Ok(answer),
            }
        }
    }

    /// Sends a request and decodes the object in the response, all within the timeout.
    pub async fn call(
        &self,
        method: Method,
        path_and_query: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Value, Error> {
        let mut headers = HeaderMap::new();
        if !body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        let until = Instant::now() + self.config.timeout;
        let answer = async {
            let answer = self.request(method, path_and_query, headers, body).await?;
            answer.error_for_status().await?.bytes().await
        };
        let bytes = timeout_at(until, answer).await;
        codec::decode(&bytes.map_err(|_| Error::unavailable("no answer in time"))??)
    }

    /// Closes all connections after the requests in flight. New connections use renewed certificates.
    pub async fn reconnect(&self) {
        self.pool.clear().await;
    }

    fn observe(&self, sent: Sent<'_>, began: Instant) {
        if let Some(observer) = &self.observer {
            observer.observe(&sent, began.elapsed());
        }
    }

    fn report_warnings(&self, headers: &HeaderMap) {
        for header in headers.get_all(WARNING) {
            let text = warning_text(&String::from_utf8_lossy(header.as_bytes()));
            if let Some(tell) = &self.config.on_warning {
                tell.0(&text);
            } else {
                debug!("warning from the API server: {text}");
            }
        }
    }

    pub(crate) async fn prepare(
        &self,
        method: &Method,
        path_and_query: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Request<Body>, Error> {
        let uri = format!("{}{path_and_query}", self.config.base);
        let uri = Uri::try_from(uri)
            .map_err(|error| Error::Invalid(format!("{path_and_query:?}: {error}")))?;
        let mut request = Request::new(Body::new(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri;
        let all = request.headers_mut();
        all.extend(self.headers.clone());
        all.insert(ACCEPT, HeaderValue::from_static(codec::ACCEPTED));
        if let Some(auth) = self.config.auth.header().await? {
            all.insert(AUTHORIZATION, auth);
        }
        all.extend(headers.clone());
        Ok(request)
    }
}

/// The Retry-After delay, if the server asks for a retry.
fn retry_after(answer: &Response) -> Option<Duration> {
    let busy = answer.status == StatusCode::TOO_MANY_REQUESTS || answer.status.is_server_error();
    let after = answer.headers.get(RETRY_AFTER).filter(|_| busy)?;
    Some(bounded_wait(Duration::from_secs(after.to_str().ok()?.parse().ok()?)))
}

/// The text of a Warning header: `299 - "text"`, unescaped.
fn warning_text(header: &str) -> String {
    let quoted = header.split_once('"').map_or(header, |(_, rest)| rest);
    quoted.strip_suffix('"').unwrap_or(quoted).replace("\\\"", "\"").replace("\\\\", "\\")
}

#[test]
fn warnings_lose_their_quotes() {
    assert_eq!(warning_text(r#"299 - "v1 \"Thing\" is old""#), r#"v1 "Thing" is old"#);
}
