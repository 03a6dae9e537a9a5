//! Containers: images, sandboxes, processes, their output, and the interface that kubelets speak.
//!
//! ```text
//!  kubelet ─CRI─► Server ─┬─ image::Store     pull, unpack, count
//!                         ├─ Cni              the pod's network
//!                         ├─ streaming        exec, attach, port-forward
//!                         └─ a shim per pod   processes, logs, exit codes; lives on when the server does not
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
