//! The client against a small server that says what each test wants to hear.

mod api;
mod server;
mod transport;
mod watch;
