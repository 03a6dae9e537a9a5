//! Integration tests of the scheduler with a real API server.

mod capacity;
mod placement;
mod preemption;
mod volumes;
mod world;

use self::world::World;
