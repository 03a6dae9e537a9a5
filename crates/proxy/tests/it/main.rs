//! Real packets through the proxy's rules, between namespaces of our own.

mod follow;
mod packets;
mod scale;
mod world;
