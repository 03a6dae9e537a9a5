//! Reader and writer of bbolt databases, the file format of etcd snapshots.
//!
//! ```text
//!  page 0, 1   meta: page of the root; the newer of the two with a valid checksum counts
//!  page 2      free pages: none
//!  page 3 …    leaves: keys and values in order; branches: first keys of pages below
//! ```
//!
//! A page is 4096 bytes; a page with a large element continues on the following ones (overflow pages). The root is a
//! bucket of buckets: the value of each key is the page number of that bucket's own root.

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
