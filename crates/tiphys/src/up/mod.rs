//! `tiphys up`: everything on one machine.
//!
//! ```text
//!  up ──starts──► supervise ──► control   API server, controllers, scheduler: an ordinary user
//!   │                  └──────► node      runtime, kubelet, network, proxy: root
//!   └─waits for the node, then says what to do next
//! ```
//!
//! `tiphys join` starts the same without `control`.

pub(crate) mod check;
mod clusters;
mod components;
pub(crate) mod control;
mod control_plane_role;
pub(crate) mod demo;
pub(crate) mod down;
mod failures;
mod glance;
pub(crate) mod join;
pub(crate) mod layout;
mod machine;
pub(crate) mod membership;
pub(crate) mod node;
mod notify;
mod place;
mod ports;
mod profile;
mod progress;
mod protect;
mod settings;
mod settle;
mod sockets;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod supervise;

pub(crate) use self::{
    layout::DataDir,
    machine::refuse_reserved,
    node::{CniAdapter, IMAGE, export, import, proxy_node},
    place::Place,
    profile::Profile,
    settings::{ClusterConfig, note_restored},
    status::is_running,
};
