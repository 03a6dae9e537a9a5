//! Tests with real packets between network namespaces, none of which has a route to the outside.

mod builtin;
mod exec;
mod localhost;
mod world;
