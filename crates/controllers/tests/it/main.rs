//! Controllers on a real API server: what they make of what is written there.

mod autoscaler;
mod credentials;
mod daemon_set;
mod devices;
mod identity;
mod job;
mod limits;
mod policies;
mod stateful_set;
mod storage;
mod world;

use self::world::World;
