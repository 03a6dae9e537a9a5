//! Where pods come from.

pub(crate) mod api;
pub(crate) mod file;
mod manifest;
pub(crate) mod mirror;
pub(crate) mod url;
