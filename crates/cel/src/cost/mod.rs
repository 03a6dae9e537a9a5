//! What expressions cost: estimated before any value is known, counted when run.

mod calls;
mod estimate;
mod range;
mod runtime_cost;

pub use self::range::CostRange;
pub(crate) use self::{
    estimate::estimate,
    runtime_cost::{argument_cost, result_cost},
};

/// Reading a variable or a field.
pub(crate) const SELECT_COST: u64 = 1;
/// Making a list, a map, an object.
pub(crate) const LIST_CREATE_COST: u64 = 10;
pub(crate) const MAP_CREATE_COST: u64 = 30;
pub(crate) const STRUCT_CREATE_COST: u64 = 40;
/// Going over one character of a string.
const STRING_TRAVERSAL_COST: f64 = 0.1;
/// One character of a pattern.
const REGEX_COST: f64 = 0.25;
/// Asking the authorizer: no more than two questions an expression.
const AUTHORIZER_CHECK_COST: u64 = 350_000;
