//! The runtime against a small server that keeps objects in memory.

mod caches;
mod containment;
mod controllers;
mod elections;
mod events;
mod kinds;
mod server;
