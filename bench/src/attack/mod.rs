//! Fuzzing of the whole server: requests generated from the kinds' own schemas, hostile in every field, are sent to
//! an API server with all controllers, the scheduler and a node, in a process that may die. See docs/decisions/0011.

mod backends;
mod campaign;
mod canary;
mod cbor;
pub(crate) mod child;
mod clean;
mod corpus;
mod custom;
mod damage;
mod expand;
mod generate;
mod growth;
mod hostile;
mod judge;
mod kinds;
mod minimize;
mod node;
mod patches;
mod process;
mod queries;
mod readable;
mod request;
mod rest;
mod scaling;
mod send;
mod streams;
mod sweep;
mod values;
mod wire;
mod world;

pub(crate) use self::campaign::{Arguments, run};
