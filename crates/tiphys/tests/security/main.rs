//! Attacks on whole clusters: the built executable, real pods, network namespaces without external connectivity. Each
//! test attempts what must not work, against directories and namespaces created for it. Each file has one topic.

mod answers;
mod attack;
mod cis;
mod environment;
mod image;
mod listeners;
mod probes;
mod restarts;
mod shares;
mod volumes;
#[path = "../cluster/world.rs"]
#[allow(dead_code, reason = "shared with the tests of clusters, which use more of it")]
mod world;
