//! Pod sources: the API server, static pod files and a URL.

pub(crate) mod api;
pub(crate) mod file;
mod manifest;
pub(crate) mod mirror;
pub(crate) mod url;
