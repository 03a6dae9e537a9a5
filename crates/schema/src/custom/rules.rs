//! The seam for rules in CEL (`x-kubernetes-validations`): compiled once with the
//! definition, run at every write.

use std::{fmt, sync::Arc};

use object::Value;

use super::schema::JsonSchema;
use crate::{ErrorList, FieldPath};

/// The compiled rules of one schema, at every node that has any.
pub trait CelRules: fmt::Debug + Send + Sync {
    /// Checks an object; `old` is what it was before, where it was.
    fn check(&self, object: &Value, old: Option<&Value>, errs: &mut ErrorList);
}

/// Turns the rules of a schema into something that can be run.
pub trait CelRuleCompiler: fmt::Debug + Send + Sync {
    /// What is wrong with the rules of a schema that is itself right. `old` is the schema
    /// of the same version before an update: what it had is not refused again.
    fn check(
        &self,
        schema: &JsonSchema,
        old: Option<&JsonSchema>,
        at: &FieldPath,
        errs: &mut ErrorList,
    );

    /// The rules of a schema that has passed; `None`: it has none.
    fn compile(&self, schema: &JsonSchema) -> Option<Arc<dyn CelRules>>;
}

/// Where no engine is plugged in: schemas with rules are taken, and not checked by them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCelRules;

impl CelRuleCompiler for NoCelRules {
    fn check(&self, _: &JsonSchema, _: Option<&JsonSchema>, _: &FieldPath, _: &mut ErrorList) {}

    fn compile(&self, _: &JsonSchema) -> Option<Arc<dyn CelRules>> {
        None
    }
}
