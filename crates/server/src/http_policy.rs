//! What is said to every caller, whatever is asked: who may read the answer in a
//! browser, that TLS is meant to stay, and when a connection has lived long enough.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header, request::Parts};
use regex::Regex;

use crate::{Reply, registry::random_fraction, respond::raw};

const METHODS: &str = "POST, GET, OPTIONS, PUT, DELETE, PATCH";
const HEADERS: &str = "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, \
                       X-Requested-With, If-Modified-Since";

#[derive(Clone, Debug, Default)]
pub struct HttpPolicy {
    /// From where pages may call; nobody's may if there is none.
    pub origins: Vec<Regex>,
    /// The directives of Strict-Transport-Security; empty: it is not sent.
    pub hsts_directives: Vec<String>,
    /// How likely a request is the last of its connection, so that clients spread
    /// over servers anew.
    pub goaway_chance: f64,
}

impl HttpPolicy {
    /// Where the page is from that calls, if it may.
    pub(crate) fn origin(&self, head: &Parts) -> Option<HeaderValue> {
        let origin = head.headers.get(header::ORIGIN)?;
        let text = origin.to_str().ok()?;
        self.origins.iter().any(|own| own.is_match(text)).then(|| origin.clone())
    }

    /// The answer to a browser that asks whether it may ask.
    pub(crate) fn preflight(head: &Parts, origin: Option<&HeaderValue>) -> Option<Reply> {
        (origin.is_some() && head.method == Method::OPTIONS).then(|| {
            let mut reply = raw(204, "", Vec::new());
            reply.headers_mut().clear();
            reply
        })
    }

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

    /// Whether this request is the last of its connection.
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
