//! One expression of an admission policy.

use std::sync::Arc;

use crate::{environment::Environment, program::Program, types::Type};

/// The type that an expression must evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Bool,
    Text,
    TextOrNull,
    Anything,
    JsonPatch,
    Object,
}

impl Expected {
    fn types(self) -> Vec<Type> {
        match self {
            Self::Bool => vec![Type::Bool],
            Self::Text => vec![Type::Text],
            Self::TextOrNull => vec![Type::Text, Type::Null],
            Self::Anything => Vec::new(),
            Self::JsonPatch => vec![Type::list(Type::named("JSONPatch"))],
            Self::Object => vec![Type::named("Object")],
        }
    }
}

/// An expression with its source, and the compiled program or the error.
#[derive(Debug)]
pub struct Expression {
    pub source: String,
    /// The program, or the compile error.
    pub program: Result<Program, String>,
}

impl Expression {
    pub fn compile(environment: &Arc<Environment>, source: &str, expected: Expected) -> Self {
        let program = compile(environment, source, expected);
        Self { source: source.to_owned(), program }
    }

    /// The type of its result; dyn if it did not compile.
    pub fn ty(&self) -> Type {
        self.program.as_ref().map_or(Type::Dyn, |program| program.output_type().clone())
    }
}

fn compile(
    environment: &Arc<Environment>,
    source: &str,
    expected: Expected,
) -> Result<Program, String> {
    let program =
        environment.compile(source).map_err(|errors| format!("compilation failed: {errors}"))?;
    let (types, ty) = (expected.types(), program.output_type());
    if types.is_empty() || types.contains(ty) {
        return program.require_valid();
    }
    let ty = ty.full_name();
    Err(match types.as_slice() {
        [only] => format!("must evaluate to {} but got {ty}", only.full_name()),
        several => {
            let names: Vec<String> = several.iter().map(Type::full_name).collect();
            format!("must evaluate to one of [{}] but got {ty}", names.join(" "))
        }
    })
}
