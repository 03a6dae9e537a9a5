//! Pod source: static pods from a URL (`--manifest-url`), polled.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use client::{Client, TcpConnector};
use http::{HeaderMap, Method, Uri};
use object::{Value, yaml::from_yaml};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::warn;

use super::manifest::{self, StaticPods};
use crate::{Error, KubeletContext};

/// Polling interval; HTTP servers do not notify us of changes.
const POLL_PERIOD: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(10);
const LARGEST: usize = 10 << 20;

/// Validates the URL.
pub(crate) fn check(url: &str) -> Result<Uri, Error> {
    let uri = url.parse::<Uri>().ok().filter(|uri| uri.host().is_some());
    uri.filter(|uri| uri.scheme_str() == Some("http"))
        .ok_or(Error::Unsupported("a --manifest-url that does not begin with http://"))
}

/// Polls the URL; the receiver turns true after the first response.
pub(crate) fn start(host: &Arc<KubeletContext>) -> watch::Receiver<bool> {
    let (done, on_read) = watch::channel(false);
    let Some(uri) = host.config.manifest_url.as_deref().and_then(|url| check(url).ok()) else {
        done.send_replace(true);
        return on_read;
    };
    let host = host.clone();
    let cx = host.cx.clone();
    cx.keep("pods by URL", move || {
        let (host, uri, done) = (host.clone(), uri.clone(), done.clone());
        async move {
            let name = uri.host().unwrap_or_default();
            let tcp = TcpConnector::new(name, uri.port_u16().unwrap_or(80), None);
            let client = Client::new(client::Config::new(Arc::new(tcp)).user_agent("kubelet"));
            let mut named = StaticPods::default();
            loop {
                match ask(&client, &uri).await {
                    Ok(answer) => {
                        let source = format!("http:{uri}");
                        let pods = pods(answer).into_iter().enumerate().map(|(at, tree)| {
                            let place = tree["metadata"]["name"].as_str().map(str::to_owned);
                            let pod = manifest::parse(&host, &source, tree);
                            (place.unwrap_or_else(|| at.to_string()), pod)
                        });
                        named.replace(&host, pods.collect());
                        done.send_replace(true);
                        host.mirror_pods_changed.notify_one();
                    }
                    // Running pods are kept: an unreachable server says nothing about its pods.
                    Err(error) => warn!(%uri, error, "cannot read static pods from the URL"),
                }
                sleep(POLL_PERIOD).await;
            }
        }
    });
    on_read
}

async fn ask(client: &Client, uri: &Uri) -> Result<Value, String> {
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let answer = client.request(Method::GET, path, HeaderMap::new(), Bytes::new());
    let answer = timeout(LIMIT, answer).await.map_err(|_| "no answer".to_owned())?;
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.status != http::StatusCode::OK {
        return Err(format!("the answer is {}", answer.status));
    }
    let body = timeout(LIMIT, read(answer)).await.map_err(|_| "no end".to_owned())??;
    let text = std::str::from_utf8(&body).map_err(|error| error.to_string())?;
    from_yaml(text).map_err(|error| error.to_string())
}

async fn read(mut answer: client::Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| error.to_string())? {
        body.extend_from_slice(&chunk);
        if body.len() > LARGEST {
            return Err(format!("the answer is larger than {LARGEST} bytes"));
        }
    }
    Ok(body)
}

/// The manifests in a response: a single pod, or the items of a list.
fn pods(answer: Value) -> Vec<Value> {
    if !matches!(answer["kind"].as_str(), Some("PodList" | "List")) {
        return vec![answer];
    }
    let pods = answer["items"].items().iter().cloned();
    let said = |mut pod: Value| {
        if pod["kind"].is_null() {
            (pod["kind"], pod["apiVersion"]) = ("Pod".into(), "v1".into());
        }
        pod
    };
    pods.map(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pod_or_a_list() {
        let names = |text: &str| {
            let pods = pods(from_yaml(text).expect("a manifest"));
            pods.iter().map(|pod| pod["kind"].as_str().unwrap_or("").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("{kind: Pod, apiVersion: v1}"), ["Pod"]);
        assert_eq!(names("{kind: PodList, items: [{metadata: {name: a}}, {}]}"), ["Pod", "Pod"]);
        assert_eq!(names("{kind: List, items: [{kind: Secret}]}"), ["Secret"]);
    }

    #[test]
    fn only_what_can_be_asked() {
        assert!(check("http://192.0.2.1:8080/pods").is_ok());
        assert!(check("https://192.0.2.1/pods").is_err());
        assert!(check("nonsense").is_err());
    }
}
