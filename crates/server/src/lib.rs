//! The generic API server: handles requests for any kind. It knows no kind by name; the crate
//! `apiserver` provides the kinds, authenticators, authorizers and admission plugins.
//!
//! ```text
//!  connection ─► filters (run_filters)  ─► route ─► registry::{create, update, patch, delete, get, list, watch}
//!                                             └──► handlers: subresources that are not objects
//! ```

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod admit;
mod aggregator;
mod allocator;
mod answer_budget;
mod audit;
mod auth;
mod available_memory;
mod batched_tcp;
mod body;
mod cbor;
mod codec;
mod compress;
mod config;
mod connection_limits;
mod convert;
mod deadline;
mod discovery;
mod document_list;
mod driver;
mod encodings;
mod encryption;
mod etag;
pub mod expensive;
mod filters;
mod flow;
mod health;
mod http2_preface;
mod http_policy;
pub mod identity_headers;
mod impersonate;
mod list_options;
mod listen;
mod listing;
mod memory;
mod metrics;
mod negotiate;
mod non_resource;
mod object_requests;
mod openapi;
mod options;
mod outbound;
mod patch_request;
mod query;
mod registry;
mod rejection;
mod request;
mod request_body;
mod respond;
mod route;
mod route_table;
mod served_resources;
mod server;
mod socket;
mod streams;
mod table;
mod timer_queue;
pub mod trace;
mod transform;
mod turns;
mod upgrade;
mod watch_body;

pub use self::{
    admit::{
        AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation, Reinvocation,
        WriteOptions,
    },
    aggregator::{Aggregator, RemoteDocument, RemoteGroup},
    allocator::{AllocateFuture, Allocation, Allocator, FinishFuture, WriteOutcome},
    audit::{
        AuditBackend, AuditLevel, AuditStage, Untold, add_audit_annotation, log_request_object,
        track_latency,
    },
    auth::{
        Attributes, AuthenticateFuture, Authenticator, AuthorizeFuture, Authorizer, Decision, Peer,
        UserInfo,
    },
    body::{Body, Reply, read},
    codec::{Decoded, decode_body},
    config::{Config, Limits, Shutdown, VERSION},
    convert::{ConvertFuture, Converter},
    encryption::{EncryptionConfig, EncryptionTransformer, ResourceLocation},
    filters::authorization_decision,
    flow::{FlowControl, Seat, SeatFuture},
    health::{HealthCheck, ProbeScope},
    http_policy::HttpPolicy,
    identity_headers::IdentityHeaders,
    listen::{Listener, ReloadableTls},
    metrics::{
        AllowedLabels, CounterVec, GaugeVec, Histogram, HistogramVec, MetricDesc, MetricsSource,
        report_process,
    },
    negotiate::require_acceptable,
    non_resource::architecture,
    options::parse_delete_options,
    outbound::{ConnectionPool, WebhookClient, server_response},
    query::Query,
    registry::{
        ApplyRequest, DeleteOutcome, DeleteRequest, ListOptions, ListResult, Patch, PatchType,
        Registry, RequestContext, Selection, SubresourceRequest, Watch, WatchEvent, WatchStart,
        WriteProvenance, revision, uid, uid_conflict,
    },
    request::{Request, RequestInfo},
    request_body::RequestBody,
    respond::{
        list_as, object_reply, plain_reply, reply_as, status_reply, status_reply_as, text_reply,
        warn,
    },
    route::{EndpointHandler, HandlerRef, ResponseFuture},
    route_table::{Handlers, MissingHandler, RouteTable},
    served_resources::{ServedResource, ServedResources},
    server::Server,
    socket::WebSocketUpgrade,
    transform::{IdentityTransformer, Transformer},
    upgrade::{is_upgrade, proxy},
};
