//! HTTP endpoints of the proxy: health on one address, metrics on another.

use std::{net::SocketAddr, sync::Arc};

use api::core::Node;
use object::{Value, to_json};
use runtime::{Cache, Context};

use crate::{
    health::Health,
    http::{self, Answer, JSON, TEXT},
    metrics::Metrics,
};

/// The HTTP listeners of the proxy.
#[derive(Debug, Clone, Default)]
pub struct Listeners {
    /// /healthz and /livez; upstream's default is 0.0.0.0:10256.
    pub healthz: Option<SocketAddr>,
    /// /metrics, /proxyMode and /configz; upstream's default is 127.0.0.1:10249.
    pub metrics: Option<SocketAddr>,
    /// Whether to use a free port if the port is in use, instead of waiting for it.
    pub or_any_port: bool,
    /// The content of /configz.
    pub configuration: Value,
}

const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
const GROUP: &str = "kubeproxy.config.k8s.io";

/// Serves until the context stops.
pub(crate) fn start(
    cx: &Context,
    listeners: Listeners,
    (health, metrics): (&Arc<Health>, &Arc<Metrics>),
    nodes: &Arc<Cache<Node>>,
) {
    let or_any_port = listeners.or_any_port;
    if let Some(at) = listeners.healthz {
        let (health, metrics, nodes) = (health.clone(), metrics.clone(), nodes.clone());
        cx.spawn("proxy health", async move {
            let listener = http::bind("health checks", at, or_any_port).await;
            let answer = move |path: &str| {
                let answer = match path {
                    "/healthz" => health.healthz(nodes.all().first()),
                    "/livez" => health.livez(),
                    _ => return Answer::not_found(),
                };
                metrics.answered(path, answer.status.as_u16());
                answer
            };
            http::serve(listener, answer).await;
        });
    }
    if let Some(at) = listeners.metrics {
        let mut configuration = Value::object();
        configuration[GROUP] = listeners.configuration;
        let configuration = String::from_utf8_lossy(&to_json(&configuration)).into_owned();
        let metrics = metrics.clone();
        cx.spawn("proxy metrics", async move {
            let listener = http::bind("metrics", at, or_any_port).await;
            let answer = move |path: &str| match path {
                "/healthz" => Answer::ok(TEXT, "ok".to_owned()),
                "/metrics" => Answer::ok(METRICS, metrics.text()),
                "/proxyMode" => Answer::ok(TEXT, "nftables".to_owned()),
                "/configz" => Answer::ok(JSON, configuration.clone()),
                _ => Answer::not_found(),
            };
            http::serve(listener, answer).await;
        });
    }
}
