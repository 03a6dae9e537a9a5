//! The Kubernetes API server: the `server` crate with every built-in kind, authentication,
//! authorization, admission, and the subresources that are not plain objects.

mod accounts;
mod admin_kubeconfig;
mod admission;
mod aggregation;
mod at_rest;
mod audit;
mod authn;
mod authz;
mod bootstrap;
mod client_config;
mod condition;
mod config;
mod crds;
mod egress;
mod emulation;
mod environment;
mod etcd;
mod expressions;
mod external_signer;
mod features;
mod flags;
mod flow;
pub mod fuzz_targets;
mod grpc_connector;
mod handlers;
mod health;
mod identities;
mod instrumented_engine;
mod peers;
mod reload;
mod remote;
mod service_allocator;
mod serving;
mod start;
mod structured;
mod traces;
pub mod zpages;

pub use self::{
    at_rest::{ENCRYPTION, unreadable},
    authn::{OidcFlags, ProxyHeaders},
    config::{Config, Flags},
    environment::{ListenerSource, ServerEnvironment, StorageBackend, disk_log_options},
    flags::{
        ABSENT_FLAGS, AuditFlags, ConnectionFlags, GeneralFlags, GivenFlags, LogFlags, Logging,
        MetricFlags, ServiceAccountFlags, StorageFlags, UnsupportedFlag, UnsupportedFlags, grouped,
        register_verbosity_setter,
    },
    start::{RunningServer, start, start_on, start_with},
};
