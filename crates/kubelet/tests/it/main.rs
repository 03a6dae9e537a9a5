//! The kubelet between a real API server and a scripted container runtime: pods and states of containers in, calls
//! of the Container Runtime Interface and statuses out.

mod failures;
mod life;
mod node;
mod restarts;
mod runtime;
mod service;
mod world;

use self::world::World;
