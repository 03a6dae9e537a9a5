//! Tests with real packets through the proxy's rules, between network namespaces.

mod follow;
mod packets;
mod scale;
mod world;
