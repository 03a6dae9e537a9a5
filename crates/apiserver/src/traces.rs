//! `--tracing-config-file`: exports spans to a collector, as OTLP over gRPC. Spans that the
//! collector does not accept in time are dropped, so that requests never wait for it.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use client::{Proxy, TcpConnector};
use http::uri::PathAndQuery;
use object::{Clock, yaml::from_yaml};
use schema::{ErrorList, FieldPath as Field};
use server::trace::{Attribute, Span, Tracer};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tonic::{
    Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tracing::debug;

use crate::{
    grpc_connector::GrpcConnector,
    reload,
    structured::{aggregate, known, strict, text},
};

/// Maximum number of spans in a batch; `WAIT` is how long a batch waits to be full.
const BATCH: usize = 512;
const WAIT: Duration = Duration::from_secs(5);
/// Timeout of an export.
const WITHIN: Duration = Duration::from_secs(10);
const RATE: i64 = 1_000_000;

/// The collector's endpoint, and the sampling rate per million.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TracingConfig {
    endpoint: String,
    rate: u32,
}

impl TracingConfig {
    /// Reads a `TracingConfiguration` of apiserver.config.k8s.io.
    pub(crate) fn read(path: &std::path::Path) -> Result<Self> {
        ensure!(path.exists(), "tracing-config-file {} does not exist", path.display());
        let reading = "failed to read tracing config";
        let file = from_yaml(&reload::text(path).context(reading)?).context(reading)?;
        known(&file, "TracingConfiguration", &["v1", "v1beta1", "v1alpha1"]).context(reading)?;
        let mut errors = ErrorList::default();
        let fields = ["apiVersion", "kind", "endpoint", "samplingRatePerMillion"];
        strict(&file, &Field::Root, &fields, &mut errors);
        let rate = file.get("samplingRatePerMillion").as_i64().unwrap_or_default();
        let at = Field::Root.field("samplingRatePerMillion");
        if rate < 0 {
            errors.invalid(&at, rate, "sampling rate must be positive");
        } else if rate > RATE {
            let why = "sampling rate per million must be less than or equal to one million";
            errors.invalid(&at, rate, why);
        }
        let endpoint = text(&file, "endpoint");
        let scheme =
            endpoint.split_once("//").map_or("dns", |(scheme, _)| scheme.trim_end_matches(':'));
        if !["dns", "unix", "unix-abstract"].contains(&scheme) {
            let why = format!(
                "unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract.  \
                 See https://github.com/grpc/grpc/blob/master/doc/naming.md"
            );
            errors.invalid(&Field::Root.field("endpoint"), endpoint, why);
        }
        ensure!(
            errors.is_empty(),
            "failed to validate tracing configuration: {}",
            aggregate(&errors)
        );
        let endpoint = if endpoint.is_empty() { "localhost:4317" } else { endpoint };
        Ok(Self { endpoint: endpoint.to_owned(), rate: u32::try_from(rate)? })
    }

    /// Creates the tracer, which samples requests, and the exporter of its spans.
    pub(crate) fn open(
        &self,
        server: &str,
        clock: &Arc<dyn Clock>,
        through: Option<Proxy>,
    ) -> Result<(Arc<Tracer>, SpanExporter)> {
        let (tracer, spans) = Tracer::new(self.rate, clock.clone());
        let any = Endpoint::from_static("http://localhost").connect_timeout(WITHIN);
        let grpc = Grpc::new(any.connect_with_connector_lazy(self.way(through)?));
        Ok((tracer, SpanExporter { grpc, spans, server: server.to_owned() }))
    }

    fn way(&self, through: Option<Proxy>) -> Result<GrpcConnector> {
        let endpoint = &*self.endpoint;
        let socket =
            [("unix-abstract:", "@"), ("unix:", "")].into_iter().find_map(|(scheme, mark)| {
                let path = endpoint.strip_prefix(scheme)?;
                Some(format!("{mark}{}", path.strip_prefix("//").unwrap_or(path)))
            });
        if let Some(path) = socket {
            return Ok(GrpcConnector::socket(&path));
        }
        let host = endpoint.strip_prefix("dns:").unwrap_or(endpoint);
        let host = host.trim_start_matches('/').rsplit('/').next().unwrap_or_default();
        let uri: http::Uri = format!("http://{host}").parse()?;
        let host = uri.host().with_context(|| format!("{endpoint:?} names no collector"))?;
        let host = host.trim_matches(['[', ']']);
        let to = TcpConnector::new(host, uri.port_u16().unwrap_or(4317), None);
        Ok(GrpcConnector::tcp(to.with_proxy(through)))
    }
}

/// Exports spans in batches.
pub(crate) struct SpanExporter {
    grpc: Grpc<Channel>,
    spans: mpsc::Receiver<Span>,
    /// The identity of this server (`service.instance.id`).
    server: String,
}

impl SpanExporter {
    /// Exports spans until the server ends, and then those that are left.
    pub(crate) async fn run(mut self, ended: impl Future<Output = ()>) {
        tokio::pin!(ended);
        loop {
            let first = tokio::select! {
                first = self.spans.recv() => first,
                () = &mut ended => break,
            };
            let Some(first) = first else { return };
            let mut batch = vec![first];
            let full = async {
                while batch.len() < BATCH
                    && let Some(next) = self.spans.recv().await
                {
                    batch.push(next);
                }
            };
            tokio::select! {
                () = full => {}
                () = sleep(WAIT) => {}
                () = &mut ended => {
                    self.send(&batch).await;
                    break;
                }
            }
            self.send(&batch).await;
        }
        let mut rest = Vec::new();
        while rest.len() < BATCH
            && let Ok(span) = self.spans.try_recv()
        {
            rest.push(span);
        }
        if !rest.is_empty() {
            self.send(&rest).await;
        }
    }

    async fn send(&mut self, spans: &[Span]) {
        let count = spans.len();
        let resource = Resource {
            attributes: vec![
                pair("service.name", &"apiserver".into()),
                pair("service.instance.id", &self.server.as_str().into()),
            ],
        };
        let scope = Some(Scope { name: "k8s.io/component-base/tracing".to_owned() });
        let spans = spans.iter().map(to_otlp_span).collect();
        let scope_spans = vec![ScopeSpans { scope, spans }];
        let request = Export {
            resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }],
        };
        let path = PathAndQuery::from_static(
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        );
        let sent = timeout(WITHIN, async {
            self.grpc.ready().await.map_err(|error| error.to_string())?;
            let codec = ProstCodec::<Export, Exported>::default();
            let done = self.grpc.unary(Request::new(request), path, codec).await;
            done.map_err(|status| status.message().to_owned())
        });
        match sent.await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                debug!(error, count, "the trace collector rejected spans; dropping them");
            }
            Err(_) => debug!(count, "the trace collector did not respond; dropping spans"),
        }
    }
}

fn to_otlp_span(span: &Span) -> OneSpan {
    let nanos = |micros: i64| u64::try_from(micros).unwrap_or_default() * 1000;
    let link =
        |(trace, id): ([u8; 16], [u8; 8])| Link { trace_id: trace.to_vec(), span_id: id.to_vec() };
    OneSpan {
        trace_id: span.trace.to_vec(),
        span_id: span.id.to_vec(),
        parent_span_id: span.parent.map(|id| id.to_vec()).unwrap_or_default(),
        name: span.name.to_string(),
        kind: span.kind as i32,
        start_time_unix_nano: nanos(span.began),
        end_time_unix_nano: nanos(span.ended),
        attributes: span.attributes.iter().map(|(key, value)| pair(key, value)).collect(),
        links: span.link.map(link).into_iter().collect(),
        status: span.failed.then_some(SpanStatus { code: 2 }),
    }
}

fn pair(key: &str, value: &Attribute) -> KeyValue {
    let value = match value {
        Attribute::Text(text) => any_value::Value::Text(text.to_string()),
        Attribute::Number(number) => any_value::Value::Number(*number),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

/// OTLP's `ExportTraceServiceRequest`; the messages below are those it contains.
#[derive(Clone, PartialEq, prost::Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Exported {}

#[derive(Clone, PartialEq, prost::Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<OneSpan>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OneSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "13")]
    links: Vec<Link>,
    #[prost(message, optional, tag = "15")]
    status: Option<SpanStatus>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Link {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SpanStatus {
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AnyValue {
    #[prost(oneof = "any_value::Value", tags = "1, 3")]
    value: Option<any_value::Value>,
}

mod any_value {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(super) enum Value {
        #[prost(string, tag = "1")]
        Text(String),
        #[prost(int64, tag = "3")]
        Number(i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("tracing.yaml");
        let read = |more: &str| {
            let text = format!(
                "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n{more}"
            );
            std::fs::write(&path, text).unwrap();
            TracingConfig::read(&path).map_err(|error| format!("{error:#}"))
        };
        let usual = TracingConfig { endpoint: "localhost:4317".to_owned(), rate: 0 };
        assert_eq!(read(""), Ok(usual));
        assert_eq!(read("samplingRatePerMillion: 100").unwrap().rate, 100);
        for (more, why) in [
            (
                "samplingRatePerMillion: -1",
                "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
            ),
            ("samplingRatePerMillion: 2000000", "must be less than or equal to one million"),
            (
                "endpoint: http://a:1",
                "unsupported scheme: http.  Options are none, dns, unix, or unix-abstract.",
            ),
            ("odd: 1", "odd"),
        ] {
            let said = read(more).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        let missing = TracingConfig::read(&folder.path().join("none")).unwrap_err();
        assert!(missing.to_string().contains("does not exist"), "{missing}");
    }
}
