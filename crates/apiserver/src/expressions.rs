//! The CEL compiler for the `api` crate: maps the expected result type of an expression to a CEL
//! environment.

use std::sync::Arc;

use api::expression::{CelEnvironment, CompileError, Compiler, ExpectedResult};
use cel::{
    device::DeviceSelector,
    policy::{Expected, Expression, VariableScope, Variables},
};
use schema::ErrorType;

/// Starts compiling the expressions of one object.
pub(crate) fn start() -> Box<dyn Compiler> {
    Box::new(Expressions::default())
}

/// Like `start`, where device attributes may be lists.
pub(crate) fn start_with_lists() -> Box<dyn Compiler> {
    Box::new(Expressions { lists: true, ..Expressions::default() })
}

/// The expressions of one object: a policy, a webhook or a ResourceClaim.
#[derive(Default)]
struct Expressions {
    lists: bool,
    variables: Variables,
    /// The environment of the last expression, since most expressions of a policy share one.
    last: Option<(VariableScope, Arc<cel::Environment>)>,
}

impl Compiler for Expressions {
    fn compile(&mut self, text: &str, of: &CelEnvironment) -> Result<(), CompileError> {
        match of.result_type {
            ExpectedResult::DeviceSelector => {
                about_devices(DeviceSelector::compile(text, self.lists))
            }
            ExpectedResult::DerivedDeviceAttribute => {
                about_devices(DeviceSelector::compile_attribute(text, self.lists))
            }
            _ => self.expression(text, of).program.map(drop).map_err(wrong),
        }
    }

    fn declare(&mut self, name: &str, text: &str, of: &CelEnvironment) -> Result<(), CompileError> {
        let expression = self.expression(text, of);
        self.variables.declare(name, expression.ty());
        self.last = None;
        expression.program.map(drop).map_err(wrong)
    }
}

impl Expressions {
    fn expression(&mut self, text: &str, of: &CelEnvironment) -> Expression {
        let (expected, mutation) = match of.result_type {
            ExpectedResult::Bool => (Expected::Bool, false),
            ExpectedResult::Message => (Expected::Text, false),
            ExpectedResult::Annotation => (Expected::TextOrNull, false),
            ExpectedResult::JsonPatch => (Expected::JsonPatch, true),
            ExpectedResult::ApplyConfiguration => (Expected::Object, true),
            ExpectedResult::Any
            | ExpectedResult::DeviceSelector
            | ExpectedResult::DerivedDeviceAttribute => (Expected::Anything, false),
        };
        let (params, authorizer, variables) = (of.params, of.authorizer, of.variables);
        let scope = VariableScope { params, authorizer, mutation, variables };
        let last = self.last.take().filter(|(last, _)| *last == scope);
        let (_, environment) =
            self.last.insert(last.unwrap_or_else(|| (scope, scope.environment(&self.variables))));
        Expression::compile(environment, text, expected)
    }
}

/// An instantiation failure is reported as an internal error, as upstream does.
fn wrong(detail: String) -> CompileError {
    let internal = detail.starts_with(cel::INSTANTIATION_FAILED);
    CompileError { error: if internal { ErrorType::Internal } else { ErrorType::Invalid }, detail }
}

fn about_devices(compiled: Result<DeviceSelector, String>) -> Result<(), CompileError> {
    match compiled {
        Ok(selector) if selector.is_too_complex() => {
            let detail = "too complex, exceeds cost limit".to_owned();
            Err(CompileError { error: ErrorType::Forbidden, detail })
        }
        Ok(_) => Ok(()),
        Err(detail) => Err(wrong(detail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(gives: ExpectedResult) -> CelEnvironment {
        CelEnvironment {
            result_type: gives,
            params: false,
            authorizer: true,
            variables: true,
            is_stored: false,
        }
    }

    #[test]
    fn expressions_give_what_is_asked_for() {
        let mut compiler = start();
        assert_eq!(compiler.compile("object.spec.replicas < 3", &of(ExpectedResult::Bool)), Ok(()));
        let wrong = compiler.compile("1", &of(ExpectedResult::Bool)).expect_err("a number");
        assert_eq!(wrong.detail, "must evaluate to bool but got int");
        let wrong = compiler.compile("params.x", &of(ExpectedResult::Bool)).expect_err("none");
        assert!(wrong.detail.starts_with("compilation failed"), "{}", wrong.detail);
        let devices = of(ExpectedResult::DeviceSelector);
        assert_eq!(compiler.compile("device.driver == 'x'", &devices), Ok(()));
        assert!(compiler.compile("device.nope", &devices).is_err());
    }

    #[test]
    fn variables_are_seen_by_those_after_them() {
        let mut compiler = start();
        let variable = of(ExpectedResult::Any);
        assert_eq!(compiler.declare("a", "1", &variable), Ok(()));
        assert!(compiler.declare("c", "variables.d", &variable).is_err());
        assert_eq!(compiler.declare("b", "variables.a + 1", &variable), Ok(()));
        assert_eq!(compiler.compile("variables.b > 1", &of(ExpectedResult::Bool)), Ok(()));
        assert!(compiler.compile("variables.d", &of(ExpectedResult::Bool)).is_err());
        let without = CelEnvironment { variables: false, ..of(ExpectedResult::Bool) };
        assert!(compiler.compile("variables.b > 1", &without).is_err());
    }

    #[test]
    fn many_variables_take_no_more_than_their_number_explains() {
        let took = |count: usize| {
            let (mut compiler, before) = (start(), std::time::Instant::now());
            for i in 0..count {
                let text = format!("variables.v{} == 1", i.saturating_sub(1));
                let _ = compiler.declare(&format!("v{i}"), &text, &of(ExpectedResult::Any));
                let _ = compiler.compile(&text, &of(ExpectedResult::Bool));
            }
            before.elapsed()
        };
        took(50);
        let fastest = |count| (0..5).map(|_| took(count)).min().unwrap_or_default();
        let (few, many) = (fastest(300), fastest(1_200));
        assert!(many < few * 9, "300 variables: {few:?}, 1,200: {many:?}");
    }
}
