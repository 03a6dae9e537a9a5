//! Evaluation of a policy's expressions for one request. A variable is computed when it is first read, and its value is
//! kept.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use super::{Expression, PolicyInputs};
use crate::{
    error::Error,
    program::{Bindings, CALL_LIMIT, LazyFields},
    value::Value,
};

/// A variable of a policy: its name and expression.
pub(super) type VariableDeclaration = (Arc<str>, Expression);

/// Maximum total nesting depth of the expressions of variables that depend on each other.
const MAX_VARIABLE_DEPTH: usize = 400;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The variables of a policy, with the values computed so far.
pub(super) struct PolicyEvaluation<'a> {
    declared: &'a [VariableDeclaration],
    values: Vec<OnceCell<Result<Value<'a>, Error>>>,
    spent: Cell<u64>,
    depth: Cell<usize>,
}

impl<'a> PolicyEvaluation<'a> {
    pub(super) fn new(declared: &'a [VariableDeclaration]) -> Self {
        let values = declared.iter().map(|_| OnceCell::new()).collect();
        Self { declared, values, spent: Cell::new(0), depth: Cell::new(0) }
    }

    /// The variables of every expression, and those of the policy.
    pub(super) fn bindings(&'a self, inputs: &PolicyInputs<'a>) -> Result<Bindings<'a>, String> {
        let bindings = inputs.bindings().map_err(|error| error.to_string())?;
        Ok(bindings.computed("variables", self))
    }

    /// Evaluates an expression and charges its cost, including that of variables. The outer error means that the budget
    /// is exhausted.
    pub(super) fn run(
        &self,
        expression: &'a Expression,
        bindings: &'a Bindings<'a>,
        budget: &mut u64,
    ) -> Result<Result<Value<'a>, String>, String> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(error) => return Ok(Err(format!("compilation error: {error}"))),
        };
        let (outcome, cost) = program.evaluate(bindings, CALL_LIMIT);
        let cost = cost.saturating_add(self.spent.take());
        *budget = budget.checked_sub(cost).ok_or(OUT_OF_BUDGET)?;
        let source = &expression.source;
        Ok(outcome.map_err(|error| format!("expression '{source}' resulted in error: {error}")))
    }

    fn compute(
        &self,
        (name, expression): &'a VariableDeclaration,
        bindings: &'a Bindings<'a>,
    ) -> Result<Value<'a>, Error> {
        let failed = |how: &str, error: &dyn std::fmt::Display| {
            let name = object::quote::quote(name);
            Error::new(format!("composited variable {name} fails to {how}: {error}"))
        };
        let program = expression.program.as_ref().map_err(|error| failed("compile", error))?;
        let depth = self.depth.get();
        if depth + program.height() > MAX_VARIABLE_DEPTH {
            return Err(failed("evaluate", &"too many variables need each other"));
        }
        self.depth.set(depth + program.height());
        let (outcome, cost) = program.evaluate(bindings, CALL_LIMIT);
        self.depth.set(depth);
        self.spent.set(self.spent.get().saturating_add(cost));
        outcome.map_err(|error| failed("evaluate", &error))
    }
}

impl<'a> LazyFields<'a> for PolicyEvaluation<'a> {
    fn get(&self, name: &str, bindings: &'a Bindings<'a>) -> Option<Result<Value<'a>, Error>> {
        // Of several variables with one name the last counts; a variable can only refer to earlier ones.
        let at = self.declared.iter().rposition(|(other, _)| **other == *name)?;
        if let Some(value) = self.values[at].get() {
            return Some(value.clone());
        }
        let value = self.compute(&self.declared[at], bindings);
        Some(self.values[at].get_or_init(|| value).clone())
    }
}
