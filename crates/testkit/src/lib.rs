//! A real cluster inside a test: every filter, every rule, no port and no log on disk.

mod cluster;

pub use self::cluster::TestCluster;
