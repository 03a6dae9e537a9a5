//! Pages behind a proxy name their links from the root of their own server. On their way to the
//! browser these are made to lead back through the proxy.

use std::{
    io::{self, Write as _},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use flate2::write::GzDecoder;
use http::{
    HeaderMap, HeaderValue,
    header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS,
        ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_ENCODING,
        CONTENT_LENGTH, CONTENT_TYPE, LOCATION,
    },
};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};
use server::{Body, Reply};

/// A longer tag is passed on as it is.
const LONGEST: usize = 64 << 10;
/// Which attributes of which tags are links.
const ATTRIBUTES: [(&str, &[&str]); 26] = [
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["formaction", "src", "usemap"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("track", &["src"]),
    ("video", &["poster", "src"]),
];
/// What a server says to browsers about other pages, which is not its to say here.
const CORS: [http::HeaderName; 4] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// Where links lead now.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The path to the proxy, without a slash at its end.
    pub(super) prefix: String,
    /// Hosts that mean the server behind the proxy.
    pub(super) hosts: [String; 2],
}

/// The answer of what is behind a proxy, as the client sees it.
pub(super) fn through(way: Way, mut reply: Reply) -> Reply {
    let headers = reply.headers_mut();
    for name in CORS {
        headers.remove(name);
    }
    if let Some(place) = headers.get(LOCATION) {
        let place = place.to_str().ok().and_then(|place| way.link(place));
        if let Some(place) = place.and_then(|place| HeaderValue::from_str(&place).ok()) {
            headers.insert(LOCATION, place);
        }
        return reply;
    }
    let text = |headers: &HeaderMap, name| {
        let value = headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        value.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    };
    let unpack = match &*text(headers, CONTENT_ENCODING) {
        "" | "identity" => None,
        "gzip" => Some(GzDecoder::new(Vec::new())),
        _ => return reply, // in a form that is not ours to read
    };
    if text(headers, CONTENT_TYPE) != "text/html" {
        return reply;
    }
    headers.remove(CONTENT_ENCODING);
    headers.remove(CONTENT_LENGTH);
    let links = Links { way, kept: Vec::new(), raw: None };
    reply.map(|body| Page { body, unpack, links, over: false }.boxed_unsync())
}

impl Way {
    /// Where a link leads now; `None`: where it did.
    fn link(&self, url: &str) -> Option<String> {
        let rest = match url.split_once("://") {
            Some((scheme, rest)) if !scheme.contains(['/', '?', '#']) => Some(rest),
            _ => url.strip_prefix("//"),
        };
        let path = match rest {
            None => url,
            Some(rest) => {
                let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                if !self.hosts.iter().any(|own| own == host) {
                    return None;
                }
                path
            }
        };
        let inside = |rest: &str| rest.is_empty() || rest.starts_with(['/', '?', '#']);
        if !path.starts_with('/') {
            None // relative to the page
        } else if path.strip_prefix(&*self.prefix).is_some_and(inside) {
            Some(path.to_owned())
        } else {
            Some(format!("{}{path}", self.prefix))
        }
    }
}

/// Rewrites a page as it comes.
#[derive(Debug)]
struct Links {
    way: Way,
    /// The beginning of a tag whose end has not come yet.
    kept: Vec<u8>,
    /// The tag whose text is no page: nothing is a tag before its end.
    raw: Option<&'static str>,
}

impl Links {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.kept.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.kept);
        let mut rest = &all[..];
        while let Some(at) = rest.iter().position(|byte| *byte == b'<') {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let Some(end) = end_of_tag(rest) else {
                if rest.len() > LONGEST {
                    break;
                }
                self.kept = rest.to_vec();
                return;
            };
            self.tag(&rest[..end], out);
            rest = &rest[end..];
        }
        out.extend_from_slice(rest);
    }

    /// Writes a tag, from `<` to `>`, with its links changed.
    fn tag(&mut self, tag: &[u8], out: &mut Vec<u8>) {
        let Ok(text) = std::str::from_utf8(tag) else { return out.extend_from_slice(tag) };
        let inner = text.trim_start_matches('<');
        let named = |inner: &str| {
            let end = inner.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(inner.len());
            inner[..end].to_ascii_lowercase()
        };
        if let Some(raw) = self.raw {
            if inner.strip_prefix('/').is_some_and(|inner| named(inner) == raw) {
                self.raw = None;
            }
            return out.extend_from_slice(tag);
        }
        let name = named(inner);
        self.raw = ["script", "style"].into_iter().find(|raw| *raw == name);
        match ATTRIBUTES.iter().find(|(tag, _)| *tag == name) {
            Some((_, links)) => out.extend_from_slice(self.linked(text, links).as_bytes()),
            None => out.extend_from_slice(tag),
        }
    }

    fn linked(&self, tag: &str, links: &[&str]) -> String {
        let mut out = String::with_capacity(tag.len() + self.way.prefix.len());
        let mut rest = tag;
        while let Some(at) = rest.find('=') {
            let before = rest[..at].trim_end();
            let start = before.rfind(|c: char| c.is_whitespace() || c == '/').map_or(0, |n| n + 1);
            let name = before[start..].to_ascii_lowercase();
            let value = rest[at + 1..].trim_start();
            let skipped = rest.len() - value.len();
            let (value, open) = if let Some(quote @ ('"' | '\'')) = value.chars().next() {
                let inner = &value[1..];
                (&inner[..inner.find(quote).unwrap_or(inner.len())], 1)
            } else {
                let end = value.find(|c: char| c.is_whitespace() || c == '>');
                (&value[..end.unwrap_or(value.len())], 0)
            };
            let begin = skipped + open;
            out.push_str(&rest[..begin]);
            let changed = links.contains(&&*name).then(|| self.way.link(value.trim())).flatten();
            out.push_str(changed.as_deref().unwrap_or(value));
            rest = &rest[begin + value.len()..];
            if open == 1 && !rest.is_empty() {
                out.push_str(&rest[..1]);
                rest = &rest[1..];
            }
        }
        out + rest
    }
}

/// Behind the `>` that ends a tag: one in quotes does not.
fn end_of_tag(tag: &[u8]) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.iter().enumerate() {
        match (*byte, quote) {
            (b'>', None) => return Some(at + 1),
            (b'"' | b'\'', None) if tag[..at].trim_ascii_end().ends_with(b"=") => {
                quote = Some(*byte);
            }
            (byte, Some(open)) if byte == open => quote = None,
            _ => {}
        }
    }
    None
}

struct Page {
    body: Body,
    unpack: Option<GzDecoder<Vec<u8>>>,
    links: Links,
    over: bool,
}

impl Page {
    fn read(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len());
        match &mut self.unpack {
            None => self.links.feed(bytes, &mut out),
            Some(unpack) => {
                unpack.write_all(bytes)?;
                unpack.flush()?;
                let plain = std::mem::take(unpack.get_mut());
                self.links.feed(&plain, &mut out);
            }
        }
        Ok(out)
    }
}

impl HttpBody for Page {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            if self.over {
                return Poll::Ready(None);
            }
            let out = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => self.read(&bytes)?,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Poll::Ready(None) => {
                    self.over = true;
                    std::mem::take(&mut self.links.kept)
                }
            };
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out.into()))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way() -> Way {
        Way { prefix: "/p/proxy".into(), hosts: ["10.0.0.1:80".into(), "api:6443".into()] }
    }

    fn page(pieces: &[&str]) -> String {
        let mut links = Links { way: way(), kept: Vec::new(), raw: None };
        let mut out = Vec::new();
        pieces.iter().for_each(|piece| links.feed(piece.as_bytes(), &mut out));
        out.append(&mut links.kept);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn links_from_the_root_lead_through_the_proxy() {
        for (link, leads) in [
            ("/a", Some("/p/proxy/a")),
            ("/a/?b=/c", Some("/p/proxy/a/?b=/c")),
            ("a", None),
            ("?a", None),
            ("/p/proxy/a", Some("/p/proxy/a")),
            ("/p/proxyless", Some("/p/proxy/p/proxyless")),
            ("http://10.0.0.1:80/a", Some("/p/proxy/a")),
            ("//api:6443/a", Some("/p/proxy/a")),
            ("https://elsewhere.example/a", None),
            ("mailto:a", None),
        ] {
            assert_eq!(way().link(link).as_deref(), leads, "{link}");
        }
    }

    #[test]
    fn only_links_of_tags_are_changed() {
        assert_eq!(
            page(&[r#"<p x="/a"> /b <a class=c href="/rewriteme">test</a> <img src=/i.png>"#]),
            r#"<p x="/a"> /b <a class=c href="/p/proxy/rewriteme">test</a> <img src=/p/proxy/i.png>"#
        );
        assert_eq!(
            page(&[
                "<scr",
                "ipt src = '/s",
                ".js'>x = '<a href=\"/n\">'</script><a hre",
                "f='/y'>"
            ]),
            "<script src = '/p/proxy/s.js'>x = '<a href=\"/n\">'</script><a href='/p/proxy/y'>"
        );
        assert_eq!(page(&["a < b <a href=\"/x>y\" "]), "a < b <a href=\"/x>y\" ");
    }
}
