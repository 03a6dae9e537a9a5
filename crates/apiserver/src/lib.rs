//! The Kubernetes API server: the machinery of `server` with every built-in kind,
//! identities, rights, admission, and the subresources that are no plain objects.

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
mod dial;
mod egress;
mod emulation;
mod etcd;
mod expressions;
mod external_signer;
mod features;
mod flags;
mod flow;
mod ground;
mod handlers;
mod health;
mod identities;
mod metered;
mod peers;
pub mod readers;
mod reload;
mod remote;
mod service_allocator;
mod serving;
mod start;
mod structured;
mod traces;

pub use self::{
    at_rest::{ENCRYPTION, unreadable},
    authn::{OidcFlags, ProxyHeaders},
    config::{Config, Flags},
    flags::{
        ABSENT_FLAGS, AuditFlags, ConnectionFlags, GeneralFlags, GivenFlags, LogFlags, Logging,
        MetricFlags, ServiceAccountFlags, StorageFlags, UnsupportedFlag, UnsupportedFlags, grouped,
        register_verbosity_setter,
    },
    ground::{ListenerSource, ServerEnvironment, StorageBackend},
    start::{RunningServer, start, start_on, start_with},
};
