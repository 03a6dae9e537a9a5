//! What a write takes for its object out of what all objects share, before it is stored:
//! addresses, ports. When it is known what came of the write, it is kept or given back.

use std::{fmt, future::Future, pin::Pin};

use object::Status;

use crate::{Admission, Registry, Served};

/// Who has what can be taken.
pub trait Claim: fmt::Debug + Send + Sync {
    /// Whether objects of the kind take anything.
    fn concerns(&self, served: &Served) -> bool;

    /// Takes what the object needs, and writes it down in the object. On deletion nothing is
    /// taken, but it is remembered what may be given back.
    fn claim<'a>(&'a self, write: &'a mut Admission<'_>) -> Claiming<'a>;
}

/// What has been taken for a write that is under way. If it is dropped, nothing is given back:
/// whoever keeps the books finds that out later.
pub trait Claimed: fmt::Debug + Send + Sync {
    fn settle(self: Box<Self>, registry: &Registry, outcome: Outcome) -> Settling<'_>;
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Stored,
    /// The object is no more.
    Gone,
    Failed,
    /// It failed, but may have been done all the same.
    Unknown,
}

pub type Claiming<'a> = Pin<Box<dyn Future<Output = Result<Box<dyn Claimed>, Status>> + Send + 'a>>;
pub type Settling<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl Outcome {
    pub(crate) fn failed(status: &Status) -> Self {
        match status.code() {
            503 | 504 => Self::Unknown,
            _ => Self::Failed,
        }
    }
}
