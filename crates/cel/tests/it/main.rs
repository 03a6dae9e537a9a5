//! Integration tests of the CEL implementation.

mod compile;
mod cost;
mod evaluate;
mod robust;
mod rules;
