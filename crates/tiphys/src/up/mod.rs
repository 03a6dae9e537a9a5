//! `tiphys up`: everything on one machine.
//!
//! ```text
//!  up ──starts──► supervise ──► control   API server, controllers, scheduler: an ordinary user
//!   │                  └──────► node      runtime, kubelet, network, proxy: root
//!   └─waits for the node, then says what to do next
//! ```

pub(crate) mod check;
pub(crate) mod control;
pub(crate) mod demo;
pub(crate) mod down;
mod layout;
mod machine;
pub(crate) mod node;
mod settings;
mod sockets;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod supervise;

pub(crate) use self::{
    layout::Layout,
    node::{IMAGE, import, proxy_node},
    settings::Settings,
};
