//! What a write takes for its object out of what all objects share, before it is stored:
//! addresses, ports. When it is known what came of the write, it is kept or given back.

use std::{fmt, future::Future, pin::Pin};

use object::Status;

use crate::{AdmissionAttributes, Registry, ServedResource};

/// Who has what can be taken.
pub trait Allocator: fmt::Debug + Send + Sync {
    /// Whether objects of the kind take anything.
    fn applies_to(&self, served: &ServedResource) -> bool;

    /// Takes what the object needs, and writes it down in the object. On deletion nothing is
    /// taken, but it is remembered what may be given back.
    fn allocate<'a>(&'a self, write: &'a mut AdmissionAttributes<'_>) -> AllocateFuture<'a>;
}

/// What has been taken for a write that is under way. If it is dropped, nothing is given back:
/// whoever keeps the books finds that out later.
pub trait Allocation: fmt::Debug + Send + Sync {
    fn finish(self: Box<Self>, registry: &Registry, outcome: WriteOutcome) -> FinishFuture<'_>;
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    Stored,
    /// The object is no more.
    Gone,
    Failed,
    /// It failed, but may have been done all the same.
    Unknown,
}

pub type AllocateFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn Allocation>, Status>> + Send + 'a>>;
pub type FinishFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl WriteOutcome {
    pub(crate) fn failed(status: &Status) -> Self {
        match status.code() {
            503 | 504 => Self::Unknown,
            _ => Self::Failed,
        }
    }
}
