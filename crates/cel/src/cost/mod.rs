//! What expressions cost: estimated before any value is known, counted when run.

mod actual;
mod calls;
mod estimate;
mod range;

pub use self::range::Estimate;
pub(crate) use self::{
    actual::{after, before},
    estimate::estimate,
};

/// Reading a variable or a field.
pub(crate) const SELECT: u64 = 1;
/// Making a list, a map, an object.
pub(crate) const LIST: u64 = 10;
pub(crate) const MAP: u64 = 30;
pub(crate) const STRUCT: u64 = 40;
/// Going over one character of a string.
const CHARACTER: f64 = 0.1;
/// One character of a pattern.
const PATTERN: f64 = 0.25;
/// Asking the authorizer: no more than two questions an expression.
const AUTHORIZE: u64 = 350_000;
