//! Integration tests: controllers against a real API server.

mod autoscaler;
mod clock_jumps;
mod credentials;
mod daemon_set;
mod devices;
mod garbage;
mod hostile;
mod identity;
mod job;
mod limits;
mod metrics;
mod policies;
mod rights;
mod stateful_set;
mod storage;
mod world;

use self::world::World;
