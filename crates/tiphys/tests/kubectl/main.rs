//! kubectl as users run it: the built executable, a real cluster, a real terminal. All files share one cluster; each
//! has one topic.

mod changes;
mod cluster;
mod drain;
mod forward;
#[path = "../security/image.rs"]
#[allow(dead_code, reason = "shared with the tests of security, which use more of it")]
mod image;
mod local;
mod pty;
mod run;
mod streams;
mod terminal;
#[path = "../cluster/world.rs"]
#[allow(dead_code, reason = "shared with the tests of clusters, which use more of it")]
mod world;

use std::thread;

use self::cluster::Cluster;

/// All topics, in one test because they share one cluster, which is stopped at the end.
#[test]
fn kubectl() {
    let cluster = Cluster::start();
    thread::scope(|scope| {
        scope.spawn(|| streams::all(&cluster));
        scope.spawn(|| run::all(&cluster));
        scope.spawn(|| changes::all(&cluster));
        scope.spawn(|| terminal::all(&cluster));
        scope.spawn(|| local::all(&cluster));
        scope.spawn(|| forward::all(&cluster));
    });
    // these would disturb the others
    drain::all(&cluster);
    terminal::a_killed_connection(&cluster);
}
