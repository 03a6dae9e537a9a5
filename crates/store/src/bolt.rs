//! The file of a snapshot: a bbolt database, as etcd makes and takes it.
//!
//! ```text
//!  page 0, 1   meta: where the root is; of two the newer whole one counts
//!  page 2      free pages: none
//!  page 3 …    leaves: keys and values in order; branches: first keys of pages below
//! ```
//!
//! A page is 4096 bytes; one with a large element goes on over the next ones. The root
//! is a bucket of buckets: the value of its keys is where the bucket's own root is.

mod page;
mod read;
mod write;

pub use self::{
    read::{Bolt, EntryVisitor, ReadAt},
    write::write,
};

/// Why a file cannot be read as a database.
#[derive(Debug, thiserror::Error)]
pub enum BoltError {
    #[error("cannot read it: {0}")]
    Io(#[from] std::io::Error),
    #[error("{what} at page {page}")]
    At { page: u64, what: &'static str },
}
