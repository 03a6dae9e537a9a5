//! HTTP behaviour that is independent of the request: CORS, HSTS, and closing connections at random
//! (GOAWAY) so that clients rebalance.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header, request::Parts};
use regex::Regex;

use crate::{Reply, registry::random_fraction, respond::raw};

const METHODS: &str = "POST, GET, OPTIONS, PUT, DELETE, PATCH";
const HEADERS: &str = "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, \
                       X-Requested-With, If-Modified-Since";

/// CORS, HSTS and GOAWAY settings.
#[derive(Clone, Debug, Default)]
pub struct HttpPolicy {
    /// Allowed CORS origins; empty disables CORS.
    pub origins: Vec<Regex>,
    /// The directives of the Strict-Transport-Security header; empty: it is not sent.
    pub hsts_directives: Vec<String>,
    /// The probability that a request is the last of its HTTP/2 connection, so that clients
    /// reconnect and spread over the servers.
    pub goaway_chance: f64,
}

impl HttpPolicy {
    /// The origin of a CORS request, if it is allowed.
    pub(crate) fn origin(&self, head: &Parts) -> Option<HeaderValue> {
        let origin = head.headers.get(header::ORIGIN)?;
        let text = origin.to_str().ok()?;
        self.origins.iter().any(|own| own.is_match(text)).then(|| origin.clone())
    }

    /// The response to a CORS preflight request.
    pub(crate) fn preflight(head: &Parts, origin: Option<&HeaderValue>) -> Option<Reply> {
        (origin.is_some() && head.method == Method::OPTIONS).then(|| {
            let mut reply = raw(204, "", Vec::new());
            reply.headers_mut().clear();
            reply
        })
    }

    /// Adds the CORS and HSTS headers to a response.
    pub(crate) fn add_headers(&self, headers: &mut HeaderMap, origin: Option<HeaderValue>) {
        if let Some(origin) = origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            let mut say = |name: HeaderName, value: &'static str| {
                headers.insert(name, HeaderValue::from_static(value));
            };
            say(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            say(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
            say(header::ACCESS_CONTROL_EXPOSE_HEADERS, "Date");
            say(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
        }
        if let (false, Ok(directives)) = (
            self.hsts_directives.is_empty()
                || headers.contains_key(header::STRICT_TRANSPORT_SECURITY),
            HeaderValue::from_str(&self.hsts_directives.join("; ")),
        ) {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, directives);
        }
    }

    /// Whether the connection is closed after this request.
    pub(crate) fn should_go_away(&self) -> bool {
        self.goaway_chance > 0.0 && random_fraction() < self.goaway_chance
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn only_known_pages_may_call() {
        let origin = Regex::new(r"//example\.com(:|$)").expect("a pattern");
        let edge = HttpPolicy { origins: vec![origin], ..HttpPolicy::default() };
        for (from, allowed) in
            [("https://example.com", true), ("https://example.com.evil.test", false)]
        {
            let request = Request::options("/api").header("origin", from).body(()).expect("right");
            let (head, ()) = request.into_parts();
            let origin = edge.origin(&head);
            assert_eq!(origin.is_some(), allowed, "{from}");
            assert_eq!(HttpPolicy::preflight(&head, origin.as_ref()).is_some(), allowed);
            let mut headers = HeaderMap::new();
            edge.add_headers(&mut headers, origin);
            assert_eq!(headers.len(), if allowed { 5 } else { 0 });
        }
    }
}
