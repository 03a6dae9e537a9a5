//! A real API server inside a test: every filter and every admission rule, without a port and without a log on disk.

mod cluster;
mod objects;

pub use self::{
    cluster::TestCluster,
    objects::{Objects, condition, key, tree, until},
};
