//! CEL cost. The estimate is computed at compile time from the schema's size limits; the actual cost is counted during
//! evaluation.

mod calls;
mod estimate;
mod range;
mod runtime_cost;

pub use self::range::CostRange;
pub(crate) use self::{
    estimate::estimate,
    runtime_cost::{argument_cost, result_cost},
};

/// Cost of reading a variable or a field.
pub(crate) const SELECT_COST: u64 = 1;
/// Cost of creating a list, a map, or an object.
pub(crate) const LIST_CREATE_COST: u64 = 10;
pub(crate) const MAP_CREATE_COST: u64 = 30;
pub(crate) const STRUCT_CREATE_COST: u64 = 40;
/// Cost of traversing one character of a string.
const STRING_TRAVERSAL_COST: f64 = 0.1;
/// Cost of one character of a regular expression.
const REGEX_COST: f64 = 0.25;
/// Cost of an authorizer check: high enough to permit only two per expression.
const AUTHORIZER_CHECK_COST: u64 = 350_000;
