//! The compiler behind the expressions of policies: what `api` names by the value that an
//! expression must give becomes an environment of the language.

use std::sync::Arc;

use api::expression::{Compiler, Environment, Gives, Wrong};
use cel::{
    device::Selector,
    policy::{Expected, Expression, Scope, Variables},
};
use schema::ErrorType;

/// Starts to compile the expressions of one object.
pub(crate) fn start() -> Box<dyn Compiler> {
    Box::new(Expressions::default())
}

/// Like `start`, where attributes of devices may be lists.
pub(crate) fn start_with_lists() -> Box<dyn Compiler> {
    Box::new(Expressions { lists: true, ..Expressions::default() })
}

/// The expressions of one object: of a policy, a webhook or a claim for devices.
#[derive(Default)]
struct Expressions {
    lists: bool,
    variables: Variables,
    /// The environment of the last expression: most expressions of a policy share one.
    last: Option<(Scope, Arc<cel::Environment>)>,
}

impl Compiler for Expressions {
    fn compile(&mut self, text: &str, of: &Environment) -> Result<(), Wrong> {
        match of.gives {
            Gives::Device => about_devices(Selector::compile(text, self.lists)),
            Gives::DeviceAttribute => about_devices(Selector::compile_attribute(text, self.lists)),
            _ => self.expression(text, of).program.map(drop).map_err(wrong),
        }
    }

    fn declare(&mut self, name: &str, text: &str, of: &Environment) -> Result<(), Wrong> {
        let expression = self.expression(text, of);
        self.variables.declare(name, expression.ty());
        self.last = None;
        expression.program.map(drop).map_err(wrong)
    }
}

impl Expressions {
    fn expression(&mut self, text: &str, of: &Environment) -> Expression {
        let (expected, mutation) = match of.gives {
            Gives::Truth => (Expected::Bool, false),
            Gives::Message => (Expected::Text, false),
            Gives::Annotation => (Expected::TextOrNull, false),
            Gives::JsonPatch => (Expected::JsonPatch, true),
            Gives::ApplyConfiguration => (Expected::Object, true),
            Gives::Anything | Gives::Device | Gives::DeviceAttribute => (Expected::Anything, false),
        };
        let (params, authorizer, variables) = (of.params, of.authorizer, of.variables);
        let scope = Scope { params, authorizer, mutation, variables };
        let last = self.last.take().filter(|(last, _)| *last == scope);
        let (_, environment) =
            self.last.insert(last.unwrap_or_else(|| (scope, scope.environment(&self.variables))));
        Expression::compile(environment, text, expected)
    }
}

/// What cannot even begin is upstream's own fault, it says.
fn wrong(detail: String) -> Wrong {
    let internal = detail.starts_with(cel::UNPLANNED);
    Wrong { error: if internal { ErrorType::Internal } else { ErrorType::Invalid }, detail }
}

fn about_devices(compiled: Result<Selector, String>) -> Result<(), Wrong> {
    match compiled {
        Ok(selector) if selector.is_too_complex() => {
            let detail = "too complex, exceeds cost limit".to_owned();
            Err(Wrong { error: ErrorType::Forbidden, detail })
        }
        Ok(_) => Ok(()),
        Err(detail) => Err(wrong(detail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(gives: Gives) -> Environment {
        Environment { gives, params: false, authorizer: true, variables: true, stored: false }
    }

    #[test]
    fn expressions_give_what_is_asked_for() {
        let mut compiler = start();
        assert_eq!(compiler.compile("object.spec.replicas < 3", &of(Gives::Truth)), Ok(()));
        let wrong = compiler.compile("1", &of(Gives::Truth)).expect_err("a number");
        assert_eq!(wrong.detail, "must evaluate to bool but got int");
        let wrong = compiler.compile("params.x", &of(Gives::Truth)).expect_err("none");
        assert!(wrong.detail.starts_with("compilation failed"), "{}", wrong.detail);
        let devices = of(Gives::Device);
        assert_eq!(compiler.compile("device.driver == 'x'", &devices), Ok(()));
        assert!(compiler.compile("device.nope", &devices).is_err());
    }

    #[test]
    fn variables_are_seen_by_those_after_them() {
        let mut compiler = start();
        let variable = of(Gives::Anything);
        assert_eq!(compiler.declare("a", "1", &variable), Ok(()));
        assert!(compiler.declare("c", "variables.d", &variable).is_err());
        assert_eq!(compiler.declare("b", "variables.a + 1", &variable), Ok(()));
        assert_eq!(compiler.compile("variables.b > 1", &of(Gives::Truth)), Ok(()));
        assert!(compiler.compile("variables.d", &of(Gives::Truth)).is_err());
        let without = Environment { variables: false, ..of(Gives::Truth) };
        assert!(compiler.compile("variables.b > 1", &without).is_err());
    }

    #[test]
    fn many_variables_take_no_more_than_their_number_explains() {
        let took = |count: usize| {
            let (mut compiler, before) = (start(), std::time::Instant::now());
            for i in 0..count {
                let text = format!("variables.v{} == 1", i.saturating_sub(1));
                let _ = compiler.declare(&format!("v{i}"), &text, &of(Gives::Anything));
                let _ = compiler.compile(&text, &of(Gives::Truth));
            }
            before.elapsed()
        };
        took(50);
        let (few, many) = (took(300), took(1_200));
        assert!(many < few * 9, "300 variables: {few:?}, 1,200: {many:?}");
    }
}
