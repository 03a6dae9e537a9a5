//! Non-resource paths: health, discovery, OpenAPI, version and metrics.

use std::sync::Arc;

use http::{Method, header::ACCEPT};
use object::{Status, Text, Value};

use crate::{
    Reply, Request, ServedResource, Server, discovery, health,
    metrics::{StorageStats, protobuf},
    negotiate::require_acceptable,
    object_reply,
    respond::{no_method, page_not_found, raw},
};

/// Content type of the Prometheus text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// Paths listed by `/` in addition to those of the API and of health checks.
const PATHS: [&str; 11] = [
    "/.well-known/openid-configuration",
    "/apis/",
    "/flagz",
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/statusz",
    "/version",
];

/// Serves a non-resource request.
pub(crate) async fn serve_non_resource(
    server: &Arc<Server>,
    request: Request,
) -> Result<Reply, Status> {
    let path = request.info.path.clone();
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    if let Some(handler) = server.path_handlers.get(first) {
        return handler.handle(server, request).await;
    }
    let reads = request.head.method == Method::GET;
    if let Some(reply) = prefix_alone(&path) {
        return Ok(reply);
    }
    if path.starts_with("//") {
        return Ok(page_not_found());
    }
    if let Some(reply) =
        health::answer(&server.health_checks, &path, &request.query, &server.metrics)
    {
        return Ok(reply);
    }
    if let Some(answer) = discovery::answer(server, &path, &request) {
        return answer;
    }
    if let Some(reply) =
        server.documents.answer(server, &path, &request.query, &request.head.headers)
    {
        return Ok(reply);
    }
    let version_path =
        path.strip_prefix("/version").filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let version_path = version_path.map(|rest| rest.trim_matches('/'));
    match &*path {
        _ if version_path.is_some_and(|rest| !rest.is_empty()) => Err(Status::unknown_resource()),
        _ if version_path.is_some() && !reads => Err(no_method()),
        _ if version_path.is_some() => {
            require_acceptable(&request.head.headers, "application/json")?;
            let text = object::to_json_pretty(&version(server));
            Ok(raw(200, "application/json", text))
        }
        "/" | "/index.html" => Ok(object_reply(200, &index(server))),
        "/metrics/slis" => {
            health::run_unobserved(&server.health_checks, &server.metrics);
            Ok(raw(200, METRICS, server.metrics.slis.text()))
        }
        "/metrics" if request.info.verb == "delete" => {
            server.metrics.reset();
            Ok(raw(200, "text/plain; charset=utf-8", b"metrics reset\n".to_vec()))
        }
        "/metrics" => {
            let mut text = server.metrics.text(&server.config, &stored(server));
            if let Some(size) = server.registry.engine().size() {
                let name = "apiserver_storage_size_bytes";
                text += &format!(
                    "# HELP {name} What storage takes.\n# TYPE {name} gauge\n\
                     {name}{{storage_cluster_id=\"etcd-0\"}} {size}\n"
                );
            }
            server.registry.admissions().into_iter().for_each(|times| times.write(&mut text));
            server.metrics_sources.iter().for_each(|report| report.report(&mut text));
            let text = without(text, &server.config.disabled_metrics);
            let text = server.config.allowed_labels.apply(text);
            let accept = request.head.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
            if server.config.native_histograms && accept.is_some_and(protobuf::is_accepted) {
                let body = protobuf::encode(&text, &server.metrics.native_histograms());
                return Ok(raw(200, protobuf::CONTENT_TYPE, body));
            }
            Ok(raw(200, METRICS, text.into_bytes()))
        }
        path => {
            let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
            let known = group.is_some_and(|group| server.registry.kinds().has_group(group));
            if known || path.starts_with("/api/") {
                Err(Status::unknown_resource())
            } else {
                Ok(page_not_found())
            }
        }
    }
}

/// Removes disabled metrics.
fn without(text: String, disabled: &[String]) -> String {
    if disabled.is_empty() {
        return text;
    }
    let is_told = |line: &&str| {
        let named = line.trim_start_matches("# HELP ").trim_start_matches("# TYPE ");
        let name = named.split([' ', '{']).next().unwrap_or_default();
        let parts = ["_bucket", "_sum", "_count"];
        let whole = parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        !disabled.iter().any(|own| own == name || own == whole)
    };
    text.split_inclusive('\n').filter(is_told).collect()
}

/// The stored resources with their object counts and resourceVersions.
fn stored(server: &Server) -> Vec<StorageStats> {
    let mut all = Vec::new();
    for ServedResource { internal: hub, cache: objects, .. } in server.registry.kinds().all() {
        let (group, resource) = (Text::from(hub.names.group), Text::from(hub.names.plural));
        let known =
            all.iter().any(|own: &StorageStats| own.group == group && own.resource == resource);
        if let Some(objects) = objects.filter(|_| !known) {
            let (count, revision) = (objects.len(), objects.progress_revision());
            all.push(StorageStats { group, resource, count, revision });
        }
    }
    all.sort();
    all
}

/// The error for a deprecated prefix of watches or proxies without anything after it.
fn prefix_alone(path: &str) -> Option<Reply> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if !matches!(&*parts, ["api", _, "watch" | "proxy"] | ["apis", _, _, "watch" | "proxy"]) {
        return None;
    }
    let said = format!(
        "Internal Server Error: {path:?}: failed to create RequestInfo: unable to determine kind \
         and namespace from url, {path}\n"
    );
    Some(raw(500, "text/plain; charset=utf-8", said.into_bytes()))
}

fn version(server: &Server) -> Value {
    let mut version = Value::object();
    let mut parts = server.config.version.trim_start_matches('v').split('.');
    version["major"] = parts.next().unwrap_or_default().into();
    version["minor"] = parts.next().unwrap_or_default().into();
    version["emulationMajor"] = version["major"].clone();
    let (emulated, compatible) = server.config.emulation;
    version["emulationMinor"] = emulated.to_string().into();
    version["minCompatibilityMajor"] = version["major"].clone();
    version["minCompatibilityMinor"] = compatible.to_string().into();
    version["gitVersion"] = server.config.version.as_str().into();
    version["gitCommit"] = server.config.commit.into();
    version["gitTreeState"] = "clean".into();
    version["buildDate"] = "1970-01-01T00:00:00Z".into();
    version["goVersion"] = "".into();
    version["compiler"] = "rustc".into();
    version["platform"] = format!("linux/{}", architecture()).into();
    version
}

/// The architecture, as Go names it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn index(server: &Server) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for served in server.registry.kinds().all() {
        let names = &served.definition.names;
        if !names.group.is_empty() {
            paths.push(format!("/apis/{}", names.group));
            paths.push(format!("/apis/{}/{}", names.group, names.version));
        }
    }
    for root in ["healthz", "livez", "readyz"] {
        paths.push(format!("/{root}"));
        let own = server.health_checks.iter().filter(|check| check.runs_for(root));
        paths.extend(own.map(|check| format!("/{root}/{}", check.name)));
    }
    paths.extend(PATHS.map(str::to_owned));
    paths.sort();
    paths.dedup();
    let mut index = Value::object();
    index["paths"] = paths.into_iter().collect();
    index
}
