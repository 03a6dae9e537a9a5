//! The interface to CEL rules (`x-kubernetes-validations`), which are compiled once with the CRD
//! and evaluated on every write. The crate `cel` implements it.

use std::{fmt, sync::Arc};

use object::Value;

use super::schema::JsonSchema;
use crate::{ErrorList, FieldPath};

/// The compiled rules of one schema.
pub trait CelRules: fmt::Debug + Send + Sync {
    /// Validates an object; `old` is set on updates.
    fn check(&self, object: &Value, old: Option<&Value>, errs: &mut ErrorList);
}

/// Compiles the rules of a schema.
pub trait CelRuleCompiler: fmt::Debug + Send + Sync {
    /// Reports the errors of the rules of a valid schema. `old` is the schema of the same version
    /// before an update: its errors are not reported again (ratcheting).
    fn check(
        &self,
        schema: &JsonSchema,
        old: Option<&JsonSchema>,
        at: &FieldPath,
        errs: &mut ErrorList,
    );

    /// The compiled rules of a validated schema; `None` if it has none.
    fn compile(&self, schema: &JsonSchema) -> Option<Arc<dyn CelRules>>;
}

/// A compiler that ignores rules: schemas with rules are accepted, and the rules are not evaluated.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCelRules;

impl CelRuleCompiler for NoCelRules {
    fn check(&self, _: &JsonSchema, _: Option<&JsonSchema>, _: &FieldPath, _: &mut ErrorList) {}

    fn compile(&self, _: &JsonSchema) -> Option<Arc<dyn CelRules>> {
        None
    }
}
