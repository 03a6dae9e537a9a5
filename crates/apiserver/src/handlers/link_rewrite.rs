//! Rewriting of links in pages behind a proxy: links from the root of the target are made to lead
//! back through the proxy.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

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

/// Maximum length of a tag in bytes; a longer one is passed on unchanged.
const LONGEST: usize = 64 << 10;
/// Attributes that are links, by tag.
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
/// CORS headers of the target, which are removed, because the target must not decide them for this
/// server's origin.
const CORS: [http::HeaderName; 4] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// How links are rewritten.
#[derive(Clone, Debug)]
pub(super) struct LinkRewrite {
    /// Path of the proxy, without a trailing slash.
    pub(super) prefix: String,
    /// Hosts that mean the target.
    pub(super) hosts: [String; 2],
}

/// Rewrites the response of a proxied target: the Location header, and the links of an HTML page.
pub(super) fn through(way: LinkRewrite, mut reply: Reply) -> Reply {
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
        _ => return reply, // an encoding that is not supported
    };
    if text(headers, CONTENT_TYPE) != "text/html" {
        return reply;
    }
    headers.remove(CONTENT_ENCODING);
    headers.remove(CONTENT_LENGTH);
    reply.map(|body| RewrittenBody::new(body, unpack, way).boxed_unsync())
}

impl LinkRewrite {
    /// The rewritten link; `None` if it stays as it is.
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

/// Rewrites a page as a stream. Text, and tags that are too long, pass unchanged.
#[derive(Debug)]
struct HtmlRewriter {
    way: LinkRewrite,
    /// The beginning of a tag whose end has not arrived yet.
    kept: Vec<u8>,
    /// The state of the search for its end.
    scan: TagScan,
    /// The element whose content is not HTML (script or style): no tag is recognized before its
    /// end.
    raw: Option<&'static str>,
}

impl HtmlRewriter {
    fn new(way: LinkRewrite) -> Self {
        Self { way, kept: Vec::new(), scan: TagScan::default(), raw: None }
    }

    fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            if self.kept.is_empty() {
                let text = bytes.iter().position(|byte| *byte == b'<').unwrap_or(bytes.len());
                let (text, tag) = bytes.split_at(text);
                out.extend_from_slice(text);
                bytes = tag;
                self.scan = TagScan::default();
            }
            let end = self.scan.end(bytes);
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.kept.extend_from_slice(part);
            bytes = rest;
            if end.is_some() {
                let tag = std::mem::take(&mut self.kept);
                self.tag(&tag, out);
            } else if self.kept.len() > LONGEST {
                out.append(&mut self.kept);
            }
        }
    }

    /// Writes a tag, from `<` to `>`, with its links rewritten.
    fn tag(&mut self, tag: &[u8], out: &mut Vec<u8>) {
        let start = tag.iter().position(|byte| *byte != b'<').unwrap_or(tag.len());
        let (_, inner) = tag.split_at(start);
        if let Some(raw) = self.raw {
            let ends = |inner: &[u8]| name_of(inner).eq_ignore_ascii_case(raw.as_bytes());
            if inner.strip_prefix(b"/").is_some_and(ends) {
                self.raw = None;
            }
            return out.extend_from_slice(tag);
        }
        let name = name_of(inner);
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        self.raw = ["script", "style"].into_iter().find(|raw| is(raw));
        match ATTRIBUTES.iter().find(|(tag, _)| is(tag)) {
            Some((_, links)) => self.linked(tag, links, out),
            None => out.extend_from_slice(tag),
        }
    }

    fn linked(&self, tag: &[u8], links: &[&str], out: &mut Vec<u8>) {
        let mut rest = tag;
        while let Some((before, [_, behind @ ..])) =
            rest.iter().position(|byte| *byte == b'=').and_then(|at| rest.split_at_checked(at))
        {
            let separates = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'/';
            let name = before.trim_ascii_end().rsplit(separates).next().unwrap_or_default();
            let value = behind.trim_ascii_start();
            let quote = value.first().copied().filter(|byte| matches!(byte, b'"' | b'\''));
            let begin = rest.len() - value.len() + usize::from(quote.is_some());
            let ends = |byte: &u8| match quote {
                Some(quote) => *byte == quote,
                None => byte.is_ascii_whitespace() || *byte == b'>',
            };
            let (start, value) = rest.split_at(begin);
            let (value, after) = value.split_at(value.iter().position(ends).unwrap_or(value.len()));
            out.extend_from_slice(start);
            let known = links.iter().any(|link| name.eq_ignore_ascii_case(link.as_bytes()));
            let link = str::from_utf8(value).ok().filter(|_| known);
            match link.and_then(|link| self.way.link(link.trim())) {
                Some(changed) => out.extend_from_slice(changed.as_bytes()),
                None => out.extend_from_slice(value),
            }
            rest = after;
            if let (Some(_), [quote, behind @ ..]) = (quote, rest) {
                out.push(*quote);
                rest = behind;
            }
        }
        out.extend_from_slice(rest);
    }
}

/// The tag name: the letters and digits that it begins with.
fn name_of(tag: &[u8]) -> &[u8] {
    let end = tag.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(tag.len());
    tag.split_at(end).0
}

/// Searches for the `>` that ends a tag, ignoring those in quotes.
#[derive(Debug, Default)]
struct TagScan {
    quote: Option<u8>,
    /// Whether a value may begin: the last byte that was not white space was `=`.
    assigns: bool,
}

impl TagScan {
    /// Continues with these bytes; returns the position behind the end, if it is among them.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            match (*byte, self.quote) {
                (b'>', None) => return Some(at + 1),
                (b'"' | b'\'', None) if self.assigns => self.quote = Some(*byte),
                (byte, Some(open)) if byte == open => self.quote = None,
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                self.assigns = *byte == b'=';
            }
        }
        None
    }
}

/// How many bytes of a compressed page are decompressed at a time: they may expand a thousandfold.
const PACKED: usize = 512;

/// A response body whose links are rewritten.
struct RewrittenBody {
    body: Body,
    unpack: Option<GzDecoder<Vec<u8>>>,
    /// Compressed bytes that have arrived and are not decompressed yet.
    packed: Bytes,
    links: HtmlRewriter,
    over: bool,
}

impl RewrittenBody {
    fn new(body: Body, unpack: Option<GzDecoder<Vec<u8>>>, way: LinkRewrite) -> Self {
        Self { body, unpack, packed: Bytes::new(), links: HtmlRewriter::new(way), over: false }
    }

    /// Rewrites the bytes; of compressed ones only the first part.
    fn read(&mut self, mut bytes: Bytes) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        match &mut self.unpack {
            None => self.links.feed(&bytes, &mut out),
            Some(unpack) => {
                let part = bytes.split_to(bytes.len().min(PACKED));
                self.packed = bytes;
                unpack.write_all(&part)?;
                unpack.flush()?;
                let plain = std::mem::take(unpack.get_mut());
                self.links.feed(&plain, &mut out);
            }
        }
        Ok(out)
    }
}

impl HttpBody for RewrittenBody {
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
            let packed = std::mem::take(&mut self.packed);
            let out = if packed.is_empty() {
                match Pin::new(&mut self.body).poll_frame(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                    Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                        Ok(bytes) => self.read(bytes)?,
                        Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                    },
                    Poll::Ready(None) => {
                        self.over = true;
                        std::mem::take(&mut self.links.kept)
                    }
                }
            } else {
                self.read(packed)?
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

    fn way() -> LinkRewrite {
        LinkRewrite { prefix: "/p/proxy".into(), hosts: ["10.0.0.1:80".into(), "api:6443".into()] }
    }

    fn page(pieces: &[&str]) -> String {
        let mut links = HtmlRewriter::new(way());
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

    #[test]
    fn bytes_of_any_kind_pass() {
        assert_eq!(page(&["<a\u{a0}href=/x>"]), "<a\u{a0}href=/x>");
        assert_eq!(page(&["<a \u{a0}x=/y href=\u{2003}/x>"]), "<a \u{a0}x=/y href=/p/proxy/x>");
        assert_eq!(page(&["<a href='/\u{e9}'>"]), "<a href='/p/proxy/\u{e9}'>");
        let mut random = 7_u64;
        for _ in 0..20_000 {
            let mut bytes = b"<a href=\"/x\" src = '/y'><script>".to_vec();
            for _ in 0..6 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = usize::try_from(random >> 33).unwrap() % bytes.len();
                let odd = [0xc2, 0xa0, b'=', b'"', b'<', b'>', b' ', b'\'', b'/', 0xff];
                bytes[at] = odd[usize::try_from(random >> 20).unwrap() % odd.len()];
            }
            let (mut links, mut whole, mut pieces) =
                (HtmlRewriter::new(way()), Vec::new(), Vec::new());
            links.feed(&bytes, &mut whole);
            whole.append(&mut links.kept);
            let mut links = HtmlRewriter::new(way());
            bytes.chunks(3).for_each(|piece| links.feed(piece, &mut pieces));
            pieces.append(&mut links.kept);
            assert_eq!(whole, pieces, "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[tokio::test]
    async fn a_page_is_unpacked_in_small_parts() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&vec![b'x'; 64 << 20]).unwrap();
        let packed = Bytes::from(packed.finish().unwrap());
        assert!(packed.len() > 16 << 10, "all in one piece");
        let body: Body = http_body_util::Full::new(packed)
            .map_err(|never: std::convert::Infallible| match never {})
            .boxed_unsync();
        let mut page = RewrittenBody::new(body, Some(GzDecoder::new(Vec::new())), way());
        let (mut total, mut largest) = (0, 0);
        while let Some(frame) = page.frame().await {
            let length = frame.unwrap().into_data().unwrap().len();
            (total, largest) = (total + length, largest.max(length));
        }
        assert_eq!(total, 64 << 20);
        assert!(largest <= 1 << 20, "{largest} bytes at once");
    }
}
