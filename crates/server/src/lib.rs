//! The API server's machinery: requests in, objects out, for any kind. It knows
//! no kind by name; `apiserver` gives it the kinds, the identities and the rules.
//!
//! ```text
//!  connection ─► filters (a const list) ─► route ─► registry::{create, update, patch, delete, get, list, watch}
//!                                             └──► handlers: subresources that are not objects
//! ```

mod admit;
mod aggregate;
mod arriving;
mod audit;
mod auth;
mod bell;
mod body;
mod cbor;
mod claim;
mod codec;
mod compress;
mod config;
mod convert;
mod deadline;
mod discovery;
mod edge;
mod encodings;
mod encryption;
pub mod expensive;
mod filters;
mod flow;
mod health;
pub mod identity_headers;
mod impersonate;
mod kinds;
mod list_options;
mod listen;
mod listing;
mod memory;
mod metrics;
mod negotiate;
mod openapi;
mod options;
mod outward;
mod plain;
mod preface;
mod query;
mod registry;
mod request;
mod respond;
mod route;
mod server;
mod socket;
mod streams;
mod table;
mod tagged;
pub mod trace;
mod transform;
mod upgrade;
mod watching;
mod wire;

pub use self::{
    admit::{
        AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation, Reinvocation,
        WriteOptions,
    },
    aggregate::{Aggregator, RemoteDocument, RemoteGroup},
    arriving::RequestBody,
    audit::{
        AuditBackend, AuditLevel, AuditStage, Untold, add_audit_annotation, log_request_object,
        track_latency,
    },
    auth::{
        Attributes, AuthenticateFuture, Authenticator, AuthorizeFuture, Authorizer, Decision, Peer,
        UserInfo,
    },
    body::{Body, Reply, read},
    claim::{AllocateFuture, Allocation, Allocator, FinishFuture, WriteOutcome},
    codec::{Decoded, decode_body},
    config::{Config, Limits, Shutdown, VERSION},
    convert::{ConvertFuture, Converter},
    edge::HttpPolicy,
    encryption::{EncryptionConfig, EncryptionTransformer, ResourceLocation},
    filters::authorization_decision,
    flow::{FlowControl, Seat, SeatFuture},
    health::{HealthCheck, ProbeScope},
    identity_headers::IdentityHeaders,
    kinds::{ServedResource, ServedResources},
    listen::{Listener, ReloadableTls},
    metrics::{
        AllowedLabels, CounterVec, GaugeVec, Histogram, HistogramVec, MetricDesc, MetricsSource,
        report_process,
    },
    negotiate::require_acceptable,
    options::parse_delete_options,
    outward::{ConnectionPool, WebhookClient, server_response},
    plain::architecture,
    query::{Query, percent_decode},
    registry::{
        ApplyRequest, DeleteOutcome, DeleteRequest, ListOptions, ListResult, Patch, PatchType,
        Registry, RequestContext, Selection, SubresourceRequest, Watch, WatchEvent, WatchStart,
        WriteProvenance, revision, uid, uid_conflict,
    },
    request::{Request, RequestInfo},
    respond::{
        list_as, object_reply, plain_reply, reply_as, status_reply, status_reply_as, text_reply,
        warn,
    },
    route::{EndpointHandler, HandlerRef, ResponseFuture},
    server::Server,
    socket::WebSocketUpgrade,
    transform::{IdentityTransformer, Transformer},
    upgrade::{is_upgrade, proxy},
};
