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
mod entries;
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
mod turns;
mod upgrade;
mod watching;
mod wire;

pub use self::{
    admit::{Admission, Admit, Admitting, Operation, Options, Reinvocation},
    aggregate::{Aggregate, RemoteDocument, RemoteGroup},
    arriving::Arriving,
    audit::{Audit, AuditLevel, AuditStage, Untold, note, note_layer, note_sent},
    auth::{
        Attributes, Authenticate, Authenticating, Authorize, Authorizing, Decision, Peer, User,
    },
    body::{Body, Reply, read},
    claim::{Claim, Claimed, Claiming, Outcome, Settling},
    codec::{Decoded, decode_body},
    config::{Config, Limits, Shutdown, VERSION},
    convert::{Convert, Converting},
    edge::Edge,
    encryption::{Encryption, EncryptionConfig, Place},
    filters::decide,
    flow::{Flow, Seat, Seating},
    health::{Check, Says},
    identity_headers::IdentityHeaders,
    kinds::{Kinds, Served},
    listen::{Listening, Tls},
    metrics::{AllowedLabels, Counter, Gauge, Histogram, Name, Report, Timing, report_process},
    negotiate::takes,
    options::meant,
    outward::{Lines, Remote, server_response},
    plain::architecture,
    query::{Query, unescaped},
    registry::{
        Applied, Asking, Call, Delete, Deleted, List, Note, Notice, Page, Patch, PatchType,
        Registry, Selection, Start, Watch, other_uid, revision, uid,
    },
    request::{Request, RequestInfo},
    respond::{
        list_as, object_reply, plain_reply, reply_as, status_reply, status_reply_as, text_reply,
        warn,
    },
    route::{Handle, Handler, Handling},
    server::Server,
    socket::Socket,
    transform::{Identity, Transform},
    upgrade::{is_upgrade, proxy},
};
