//! The API as a client sees it, whatever the kind and however far away the
//! server: behind TLS, a unix socket, or a pipe within the process.
//!
//! ```text
//!  Config ── kubeconfig, service account, socket, pipe
//!    └► Client ── request, upgrade: one pool of connections, one identity
//!         └► Api<K> ── get, list, watch, create, update, patch, delete of one resource
//! ```

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
    observe::{RequestObserver, Sent},
    options::{DeleteParams, DeleteResult, ListParams, ObjectList, Patch, Propagation, Selectors},
    proxy::Proxy,
    resource::ApiResource,
    response::Response,
    resume::{ResumingWatch, WatchUpdate},
    tls::{Pem, TlsOptions},
    upgrade::{Tunnel, WebSocket},
    watch::{Watch, WatchEvent, WatchStart},
};
