//! A real cluster inside a test: every filter, every rule, no port and no log on disk.

mod cluster;
mod objects;

pub use self::{
    cluster::TestCluster,
    objects::{Objects, condition, key, tree, until},
};
