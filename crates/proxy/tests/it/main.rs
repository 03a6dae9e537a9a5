//! Real packets through the proxy's rules, between namespaces of our own.

mod follow;
mod packets;
mod scale;
#[expect(dead_code, reason = "it can do more than is needed here")]
#[path = "../../../runtime/tests/it/server.rs"]
mod server;
mod world;
