//! The runtime against a small in-memory API server.

mod caches;
mod containment;
mod controllers;
mod elections;
mod events;
mod kinds;
mod server;
