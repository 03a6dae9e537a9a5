//! The compiler behind the expressions of policies: what `api` names by the value that an
//! expression must give becomes an environment of the language.

use api::expression::{Environment, Gives, Wrong};
use cel::{
    Type,
    device::Selector,
    policy::{Expected, Expression, Scope},
};
use schema::ErrorType;

/// Says what is wrong with an expression of a policy, a webhook or a claim for devices.
pub(crate) fn compile(text: &str, of: &Environment) -> Result<(), Wrong> {
    compile_with(text, of, false)
}

/// The same, where attributes of devices may be lists.
pub(crate) fn compile_with_lists(text: &str, of: &Environment) -> Result<(), Wrong> {
    compile_with(text, of, true)
}

fn compile_with(text: &str, of: &Environment, lists: bool) -> Result<(), Wrong> {
    let (expected, mutation) = match of.gives {
        Gives::Truth => (Expected::Bool, false),
        Gives::Message => (Expected::Text, false),
        Gives::Annotation => (Expected::TextOrNull, false),
        Gives::Anything => (Expected::Anything, false),
        Gives::JsonPatch => (Expected::JsonPatch, true),
        Gives::ApplyConfiguration => (Expected::Object, true),
        Gives::Device => return about_devices(Selector::compile(text, lists)),
        Gives::DeviceAttribute => {
            return about_devices(Selector::compile_attribute(text, lists));
        }
    };
    let variables = of.variables.is_some();
    let scope = Scope { params: of.params, authorizer: of.authorizer, mutation, variables };
    let environment = scope.environment(&types(of));
    match Expression::compile(&environment, text, expected).program {
        Ok(_) => Ok(()),
        Err(detail) => Err(wrong(detail)),
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

/// The types of the variables before an expression; each sees those before it.
fn types(of: &Environment) -> Vec<(String, Type)> {
    let scope = Scope { params: of.params, authorizer: true, mutation: false, variables: true };
    let mut types = Vec::new();
    for (name, text) in of.variables.iter().flatten() {
        let environment = scope.environment(&types);
        let ty = Expression::compile(&environment, text, Expected::Anything).ty();
        types.push((name.clone(), ty));
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(gives: Gives, variables: &[(&str, &str)]) -> Environment {
        let variables =
            variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Environment {
            gives,
            params: false,
            authorizer: true,
            variables: Some(variables),
            stored: false,
        }
    }

    #[test]
    fn expressions_give_what_is_asked_for() {
        assert_eq!(compile("object.spec.replicas < 3", &of(Gives::Truth, &[])), Ok(()));
        let wrong = compile("1", &of(Gives::Truth, &[])).expect_err("a number");
        assert_eq!(wrong.detail, "must evaluate to bool but got int");
        let wrong = compile("params.x", &of(Gives::Truth, &[])).expect_err("none");
        assert!(wrong.detail.starts_with("compilation failed"), "{}", wrong.detail);
        let devices = of(Gives::Device, &[]);
        assert_eq!(compile("device.driver == 'x'", &devices), Ok(()));
        assert!(compile("device.nope", &devices).is_err());
    }

    #[test]
    fn variables_are_seen_by_those_after_them() {
        let of = of(Gives::Truth, &[("a", "1"), ("b", "variables.a + 1")]);
        assert_eq!(compile("variables.b > 1", &of), Ok(()));
        assert!(compile("variables.c", &of).is_err());
    }
}
