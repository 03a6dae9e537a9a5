//! Controllers on a real API server: what they make of what is written there.

mod autoscaler;
mod credentials;
mod daemon_set;
mod devices;
mod garbage;
mod hostile;
mod identity;
mod job;
mod limits;
mod policies;
mod rights;
mod stateful_set;
mod storage;
mod world;

use self::world::World;
