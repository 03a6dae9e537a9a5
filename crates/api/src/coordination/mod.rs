//! coordination/v1.

mod lease;
pub mod v1beta1;

pub use self::lease::{Lease, LeaseSpec};
