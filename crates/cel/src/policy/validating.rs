//! ValidatingAdmissionPolicy: what it says of a request.

use std::sync::Arc;

use super::{BUDGET, CONDITIONS_BUDGET, Expected, Expression, Inputs, LONGEST_MESSAGE, Scope};
use crate::{environment::Environment, error::Error, program::Program, types::Type, value::Value};

/// A policy whose expressions are compiled.
#[derive(Debug)]
pub struct ValidatingPolicy {
    fails: bool,
    conditions: Conditions,
    variables: Vec<(Arc<str>, Expression)>,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: Option<String>,
}

/// What one expression says of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Why the request is denied; nothing if it is not.
    pub denied: Option<String>,
    /// A status reason, where the policy names one.
    pub reason: Option<String>,
}

/// What a policy says of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// One for each validation; none if the policy does not apply.
    pub decisions: Vec<Decision>,
    /// What is to be noted for those who audit, by key.
    pub annotations: Vec<(String, String)>,
    /// Annotations that could not be made, which denies the request.
    pub failures: Vec<String>,
}

/// The expressions that decide whether something applies to a request.
#[derive(Debug, Default)]
pub struct Conditions {
    conditions: Vec<Expression>,
}

impl ValidatingPolicy {
    /// The policy that this `spec` describes.
    pub fn new(spec: &object::Value) -> Self {
        let params = spec.get("paramKind").is_object();
        let declares = !spec.get("variables").items().is_empty();
        let scope = Scope { params, authorizer: true, mutation: false, variables: declares };
        let (variables, environment) = variables(spec, scope);
        let text = |tree: &object::Value, name: &str| {
            tree.get(name).as_str().unwrap_or_default().to_owned()
        };
        let types: Vec<(String, Type)> =
            variables.iter().map(|(name, value)| (name.to_string(), value.ty())).collect();
        let plain = Scope { authorizer: false, ..scope }.environment(&types);
        let validations = spec.get("validations").items().iter().map(|tree| {
            let message = text(tree, "messageExpression");
            Validation {
                expression: Expression::compile(
                    &environment,
                    &text(tree, "expression"),
                    Expected::Bool,
                ),
                message: text(tree, "message"),
                message_expression: (!message.is_empty())
                    .then(|| Expression::compile(&plain, &message, Expected::Text)),
                reason: tree.get("reason").as_str().map(str::to_owned),
            }
        });
        let annotations = spec.get("auditAnnotations").items().iter().map(|tree| {
            let source = text(tree, "valueExpression");
            (text(tree, "key"), Expression::compile(&environment, &source, Expected::TextOrNull))
        });
        Self {
            fails: spec.get("failurePolicy").as_str() != Some("Ignore"),
            conditions: Conditions::new(spec, &environment),
            validations: validations.collect(),
            annotations: annotations.collect(),
            variables,
        }
    }

    pub fn evaluate(&self, inputs: &Inputs<'_>) -> Verdict {
        match self.conditions.matches(inputs, &self.variables, self.fails) {
            Ok(true) => {}
            Ok(false) => return Verdict::default(),
            Err(message) => return self.failed(message),
        }
        let mut budget = BUDGET;
        let mut verdict = Verdict::default();
        for validation in &self.validations {
            let outcome =
                run(&validation.expression, inputs, &self.variables, &mut budget, |value| {
                    value.as_bool() == Some(true)
                });
            let decision = match outcome {
                Err(Failure::Budget) => return self.failed(OUT_OF_BUDGET.to_owned()),
                Err(Failure::Value(message)) => {
                    Decision { denied: self.fails.then_some(message), reason: None }
                }
                Ok(true) => Decision { denied: None, reason: None },
                Ok(false) => {
                    let message = self.message(validation, inputs, &mut budget);
                    Decision { denied: Some(message), reason: validation.reason.clone() }
                }
            };
            verdict.decisions.push(decision);
        }
        self.annotate(inputs, &mut verdict);
        verdict
    }

    fn failed(&self, message: String) -> Verdict {
        let denied = self.fails.then_some(message);
        Verdict { decisions: vec![Decision { denied, reason: None }], ..Verdict::default() }
    }

    fn message(&self, validation: &Validation, inputs: &Inputs<'_>, budget: &mut u64) -> String {
        let made = validation.message_expression.as_ref().and_then(|expression| {
            let text = run(expression, inputs, &self.variables, budget, |value| {
                value.as_text().map(|text| text.trim().to_owned())
            });
            text.ok().flatten()
        });
        let usable = |text: &String| {
            !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n')
        };
        if let Some(message) = made.filter(usable) {
            return message;
        }
        if !validation.message.is_empty() {
            return validation.message.trim().to_owned();
        }
        format!("failed expression: {}", validation.expression.source.trim())
    }

    fn annotate(&self, inputs: &Inputs<'_>, verdict: &mut Verdict) {
        let mut budget = BUDGET;
        for (key, expression) in &self.annotations {
            let outcome =
                run(expression, inputs, &self.variables, &mut budget, |value| match value {
                    Value::Text(text) => Ok(text.trim().to_owned()),
                    Value::Null => Ok(String::new()),
                    other => Err(other.type_name().to_owned()),
                });
            match outcome {
                Ok(Ok(text)) if text.is_empty() => {}
                Ok(Ok(text)) => verdict.annotations.push((key.clone(), text)),
                Ok(Err(ty)) => verdict.failures.push(format!(
                    "valueExpression '{}' resulted in unsupported return type: {ty}. Return type must be either string or null.",
                    expression.source
                )),
                Err(_) if !self.fails => {}
                Err(Failure::Value(message)) => verdict.failures.push(message),
                Err(Failure::Budget) => {
                    verdict.decisions = vec![Decision {
                        denied: Some(OUT_OF_BUDGET.to_owned()),
                        reason: None,
                    }];
                    return;
                }
            }
        }
    }
}

impl Conditions {
    /// Those of a `spec` or of a webhook.
    pub fn new(spec: &object::Value, environment: &Arc<Environment>) -> Self {
        let conditions = spec.get("matchConditions").items().iter().map(|tree| {
            let source = tree.get("expression").as_str().unwrap_or_default();
            Expression::compile(environment, source, Expected::Bool)
        });
        Self { conditions: conditions.collect() }
    }

    /// Whether all of them hold. One that fails matters only if none is false.
    pub fn matches(
        &self,
        inputs: &Inputs<'_>,
        variables: &[(Arc<str>, Expression)],
        fails: bool,
    ) -> Result<bool, String> {
        let mut budget = CONDITIONS_BUDGET;
        let inputs = Inputs { namespace: &object::NULL, ..inputs.clone() };
        let mut errors = Vec::new();
        for condition in &self.conditions {
            let denies = |value: &Value<'_>| value.as_bool() == Some(false);
            match run(condition, &inputs, variables, &mut budget, denies) {
                Ok(true) => return Ok(false),
                Ok(false) => {}
                Err(Failure::Value(message)) => errors.push(message),
                Err(Failure::Budget) => {
                    return if fails { Err(OUT_OF_BUDGET.to_owned()) } else { Ok(false) };
                }
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            _ if !fails => Ok(false),
            [only] => Err(only.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

pub(super) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The variables of a policy, and the environment with them.
pub(super) fn variables(
    spec: &object::Value,
    scope: Scope,
) -> (Vec<(Arc<str>, Expression)>, Arc<Environment>) {
    let mut types: Vec<(String, Type)> = Vec::new();
    let mut variables = Vec::new();
    for tree in spec.get("variables").items() {
        let text = |name: &str| tree.get(name).as_str().unwrap_or_default();
        let environment = scope.environment(&types);
        let expression = Expression::compile(&environment, text("expression"), Expected::Anything);
        types.push((text("name").to_owned(), expression.ty()));
        variables.push((text("name").into(), expression));
    }
    (variables, scope.environment(&types))
}

/// Why there is no value.
pub(super) enum Failure {
    Value(String),
    /// There is nothing left to spend.
    Budget,
}

/// Evaluates an expression with the variables that it reads, and takes of its value
/// what is wanted.
pub(super) fn run<T>(
    expression: &Expression,
    inputs: &Inputs<'_>,
    variables: &[(Arc<str>, Expression)],
    budget: &mut u64,
    take: impl FnOnce(&Value<'_>) -> T,
) -> Result<T, Failure> {
    let program = match &expression.program {
        Ok(program) => program,
        Err(error) => return Err(Failure::Value(format!("compilation error: {error}"))),
    };
    let source = &expression.source;
    let failed =
        |error: &Error| Failure::Value(format!("expression '{source}' resulted in error: {error}"));
    let mut take = Some(take);
    with_variables(
        &needed(program, variables),
        Vec::new(),
        inputs,
        budget,
        &mut |fields, budget| {
            let bindings = inputs.bindings().map_err(|error| failed(&error))?;
            let bindings = bindings.fields("variables", fields);
            let (outcome, cost) = program.evaluate(&bindings, *budget);
            spend(budget, cost)?;
            let value = outcome.map_err(|error| failed(&error))?;
            let take = take.take().expect("called once");
            Ok(take(&value))
        },
    )
}

type Fields<'a> = Vec<(Arc<str>, Result<Value<'a>, Error>)>;
type Declared = (Arc<str>, Expression);

/// The variables that a program reads, and those that they read, in their order.
fn needed<'v>(program: &Program, variables: &'v [Declared]) -> Vec<&'v Declared> {
    let mut wanted: Vec<String> =
        program.fields_of("variables").into_iter().map(str::to_owned).collect();
    let mut kept = Vec::new();
    for variable in variables.iter().rev() {
        if !wanted.iter().any(|name| **name == *variable.0) {
            continue;
        }
        if let Ok(program) = &variable.1.program {
            wanted.extend(program.fields_of("variables").into_iter().map(str::to_owned));
        }
        kept.push(variable);
    }
    kept.reverse();
    kept
}

/// Calls `done` with the values of variables. Each may borrow from the one before it,
/// so all of them live until it returns.
fn with_variables<T>(
    rest: &[&Declared],
    fields: Fields<'_>,
    inputs: &Inputs<'_>,
    budget: &mut u64,
    done: &mut dyn FnMut(Fields<'_>, &mut u64) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(((name, expression), rest)) = rest.split_first() else { return done(fields, budget) };
    let bindings = inputs.bindings().map_err(|error| Failure::Value(error.to_string()))?;
    let bindings = bindings.fields("variables", fields.clone());
    let failed = |how: &str, error: &dyn std::fmt::Display| {
        let name = object::quote::quote(name);
        Error::new(format!("composited variable {name} fails to {how}: {error}"))
    };
    let value = match &expression.program {
        Err(error) => Err(failed("compile", error)),
        Ok(program) => {
            let (outcome, cost) = program.evaluate(&bindings, *budget);
            spend(budget, cost)?;
            outcome.map_err(|error| failed("evaluate", &error))
        }
    };
    let mut fields: Fields<'_> = fields;
    fields.push((name.clone(), value));
    with_variables(rest, fields, inputs, budget, done)
}

fn spend(budget: &mut u64, cost: u64) -> Result<(), Failure> {
    *budget = budget.checked_sub(cost).ok_or(Failure::Budget)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::from_json;

    fn verdict(spec: &str, object: &str) -> Verdict {
        let spec = from_json(spec.as_bytes()).expect("valid");
        let object = from_json(object.as_bytes()).expect("valid");
        let request = from_json(br#"{"operation": "CREATE", "userInfo": {"username": "jane"}}"#);
        let request = request.expect("valid");
        let inputs = Inputs::new(&object, &request);
        ValidatingPolicy::new(&spec).evaluate(&inputs)
    }

    fn denied(spec: &str, object: &str) -> Vec<Option<String>> {
        verdict(spec, object).decisions.into_iter().map(|decision| decision.denied).collect()
    }

    #[test]
    fn validations_deny_with_their_messages() {
        let spec = r#"{"variables": [{"name": "n", "expression": "object.n + 1"},
                {"name": "m", "expression": "variables.n * 2"},
                {"name": "unused", "expression": "object.nope"}],
            "validations": [
                {"expression": "variables.m == 4"},
                {"expression": "variables.m == 5", "message": "five"},
                {"expression": "false", "messageExpression": "'n is ' + string(variables.n)"},
                {"expression": "object.nope == 1"},
                {"expression": "request.userInfo.username == 'jane'"},
                {"expression": "object == null ||"}]}"#;
        let found = denied(spec, r#"{"n": 1}"#);
        let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
        assert_eq!(
            found[..5],
            [
                None,
                Some("five"),
                Some("n is 2"),
                Some("expression 'object.nope == 1' resulted in error: no such key: nope"),
                None,
            ]
        );
        assert!(
            found[5].is_some_and(|text| text.starts_with("compilation error: compilation failed"))
        );
    }

    #[test]
    fn conditions_decide_first() {
        let spec = |condition: &str, policy: &str| {
            format!(
                r#"{{"failurePolicy": "{policy}", "matchConditions": [{{"name": "c", "expression": "{condition}"}}],
                "validations": [{{"expression": "false"}}]}}"#
            )
        };
        assert_eq!(denied(&spec("false", "Fail"), "{}"), []);
        assert_eq!(denied(&spec("object.x", "Ignore"), "{}"), []);
        assert_eq!(denied(&spec("object.x == 1", "Fail"), "{}").len(), 1);
        assert_eq!(
            denied(&spec("true", "Fail"), "{}"),
            [Some("failed expression: false".to_owned())]
        );
    }

    #[test]
    fn annotations_are_noted() {
        let spec = r#"{"auditAnnotations": [
            {"key": "a", "valueExpression": "'v' + object.x"},
            {"key": "b", "valueExpression": "null"}]}"#;
        let found = verdict(spec, r#"{"x": "1"}"#);
        assert_eq!(found.annotations, [("a".to_owned(), "v1".to_owned())]);
        assert_eq!(verdict(spec, "{}").failures.len(), 1);
    }
}
