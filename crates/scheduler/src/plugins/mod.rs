//! The scheduler plugins, grouped by topic.

pub(crate) mod fit;
pub(crate) mod images;
pub(crate) mod node;
pub(crate) mod pods;
pub(crate) mod ports;
pub(crate) mod spread;
pub(crate) mod taints;
pub(crate) mod volumes;

#[cfg(test)]
mod tests;
