//! The client against a small server with scripted responses.

mod api;
mod server;
mod transport;
mod watch;
