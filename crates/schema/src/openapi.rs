//! OpenAPI documents: one for each group and version (v3), and one for the whole API (v2). They are
//! generated from the resource definitions.

mod non_resource_paths;
mod operation;
pub(crate) mod packages;
mod paths;
mod schemas;
mod v2;
mod v3;

pub use self::{
    v2::v2,
    v3::{non_resource_documents, v3},
};

/// The API version in the documents.
const VERSION: &str = "1.37";

#[cfg(test)]
mod tests;
