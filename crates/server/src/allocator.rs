//! Allocation of cluster-wide values, such as Service IPs and node ports, before an object is
//! stored. Once the result of the write is known, the allocation is committed or released.

use std::{fmt, future::Future, pin::Pin};

use object::Status;

use crate::{AdmissionAttributes, Registry, ServedResource};

/// Allocates cluster-wide values for objects of some kinds.
pub trait Allocator: fmt::Debug + Send + Sync {
    /// Whether objects of this kind need an allocation.
    fn applies_to(&self, served: &ServedResource) -> bool;

    /// Allocates what the object needs and writes it into the object. On deletion it allocates
    /// nothing, and returns the allocation that may be released.
    fn allocate<'a>(&'a self, write: &'a mut AdmissionAttributes<'_>) -> AllocateFuture<'a>;
}

/// What was allocated for a write in progress. Dropping it releases nothing: the repair loop finds
/// leaked values later.
pub trait Allocation: fmt::Debug + Send + Sync {
    fn finish(self: Box<Self>, registry: &Registry, outcome: WriteOutcome) -> FinishFuture<'_>;
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    Stored,
    /// The object was deleted.
    Gone,
    Failed,
    /// The write failed with a timeout or a lost connection, and may have been stored nevertheless.
    Unknown,
}

/// The result of `Allocator::allocate`.
pub type AllocateFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn Allocation>, Status>> + Send + 'a>>;
/// The result of `Allocation::finish`.
pub type FinishFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl WriteOutcome {
    pub(crate) fn failed(status: &Status) -> Self {
        match status.code() {
            503 | 504 => Self::Unknown,
            _ => Self::Failed,
        }
    }
}
