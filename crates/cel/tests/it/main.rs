//! Expressions and what becomes of them.

mod compile;
mod cost;
mod evaluate;
mod robust;
mod rules;
