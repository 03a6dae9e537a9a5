//! The API server's machinery: requests in, objects out, for any kind. It knows
//! no kind by name; `apiserver` gives it the kinds, the identities and the rules.
//!
//! ```text
//!  connection ─► filters (a const list) ─► route ─► registry::{create, update, patch, delete, get, list, watch}
//!                                             └──► handlers: subresources that are not objects
//! ```

mod admit;
mod auth;
mod body;
mod codec;
mod compress;
mod config;
mod convert;
mod discovery;
mod encodings;
mod encryption;
mod filters;
mod health;
mod kinds;
mod list_options;
mod listen;
mod metrics;
mod negotiate;
mod openapi;
mod options;
mod plain;
mod query;
mod registry;
mod request;
mod respond;
mod route;
mod server;
mod table;
mod transform;
mod upgrade;
mod watching;

pub use self::{
    admit::{Admission, Admit, Admitting, Operation},
    auth::{
        Attributes, Authenticate, Authenticating, Authorize, Authorizing, Decision, Peer, User,
    },
    body::{Body, Reply},
    codec::{Decoded, decode_body},
    config::{Config, Limits},
    convert::{Convert, Converting},
    encryption::{Encryption, EncryptionConfig, Place},
    health::Check,
    kinds::{Kinds, Served},
    listen::{Listening, Tls},
    query::Query,
    registry::{
        Applied, Call, Delete, Deleted, List, Note, Notice, Page, Patch, PatchType, Registry,
        Selection, Start, Watch, uid,
    },
    request::{Request, RequestInfo},
    respond::{object_reply, status_reply},
    route::{Handle, Handler, Handling},
    server::Server,
    transform::{Identity, Transform},
    upgrade::{proxy, tunnel},
};
