//! Compilation of the validation rules of one schema node.

use std::sync::Arc;

use schema::custom::{JsonSchema, resolve_field_path};

use super::ValidationRule;
use crate::{decl_type::DeclType, environment::Environment, program::Program, types::Type};

/// A rule with its compiled program, or the error.
#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) source: ValidationRule,
    /// The program, or the compile error.
    pub(super) program: Result<Program, String>,
    pub(super) message: Option<Result<Program, String>>,
    pub(super) uses_old: bool,
    /// The field of the error, from `fieldPath`.
    pub(super) field: String,
}

impl CompiledRule {
    pub(super) fn has_optional_old_self(&self) -> bool {
        self.source.optional_old_self == Some(true)
    }
}

/// The environments for the rules of a schema node.
pub(super) struct NodeEnvironment {
    plain: Arc<Environment>,
    optional: Arc<Environment>,
}

impl NodeEnvironment {
    /// `None` if expressions cannot access the value.
    pub(super) fn new(node: &Arc<DeclType>) -> Option<Self> {
        let ty = node.ty()?.clone();
        let environment = Environment::new().with_node("self", node);
        let optional = environment.clone().with_variable("oldSelf", Type::optional(ty.clone()));
        Some(Self {
            plain: Arc::new(environment.with_variable("oldSelf", ty)),
            optional: Arc::new(optional),
        })
    }

    pub(super) fn compile(&self, schema: &JsonSchema, source: ValidationRule) -> CompiledRule {
        let environment =
            if source.optional_old_self == Some(true) { &self.optional } else { &self.plain };
        let program = environment
            .compile(&source.rule)
            .map_err(|errors| format!("compilation failed: {errors}"))
            .and_then(|program| match program.output_type() {
                Type::Bool => program.require_valid(),
                _ => Err("cel expression must evaluate to a bool".to_owned()),
            });
        let message = (program.is_ok() && !source.message_expression.is_empty()).then(|| {
            let program = environment.compile(&source.message_expression);
            let program = program
                .map_err(|errors| format!("messageExpression compilation failed: {errors}"))?;
            match program.output_type() {
                Type::Text => match program.instantiation_error() {
                    Some(flaw) => Err(format!("messageExpression instantiation failed: {flaw}")),
                    None => Ok(program),
                },
                _ => Err("messageExpression must evaluate to a string".to_owned()),
            }
        });
        let uses_old = program.as_ref().is_ok_and(|program| program.uses("oldSelf"));
        let field = field(schema, &source.field_path);
        CompiledRule { source, program, message, uses_old, field }
    }
}

/// A field path in the form of error messages: `a.b[key]`.
fn field(schema: &JsonSchema, path: &str) -> String {
    let Ok((names, _)) = resolve_field_path(schema, path, true) else { return String::new() };
    let (mut shown, mut at) = (String::new(), Some(schema));
    for name in names {
        match at.filter(|at| at.properties().len() > 0) {
            Some(_) if shown.is_empty() => shown.push_str(&name),
            Some(_) => {
                shown.push('.');
                shown.push_str(&name);
            }
            None => {
                shown.push('[');
                shown.push_str(&name);
                shown.push(']');
            }
        }
        at = at.and_then(|at| at.entry(&name));
    }
    shown
}
