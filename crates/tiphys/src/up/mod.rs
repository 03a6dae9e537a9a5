//! `tiphys up`: runs a whole cluster on one host.
//!
//! ```text
//!  up ──starts──► supervise ──► control   API server, controllers, scheduler: an unprivileged user
//!   │                  └──────► node      runtime, kubelet, network, proxy: root
//!   └─waits for the node, then prints the next steps
//! ```
//!
//! `tiphys join` starts the same processes without `control`.

pub(crate) mod bootstrap;
pub(crate) mod check;
mod cluster_location;
mod clusters;
mod components;
pub(crate) mod control;
mod control_plane_role;
pub(crate) mod demo;
pub(crate) mod down;
mod failures;
mod finish_startup;
pub(crate) mod join;
pub(crate) mod layout;
mod machine;
pub(crate) mod membership;
pub(crate) mod node;
mod node_reserve;
mod notify;
mod ports;
mod profile;
mod progress;
mod settings;
mod sockets;
pub(crate) mod start;
pub(crate) mod status;
mod summary;
pub(crate) mod supervise;

pub(crate) use self::{
    cluster_location::Place,
    finish_startup::administrator,
    layout::DataDir,
    machine::refuse_reserved,
    node::{CniAdapter, IMAGE, export, import, proxy_node},
    profile::Profile,
    settings::{ClusterConfig, note_restored},
    status::is_running,
};
