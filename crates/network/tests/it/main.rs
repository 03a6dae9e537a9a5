//! Real packets between namespaces of our own, none with a route out.

mod builtin;
mod exec;
mod localhost;
mod world;
