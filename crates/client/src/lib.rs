//! The API client, for built-in and custom kinds, over TLS, a unix socket or an in-process pipe.
//!
//! ```text
//!  Config ── kubeconfig, service account, socket, pipe
//!    └► Client ── request, upgrade: one connection pool, one user
//!         └► Api<K> ── get, list, watch, create, update, patch, delete of one resource
//! ```

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod api;
mod auth;
mod cause_header;
mod client;
mod codec;
mod config;
mod connect;
mod discovery;
mod error;
mod exec;
mod http2_connection;
mod kubeconfig;
mod observe;
mod oidc;
mod options;
mod pool;
mod proxy;
mod proxy_env;
mod resolve;
mod resource;
mod response;
mod resume;
mod tls;
mod upgrade;
mod verify;
mod watch;

pub use self::{
    api::{Api, ApiObject},
    auth::{Auth, TokenSource},
    cause_header::{CAUSE_HEADER, cause_from_header, cause_to_header},
    client::Client,
    config::{Config, OnWarning},
    connect::{
        ADDRESS_NOT_ALLOWED, Addresses, ConnectFuture, Connection, ConnectionUse, Connector, Io,
        PipeConnector, TcpConnector, UnixConnector,
    },
    discovery::{DiscoveredResource, RestMapper},
    error::Error,
    kubeconfig::Kubeconfig,
    observe::{REQUEST_SECONDS, REQUEST_SIZES, RequestObserver, Sent},
    options::{DeleteParams, DeleteResult, ListParams, ObjectList, Patch, Propagation, Selectors},
    proxy::Proxy,
    resource::ApiResource,
    response::Response,
    resume::{ResumingWatch, WatchUpdate},
    tls::{Pem, TlsOptions},
    upgrade::{Tunnel, WebSocket},
    watch::{Watch, WatchEvent, WatchStart},
};
