//! A hostile backend: webhooks, aggregated APIs and proxied services all lead here. The path selects the response, so
//! that a repeated request gets the same response.

use std::{io::Write as _, net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::Result;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use flate2::{Compression, write::GzEncoder, write::ZlibEncoder};
use object::Clock as _;
use pki::{CertificateAuthority, CertificateSpec};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

/// The address of the backend: in the attack's own network namespace, and not the loopback address.
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 50);
const LARGEST: usize = 4 << 20;

/// The running backend.
#[derive(Debug)]
pub(crate) struct Hostile {
    /// The CA certificate of the backend, in PEM.
    pub(crate) authority: String,
    _tasks: JoinSet<()>,
}

impl Hostile {
    /// Starts to listen.
    pub(crate) async fn start() -> Result<Self> {
        let now = object::SystemClock.now();
        let authority = CertificateAuthority::create("hostile", now)?;
        let names = vec!["hostile.a.svc".to_owned(), "n1".to_owned()];
        let pair = authority
            .issue(&CertificateSpec::server("hostile", names, vec![ADDRESS.into()]), now)?;
        let acceptor = TlsAcceptor::from(Arc::new(pki::server_config(&pair, None)?));
        let mut tasks = JoinSet::new();
        for port in [80, 8080] {
            let listener = TcpListener::bind((ADDRESS, port)).await?;
            tasks.spawn(async move {
                let mut open = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    while open.try_join_next().is_some() {}
                    open.spawn(serve(stream));
                }
            });
        }
        for port in [443, 8443] {
            let listener = TcpListener::bind((ADDRESS, port)).await?;
            let acceptor = acceptor.clone();
            tasks.spawn(async move {
                let mut open = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    while open.try_join_next().is_some() {}
                    let acceptor = acceptor.clone();
                    open.spawn(async move {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            serve(stream).await;
                        }
                    });
                }
            });
        }
        Ok(Self { authority: authority.certificate_pem(), _tasks: tasks })
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut read = Vec::new();
    loop {
        let whole = read.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(head) = whole {
            let text = String::from_utf8_lossy(&read[..head]).to_lowercase();
            let size = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if read.len() >= head + 4 + size.unwrap_or_default().min(LARGEST) {
                break;
            }
        }
        match timeout(Duration::from_secs(2), stream.read_buf(&mut read)).await {
            Ok(Ok(count)) if count > 0 && read.len() < LARGEST => {}
            _ => break,
        }
    }
    for (wait, part) in answer(&read) {
        tokio::time::sleep(wait).await;
        if stream.write_all(&part).await.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
}

/// The response to a request: its parts, and the delay before each of them.
fn answer(request: &[u8]) -> Vec<(Duration, Vec<u8>)> {
    let text = String::from_utf8_lossy(request);
    let path = text.split(' ').nth(1).unwrap_or_default();
    let path = aggregated(path).unwrap_or_else(|| path.to_owned());
    let mut words = path.trim_start_matches('/').split(['/', '?']);
    let at_once = |bytes: Vec<u8>| vec![(Duration::ZERO, bytes)];
    let page = |ty: &str, extra: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {ty}\r\ncontent-length: {}\r\n{extra}connection: close\r\n\r\n",
            body.len()
        );
        at_once([head.as_bytes(), body].concat())
    };
    match words.next().unwrap_or_default() {
        "html" => page("text/html", "", HTML.as_bytes()),
        "bomb" => page("text/html", "content-encoding: gzip\r\n", &bomb()),
        "deflate" => page("text/html", "content-encoding: deflate\r\n", &deflated()),
        "slow" => vec![(Duration::ZERO, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n".to_vec()), (Duration::from_millis(300), b"x".to_vec())],
        "garbage" => at_once(b"\x16\x03\x01HTTP/9.9 999 \xff\r\n\r\n\r\n".to_vec()),
        "deep" => {
            let deep = format!("{}{}", r#"{"a":"#.repeat(20_000), "}".repeat(20_000));
            page("application/json", "", deep.as_bytes())
        }
        "echo" => {
            let body = request.windows(4).position(|four| four == b"\r\n\r\n").map_or(&[][..], |at| &request[at + 4..]);
            page("application/json", "", body)
        }
        "long" => page("text/plain", "", &vec![b'a'; LARGEST]),
        "redirect" => at_once(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:22/\r\nlocation: \xff\r\ncontent-length: 0\r\n\r\n".to_vec()),
        "headers" => {
            let many: String = (0..5000).map(|n| format!("x-{n}: y\r\n")).collect();
            at_once(format!("HTTP/1.1 200 OK\r\n{many}content-length: 0\r\n\r\n").into_bytes())
        }
        "cut" => at_once(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 1000\r\n\r\n<a href=/x".to_vec()),
        "chunked" => at_once(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nx".to_vec()),
        "status" => at_once(format!("HTTP/1.1 {} X\r\ncontent-length: 0\r\n\r\n", words.next().unwrap_or("999")).into_bytes()),
        word @ ("say" | "validate") => {
            let said = match word {
                "say" => URL_SAFE_NO_PAD.decode(words.next().unwrap_or_default()).unwrap_or_default(),
                _ => VALIDATE.into(),
            };
            let uid = text.split(r#""uid":""#).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
            let said = String::from_utf8_lossy(&said).replace("UID", uid);
            page("application/json", "", said.as_bytes())
        }
        _ => at_once(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec()),
    }
}

/// Maps the path of a request to an aggregated API server to a page. The last segment names the page; for discovery,
/// the number of the group selects it.
fn aggregated(path: &str) -> Option<String> {
    let path = path.split('?').next().unwrap_or_default();
    let below = path.strip_prefix("/apis/").or_else(|| path.strip_prefix("/openapi/"))?;
    if let Some((_, page)) = below.split_once("/namespaces/a/") {
        return Some(format!("/{page}"));
    }
    let number: String = below.chars().filter(char::is_ascii_digit).collect();
    let number = number.parse::<usize>().unwrap_or_default() / 10;
    Some(match DISCOVERY.get(number) {
        Some(said) => format!("/say/{}", URL_SAFE_NO_PAD.encode(said)),
        None => {
            ["/deep", "/bomb", "/garbage", "/slow", "/long", "/status/500"][number % 6].to_owned()
        }
    })
}

/// Discovery responses of aggregated API servers.
const DISCOVERY: &[&str] = &[
    r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"g0.example.com/v1","resources":[{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get","list","watch","create","delete","deletecollection"]}]}"#,
    r#"{"kind":"APIResourceList","groupVersion":"g1.example.com/v1","resources":[{"name":"../..","namespaced":true,"kind":"a\"b","verbs":["list","delete","watch",""]},{"name":"","verbs":null}]}"#,
    r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":"g2.example.com"},"versions":[{"version":"v1","resources":[{"resource":"\u0000","responseKind":{"kind":"\n"},"scope":"X","verbs":["list"]}]}]},{"metadata":{"name":""},"versions":[{}]}]}"#,
    r##"{"swagger":"2.0","paths":{"/a":{"get":{"parameters":[{"$ref":"#/definitions/a"}]}}},"definitions":{"a":{"$ref":"#/definitions/a","x-kubernetes-group-version-kind":[{"group":5}]}}}"##,
    r#"{"openapi":"3.0.0","paths":{"apis/g4.example.com/v1":{"serverRelativeURL":"//127.0.0.1/\u0000"}},"components":{"schemas":null}}"#,
    r#"{"kind":"APIResourceList","groupVersion":5,"resources":{}}"#,
];

/// The response of a webhook that denies the request.
const VALIDATE: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"UID","allowed":false,"status":{"code":418,"message":"no"},"warnings":["w"]}}"#;

/// HTML with links for the proxy to rewrite, with unusual characters between names and values.
const HTML: &str = "<!DOCTYPE html><a href=/x>1</a><a\u{a0}href=/x>2</a><A HREF='/é'>3</a><img src=\"/\u{1F600}\"><a href><a href=><a href=\"\
    <form action=/x\u{2028}><a/href=/é/href='><script>'<a href=/x>'</script><!-- <a href=/x> --><base href=//é><\u{e9} href=/x><a  hre\u{0}f=/x>";

/// A page of 64 MiB compressed to a few kilobytes.
fn bomb() -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..64 {
        let _ = packed.write_all(&vec![b'<'; 1 << 20]);
    }
    packed.finish().unwrap_or_default()
}

fn deflated() -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    let _ = packed.write_all(HTML.as_bytes());
    packed.finish().unwrap_or_default()
}
