//! `-f URL`: fetches manifests from web servers.

use std::{sync::Arc, time::Duration};

use client::{Client, Config, TcpConnector, TlsOptions};
use hyper::{
    HeaderMap, Method, Uri,
    header::{HOST, HeaderValue, LOCATION},
};
use object::quote::quote;

use crate::error::{CommandError, Result};

const REDIRECTS: usize = 10;
const TRIES: usize = 3;
const LARGEST: usize = 1 << 28;
/// Timeout of a request.
const PATIENCE: Duration = Duration::from_mins(1);

/// The content of a URL.
pub(crate) fn text(url: &str) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::error(error.to_string()))?;
    runtime.block_on(async {
        let mut tries = 1;
        loop {
            match get(url).await {
                Err((fail, again)) if !again || tries == TRIES => return Err(fail),
                Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
                Ok(text) => return Ok(text),
            }
            tries += 1;
        }
    })
}

/// One attempt; a failure comes with whether a retry may succeed.
async fn get(first: &str) -> std::result::Result<String, (CommandError, bool)> {
    let failed = |why: String| (CommandError::error(format!("Get {}: {why}", quote(first))), false);
    let mut url: Uri = first.parse().map_err(|error| failed(format!("{error}")))?;
    for _ in 0..REDIRECTS {
        let (client, path, headers) = client(&url).map_err(failed)?;
        let answer = client.request(Method::GET, &path, headers, bytes::Bytes::new()).await;
        let mut answer = answer.map_err(|error| failed(error.to_string()))?;
        if answer.status.is_redirection()
            && let Some(to) = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok())
        {
            url = follow(&url, to).ok_or_else(|| failed(format!("cannot follow {to}")))?;
            continue;
        }
        if !answer.status.is_success() {
            let says = format!(
                "unable to read URL {}, server reported {}, status code={}",
                quote(first),
                answer.status,
                answer.status.as_u16()
            );
            return Err((CommandError::error(says), answer.status.is_server_error()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| failed(error.to_string()))? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST {
                return Err(failed("the answer is too large".to_owned()));
            }
        }
        return String::from_utf8(body).map_err(|error| failed(error.to_string()));
    }
    Err(failed(format!("stopped after {REDIRECTS} redirects")))
}

/// A client for the server of a URL, the path, and a Host header.
fn client(url: &Uri) -> std::result::Result<(Client, String, HeaderMap), String> {
    let secure = match url.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => {
            return Err(format!(
                "unsupported protocol scheme {}",
                quote(url.scheme_str().unwrap_or_default())
            ));
        }
    };
    let host = url.host().ok_or("no host in the URL")?.trim_matches(['[', ']']);
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let tls = secure.then(|| Arc::new(TlsOptions::default()));
    let config = Config::new(Arc::new(TcpConnector::new(host, port, tls)))
        .user_agent("kubectl")
        .timeout(PATIENCE);
    let mut headers = HeaderMap::new();
    let name = url.authority().map_or("", hyper::http::uri::Authority::as_str);
    let name = name.rsplit_once('@').map_or(name, |(_, name)| name);
    headers.insert(HOST, HeaderValue::try_from(name).map_err(|error| error.to_string())?);
    let path = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    Ok((Client::new(config), path, headers))
}

/// The target of a redirect.
fn follow(from: &Uri, to: &str) -> Option<Uri> {
    if to.contains("://") {
        return to.parse().ok();
    }
    let (scheme, host) = (from.scheme_str()?, from.authority()?);
    let path = if to.starts_with('/') {
        to.to_owned()
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{folder}/{to}")
    };
    format!("{scheme}://{host}{path}").parse().ok()
}

#[test]
fn redirects_lead_on() {
    let from: Uri = "http://a.test:8080/x/y?z".parse().unwrap();
    let to = |to: &str| follow(&from, to).map(|uri| uri.to_string()).unwrap();
    assert_eq!(to("https://b.test/c"), "https://b.test/c");
    assert_eq!(to("/c?d"), "http://a.test:8080/c?d");
    assert_eq!(to("c"), "http://a.test:8080/x/c");
}
