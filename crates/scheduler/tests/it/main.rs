//! The scheduler on a real API server: what it decides, and what it writes about it.

mod capacity;
mod placement;
mod preemption;
mod volumes;
mod world;

use self::world::World;
