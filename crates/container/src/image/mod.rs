//! Image store: images from archives and registries, unpacked to overlayfs directories.
//!
//! ```text
//!  archive ─┐                                  ┌─ blobs/sha256/…     compressed, for export
//!  registry ┼─► content (digests checked) ─────┤
//!  built-in ┘        │ unpack (root, layer)    ├─ layers/sha256-…/   one per chain id, shared by images
//!                    └─► records ──────────────┼─ images.json        names, sizes
//!                                              └─ holds/…            the layers that each container uses
//! ```

mod archive;
mod builtin;
mod content;
mod digest;
mod disk_reserve;
mod entries;
mod error;
mod export;
mod layer;
mod layer_leases;
mod manifest;
mod pull;
mod records;
mod reference;
mod registry;
mod root;
mod store;

pub use builtin::BuiltinImage;
pub use digest::Digest;
pub use error::{Error, Result};
pub use layer::DiskUsage;
pub use manifest::Config;
pub use reference::{Reference, TagOrDigest};
pub use registry::{RegistryAuth, RegistryConfig};
pub use store::{Image, ImageStore};
