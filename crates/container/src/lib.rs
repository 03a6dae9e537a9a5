//! The container runtime: images, sandboxes, processes, logs, and the CRI server that the kubelet talks to.
//!
//! ```text
//!  kubelet ─CRI─► Server ─┬─ image::Store     pull, unpack, lease
//!                         ├─ Cni              the pod's network
//!                         ├─ streaming        exec, attach, port-forward
//!                         └─ a shim per pod   processes, logs, exit codes; survives the server
//! ```

pub mod cni;
pub mod cri;
pub mod image;
mod seccomp;
mod server;
pub mod shim;
mod spec;
mod status;
pub mod streaming;
mod threads;

pub use cni::Cni;
pub use cri::CriClient;
pub use server::{Config, Server};
pub use status::{bounded, bounded_message};
