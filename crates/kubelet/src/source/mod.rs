//! Where pods come from.

pub(crate) mod api;
pub(crate) mod file;
pub(crate) mod mirror;
