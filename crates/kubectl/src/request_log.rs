//! `-v`: logging of requests. Level 6 logs each request with its status, 7 also the request headers, 8 also the
//! response headers and the bodies, 9 longer bodies, 10 whole ones.

use std::time::Instant;

use hyper::{HeaderMap, Method, StatusCode};
use object::{Clock as _, SystemClock, quote::quote};

/// The request log of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestLog {
    pub(crate) level: i64,
    /// The base URL of paths.
    pub(crate) base: String,
}

/// A request that was sent.
#[derive(Debug)]
pub(crate) struct Sent {
    verb: Method,
    path: String,
    at: Instant,
}

impl RequestLog {
    /// Logs a request; returns what is needed to log its response.
    pub(crate) fn request(
        &self,
        verb: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Sent {
        if self.level >= 8 && !body.is_empty() {
            self.body("Request Body", body);
        }
        if self.level >= 7 {
            self.print_err(&format!(
                "\"Request\" verb={} url={} headers={}",
                quote(verb.as_str()),
                quote(&format!("{}{path}", self.base)),
                block(&lines(headers))
            ));
        }
        Sent { verb: verb.clone(), path: path.to_owned(), at: Instant::now() }
    }

    /// Logs the status and headers of a response.
    pub(crate) fn response(&self, sent: &Sent, status: StatusCode, headers: &HeaderMap) {
        if self.level < 6 {
            return;
        }
        let mut text = "\"Response\"".to_owned();
        if self.level < 7 {
            text += &format!(
                " verb={} url={}",
                quote(sent.verb.as_str()),
                quote(&format!("{}{}", self.base, sent.path))
            );
        }
        text += &format!(" status={}", quote(&status.to_string()));
        if self.level >= 8 {
            text += &format!(" headers={}", block(&lines(headers)));
        }
        self.print_err(&format!("{text} milliseconds={}", sent.at.elapsed().as_millis()));
    }

    /// Logs a whole response body.
    pub(crate) fn response_body(&self, body: &[u8]) {
        if self.level >= 8 {
            self.body("Response Body", body);
        }
    }

    fn body(&self, title: &str, body: &[u8]) {
        let most = match self.level {
            ..=8 => 1024,
            9 => 10240,
            _ => usize::MAX,
        };
        let text = String::from_utf8_lossy(body);
        let shown: String = text.chars().take(most).collect();
        let left = text.len() - shown.len();
        let more = if left > 0 { format!(" [truncated {left} chars]") } else { String::new() };
        self.print_err(&format!("\"{title}\" body={}", value(&(shown + &more))));
    }

    #[expect(clippy::unused_self, reason = "a log is what speaks")]
    fn print_err(&self, text: &str) {
        crate::stdio::write(&mut std::io::stderr(), format!("{}\n", line('I', text)).as_bytes());
    }
}

/// A log line in klog's format: severity, time, process id and text.
pub(crate) fn line(severity: char, text: &str) -> String {
    let now = jiff::Timestamp::from_microsecond(SystemClock.now_micros()).unwrap_or_default();
    let (now, pid) = (now.strftime("%m%d %H:%M:%S.%6f"), std::process::id());
    format!("{severity}{now} {pid:7} kubectl:1] {text}")
}

/// Formats headers, one per line, without credentials.
fn lines(headers: &HeaderMap) -> String {
    let mut all: Vec<String> = headers
        .iter()
        .map(|(name, value)| {
            let title: Vec<String> = name
                .as_str()
                .split('-')
                .map(|part| {
                    let mut chars = part.chars();
                    let first = chars.next().map(|c| c.to_ascii_uppercase());
                    first.into_iter().chain(chars).collect()
                })
                .collect();
            let shown = match name.as_str() {
                "authorization" => "<masked>".into(),
                _ => String::from_utf8_lossy(value.as_bytes()),
            };
            format!("{}: {shown}\n", title.join("-"))
        })
        .collect();
    all.sort();
    all.concat()
}

/// Formats a value on one line, or as a block if it has several.
fn value(text: &str) -> String {
    if text.contains('\n') { block(text) } else { quote(text) }
}

fn block(text: &str) -> String {
    if text.is_empty() {
        return "\"\"".to_owned();
    }
    let lines: String = text.trim_end_matches('\n').lines().map(|l| format!("\t{l}\n")).collect();
    format!("<\n{lines} >")
}

#[test]
fn headers_are_shown_without_credentials() {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", "Bearer secret".parse().expect("a value"));
    headers.insert("user-agent", "kubectl".parse().expect("a value"));
    assert_eq!(lines(&headers), "Authorization: <masked>\nUser-Agent: kubectl\n");
    assert_eq!(block("a\nb\n"), "<\n\ta\n\tb\n >");
    assert_eq!(value("{\"a\":1}"), "\"{\\\"a\\\":1}\"");
}
