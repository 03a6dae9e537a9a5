//! kubectl as users have it: the built executable, a real cluster, a real terminal. One cluster
//! for all; one topic a file.

mod cluster;
#[path = "../security/image.rs"]
#[allow(dead_code, reason = "shared with the tests of security, which use more of it")]
mod image;
mod pty;
mod run;
mod streams;
mod terminal;
#[path = "../cluster/world.rs"]
#[allow(dead_code, reason = "shared with the tests of clusters, which use more of it")]
mod world;

use self::cluster::Cluster;

/// One test, so that all of it has one cluster, which ends with it.
#[test]
fn kubectl() {
    let cluster = Cluster::start();
    streams::all(&cluster);
    run::all(&cluster);
    terminal::all(&cluster);
}
