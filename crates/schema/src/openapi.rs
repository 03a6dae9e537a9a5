//! The API described to programs, as OpenAPI: a document for each group and version
//! (v3), and one for everything (v2). All of it follows from the definitions.

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

/// The release of the API that the documents name.
const VERSION: &str = "1.37";

#[cfg(test)]
mod tests;
