//! The seam for rules in CEL (`x-kubernetes-validations`): compiled once with the
//! definition, run at every write.

use std::{fmt, sync::Arc};

use object::Value;

use super::schema::Schema;
use crate::{Errors, Path};

/// The compiled rules of one schema, at every node that has any.
pub trait Rules: fmt::Debug + Send + Sync {
    /// Checks an object; `old` is what it was before, where it was.
    fn check(&self, object: &Value, old: Option<&Value>, errs: &mut Errors);
}

/// Turns the rules of a schema into something that can be run.
pub trait CompileRules: fmt::Debug + Send + Sync {
    /// What is wrong with the rules of a schema that is itself right. `old` is the schema
    /// of the same version before an update: what it had is not refused again.
    fn check(&self, schema: &Schema, old: Option<&Schema>, at: &Path, errs: &mut Errors);

    /// The rules of a schema that has passed; `None`: it has none.
    fn compile(&self, schema: &Schema) -> Option<Arc<dyn Rules>>;
}

/// Where no engine is plugged in: schemas with rules are taken, and not checked by them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRules;

impl CompileRules for NoRules {
    fn check(&self, _: &Schema, _: Option<&Schema>, _: &Path, _: &mut Errors) {}

    fn compile(&self, _: &Schema) -> Option<Arc<dyn Rules>> {
        None
    }
}
