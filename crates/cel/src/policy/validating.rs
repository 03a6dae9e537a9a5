//! Evaluation of ValidatingAdmissionPolicy.

use std::sync::Arc;

use super::{
    COST_BUDGET, Expected, Expression, MATCH_CONDITIONS_BUDGET, MAX_MESSAGE_LENGTH, PolicyInputs,
    VariableScope, Variables,
    session::{PolicyEvaluation, VariableDeclaration},
};
use crate::{environment::Environment, value::Value};

/// A policy with its expressions compiled.
#[derive(Debug)]
pub struct ValidatingPolicy {
    fails: bool,
    conditions: MatchConditions,
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

/// The result of one validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationDecision {
    /// The message if the request is denied.
    pub denied: Option<String>,
    /// The status reason that the policy sets.
    pub reason: Option<String>,
}

/// The result of a policy for one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyResult {
    /// One per validation; empty if the policy does not apply.
    pub decisions: Vec<ValidationDecision>,
    /// Audit annotations by key.
    pub annotations: Vec<(String, String)>,
    /// Errors of audit annotations, which deny the request.
    pub failures: Vec<String>,
}

/// Match conditions: expressions that decide whether a policy or webhook applies to a request.
#[derive(Debug, Default)]
pub struct MatchConditions {
    conditions: Vec<Expression>,
}

impl ValidatingPolicy {
    /// Compiles the policy with this `spec`.
    pub fn new(spec: &object::Value) -> Self {
        let params = spec.get("paramKind").is_object();
        let declares = !spec.get("variables").items().is_empty();
        let scope =
            VariableScope { params, authorizer: true, mutation: false, variables: declares };
        let (variables, environment) = variables(spec, scope);
        let text = |tree: &object::Value, name: &str| {
            tree.get(name).as_str().unwrap_or_default().to_owned()
        };
        let plain = VariableScope { authorizer: false, ..scope }.environment(&types(&variables));
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
            conditions: MatchConditions::new(spec, &environment),
            validations: validations.collect(),
            annotations: annotations.collect(),
            variables,
        }
    }

    pub fn evaluate(&self, inputs: &PolicyInputs<'_>) -> PolicyResult {
        match self.conditions.matches(inputs, &self.variables, self.fails) {
            Ok(true) => {}
            Ok(false) => return PolicyResult::default(),
            Err(message) => return self.failed(message),
        }
        let mut budget = COST_BUDGET;
        let validations = self.validations.iter();
        let judge = |value: Value<'_>| value.as_bool() == Some(true);
        let expressions = validations.clone().map(|validation| Some(&validation.expression));
        let judged = match each(expressions, inputs, &self.variables, &mut budget, judge) {
            Ok(judged) => judged,
            Err(message) => return self.failed(message),
        };
        // All messages are computed, even those of validations that pass.
        let plain = PolicyInputs { authorizer: None, ..inputs.clone() };
        let expressions =
            validations.clone().map(|validation| validation.message_expression.as_ref());
        let say = |value: Value<'_>| value.as_text().map(|text| text.trim().to_owned());
        let messages = each(expressions, &plain, &self.variables, &mut budget, say);
        let messages =
            messages.map_err(|why| self.fails.then(|| format!("failed messageExpression: {why}")));
        let mut verdict = PolicyResult::default();
        for (at, (validation, judged)) in validations.zip(judged).enumerate() {
            let (denied, reason) = match (judged, &messages) {
                (None, _) | (Some(Ok(true)), Ok(_)) => (None, None),
                (Some(Err(message)), _) => (self.fails.then_some(message), None),
                (Some(Ok(_)), Err(why)) => (why.clone(), None),
                (Some(Ok(false)), Ok(messages)) => {
                    let made = messages.get(at).cloned().flatten().and_then(Result::ok).flatten();
                    (Some(validation.message(made)), validation.reason.clone())
                }
            };
            verdict.decisions.push(ValidationDecision { denied, reason });
        }
        self.annotate(&plain, &mut verdict);
        verdict
    }

    fn failed(&self, message: String) -> PolicyResult {
        let denied = self.fails.then_some(message);
        PolicyResult {
            decisions: vec![ValidationDecision { denied, reason: None }],
            ..PolicyResult::default()
        }
    }

    fn annotate(&self, inputs: &PolicyInputs<'_>, verdict: &mut PolicyResult) {
        let expressions = self.annotations.iter().map(|(_, expression)| Some(expression));
        let show = |value: Value<'_>| match value {
            Value::Text(text) => Ok(text.trim().to_owned()),
            Value::Null => Ok(String::new()),
            other => Err(other.type_name().to_owned()),
        };
        let shown = match each(expressions, inputs, &self.variables, &mut COST_BUDGET.clone(), show)
        {
            Ok(shown) => shown,
            Err(message) => {
                *verdict = self.failed(message);
                return;
            }
        };
        for ((key, expression), shown) in self.annotations.iter().zip(shown.into_iter().flatten()) {
            match shown {
                Ok(Ok(text)) if text.is_empty() => {}
                Ok(Ok(text)) => verdict.annotations.push((key.clone(), text)),
                Ok(Err(ty)) => verdict.failures.push(format!(
                    "valueExpression '{}' resulted in unsupported return type: {ty}. Return type must be either string or null.",
                    expression.source
                )),
                Err(_) if !self.fails => {}
                Err(message) => verdict.failures.push(message),
            }
        }
    }
}

impl Validation {
    /// The message of a denied request: the computed one if it is usable.
    fn message(&self, made: Option<String>) -> String {
        let usable = |text: &String| {
            !text.is_empty() && text.len() <= MAX_MESSAGE_LENGTH && !text.contains('\n')
        };
        made.filter(usable).unwrap_or_else(|| match self.message.trim() {
            "" => format!("failed expression: {}", self.expression.source.trim()),
            message => message.to_owned(),
        })
    }
}

impl MatchConditions {
    /// Compiles the match conditions of a policy's `spec` or of a webhook.
    pub fn new(spec: &object::Value, environment: &Arc<Environment>) -> Self {
        let conditions = spec.get("matchConditions").items().iter().map(|tree| {
            let source = tree.get("expression").as_str().unwrap_or_default();
            Expression::compile(environment, source, Expected::Bool)
        });
        Self { conditions: conditions.collect() }
    }

    /// Whether all conditions are true. An error counts only if no condition is false.
    pub fn matches(
        &self,
        inputs: &PolicyInputs<'_>,
        variables: &[(Arc<str>, Expression)],
        fails: bool,
    ) -> Result<bool, String> {
        let inputs = PolicyInputs { namespace: &object::NULL, ..inputs.clone() };
        let denies = |value: Value<'_>| value.as_bool() == Some(false);
        let expressions = self.conditions.iter().map(Some);
        let judged =
            each(expressions, &inputs, variables, &mut MATCH_CONDITIONS_BUDGET.clone(), denies);
        let judged = match judged {
            Ok(judged) => judged,
            Err(message) => return if fails { Err(message) } else { Ok(false) },
        };
        let mut errors = Vec::new();
        for judged in judged.into_iter().flatten() {
            match judged {
                Ok(true) => return Ok(false),
                Ok(false) => {}
                Err(message) => errors.push(message),
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

/// Evaluates the expressions that are present, sharing variables. An outer error stops the evaluation.
fn each<'e, T>(
    expressions: impl Iterator<Item = Option<&'e Expression>>,
    inputs: &PolicyInputs<'_>,
    variables: &[VariableDeclaration],
    budget: &mut u64,
    take: impl Fn(Value<'_>) -> T,
) -> Result<Vec<Option<Result<T, String>>>, String> {
    let session = PolicyEvaluation::new(variables);
    let bindings = session.bindings(inputs)?;
    let mut results = Vec::new();
    for expression in expressions {
        results.push(match expression {
            Some(expression) => Some(session.run(expression, &bindings, budget)?.map(&take)),
            None => None,
        });
    }
    Ok(results)
}

/// Compiles the variables of a policy. Returns them with the environment that declares them.
pub(super) fn variables(
    spec: &object::Value,
    scope: VariableScope,
) -> (Vec<(Arc<str>, Expression)>, Arc<Environment>) {
    let mut types = Variables::default();
    let mut variables = Vec::new();
    for tree in spec.get("variables").items() {
        let text = |name: &str| tree.get(name).as_str().unwrap_or_default();
        let environment = scope.environment(&types);
        let expression = Expression::compile(&environment, text("expression"), Expected::Anything);
        types.declare(text("name"), expression.ty());
        variables.push((text("name").into(), expression));
    }
    (variables, scope.environment(&types))
}

/// The types of variables.
pub(super) fn types(variables: &[VariableDeclaration]) -> Variables {
    let mut types = Variables::default();
    variables.iter().for_each(|(name, value)| types.declare(name, value.ty()));
    types
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::from_json;

    fn verdict(spec: &str, object: &str) -> PolicyResult {
        let spec = from_json(spec.as_bytes()).expect("valid");
        let object = from_json(object.as_bytes()).expect("valid");
        let request = from_json(br#"{"operation": "CREATE", "userInfo": {"username": "jane"}}"#);
        let request = request.expect("valid");
        let inputs = PolicyInputs::new(&object, &request);
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

    /// Costs 810,000 for a text of 9,000 characters.
    const DEAR: &str = "object.s.contains(object.s)";
    const SPENT: &str = "validation failed due to running out of cost budget, no further validation rules will be run";

    fn twenty(validation: &str) -> Vec<Option<String>> {
        let validations = std::iter::repeat_n(validation, 20).collect::<Vec<_>>().join(",");
        let spec = format!(
            r#"{{"variables": [{{"name": "v", "expression": "{DEAR}"}},
                {{"name": "w", "expression": "object.nope"}}], "validations": [{validations}]}}"#
        );
        denied(&spec, &format!(r#"{{"s": "{}"}}"#, "a".repeat(9_000)))
    }

    #[test]
    fn variables_are_computed_once_and_only_when_they_are_read() {
        let expressions = |source: &str| twenty(&format!(r#"{{"expression": "{source}"}}"#));
        assert_eq!(expressions("variables.v"), vec![None; 20]);
        assert_eq!(expressions("true || variables.w"), vec![None; 20]);
        assert_eq!(expressions(DEAR), [Some(SPENT.to_owned())]);
        let failed = "expression 'variables.?w.hasValue()' resulted in error: composited variable \"w\" fails to evaluate: no such key: nope";
        assert_eq!(expressions("variables.?w.hasValue()")[0].as_deref(), Some(failed));
    }

    #[test]
    fn messages_are_made_of_what_holds_too() {
        let made = |source: &str| {
            let message = format!("{source} ? 'a' : 'b'");
            twenty(&format!(r#"{{"expression": "true", "messageExpression": "{message}"}}"#))
        };
        assert_eq!(made("variables.v"), vec![None; 20]);
        assert_eq!(made(DEAR), vec![Some(format!("failed messageExpression: {SPENT}")); 20]);
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
