//! Tests of the kubelet between a real API server and a scripted container runtime: the input is pods and container
//! states, the output is CRI calls and pod statuses.

mod failures;
mod life;
mod node;
mod restarts;
mod runtime;
mod service;
mod world;

use self::world::World;
