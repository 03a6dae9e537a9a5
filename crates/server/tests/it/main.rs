//! Tests of the whole server with real kinds.

mod collections;
mod floods;
mod hostile;
mod paths;
mod raw;
mod watches;
