//! Evaluation of MutatingAdmissionPolicy.

use std::sync::Arc;

use super::{
    COST_BUDGET, Expected, Expression, MatchConditions, PolicyInputs, VariableScope,
    session::PolicyEvaluation,
    validating::{types, variables},
};
use crate::value::{List, Message, Value};

/// A policy with its expressions compiled.
#[derive(Debug)]
pub struct MutatingPolicy {
    fails: bool,
    conditions: MatchConditions,
    variables: Vec<(Arc<str>, Expression)>,
    mutations: Vec<(Expected, Expression)>,
}

/// One mutation of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutation {
    /// The operations of a JSON patch.
    JsonPatch(object::Value),
    /// An apply configuration to be merged into the object.
    Apply(object::Value),
}

impl MutatingPolicy {
    /// Compiles the policy with this `spec`.
    pub fn new(spec: &object::Value) -> Self {
        let params = spec.get("paramKind").is_object();
        let scope = VariableScope { params, authorizer: true, mutation: false, variables: true };
        let (variables, environment) = variables(spec, scope);
        let patching = VariableScope { mutation: true, ..scope }.environment(&types(&variables));
        let mutations = spec.get("mutations").items().iter().filter_map(|tree| {
            let (field, expected) = match tree.get("patchType").as_str()? {
                "JSONPatch" => ("jsonPatch", Expected::JsonPatch),
                _ => ("applyConfiguration", Expected::Object),
            };
            let source = tree.get(field).get("expression").as_str()?;
            Some((expected, Expression::compile(&patching, source, expected)))
        });
        Self {
            fails: spec.get("failurePolicy").as_str() != Some("Ignore"),
            conditions: MatchConditions::new(spec, &environment),
            mutations: mutations.collect(),
            variables,
        }
    }

    /// Whether an error denies the request (`failurePolicy: Fail`).
    pub fn fails_closed(&self) -> bool {
        self.fails
    }

    /// Whether the match conditions select the request.
    pub fn matches(&self, inputs: &PolicyInputs<'_>) -> Result<bool, String> {
        self.conditions.matches(inputs, &self.variables, self.fails)
    }

    /// The number of mutations; each one sees the results of the previous ones.
    pub fn mutation_count(&self) -> usize {
        self.mutations.len()
    }

    /// Evaluates the mutation at index `at`.
    pub fn mutation(&self, at: usize, inputs: &PolicyInputs<'_>) -> Result<Mutation, String> {
        let (expected, expression) = &self.mutations[at];
        if let Err(error) = &expression.program {
            return Err(error.clone());
        }
        let session = PolicyEvaluation::new(&self.variables);
        let bindings = session.bindings(inputs)?;
        let made = session.run(expression, &bindings, &mut COST_BUDGET.clone())??;
        match expected {
            Expected::JsonPatch => json_patch(&made).map(Mutation::JsonPatch),
            _ => to_apply_configuration(&made).map(Mutation::Apply),
        }
    }
}

fn to_apply_configuration(value: &Value<'_>) -> Result<object::Value, String> {
    let Value::Message(message) = value else {
        let ty = value.type_name();
        return Err(format!("unsupported return type from ApplyConfiguration expression: {ty}"));
    };
    check_names(message)?;
    value.to_tree().map_err(|error| error.to_string())
}

/// Checks that each nested object has the type that its path requires.
fn check_names(message: &Message<'_>) -> Result<(), String> {
    let mut wrong = Vec::new();
    typed(message, &message.name, &mut wrong);
    if wrong.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", wrong.join("\n"))) }
}

fn typed(message: &Message<'_>, path: &str, wrong: &mut Vec<String>) {
    if *message.name != *path {
        let (name, path) = (object::quote::quote(&message.name), object::quote::quote(path));
        wrong.push(format!(
            "unexpected type name {name}, expected {path}, which matches field name path from root Object type"
        ));
    }
    for (field, value) in &message.fields {
        typed_value(value, &format!("{path}.{field}"), wrong);
    }
}

fn typed_value(value: &Value<'_>, path: &str, wrong: &mut Vec<String>) {
    match value {
        Value::Message(message) => typed(message, path, wrong),
        Value::List(List::Owned(items)) => {
            items.iter().for_each(|item| typed_value(item, path, wrong));
        }
        Value::Map(map) => {
            for key in map.keys() {
                if let Some(Ok(value)) = map.get(&key) {
                    typed_value(&value, path, wrong);
                }
            }
        }
        _ => {}
    }
}

fn json_patch(value: &Value<'_>) -> Result<object::Value, String> {
    let Value::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let values = list.values().map_err(|error| error.to_string())?;
    let operations: Result<Vec<object::Value>, String> = values.iter().map(operation).collect();
    Ok(operations?.into_iter().collect())
}

fn operation(value: &Value<'_>) -> Result<object::Value, String> {
    let Value::Message(message) = value else {
        let ty = value.type_name();
        return Err(format!(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {ty}"
        ));
    };
    let mut operation = object::Value::object();
    for name in ["op", "path"] {
        operation[name] = "".into();
    }
    for (name, value) in &message.fields {
        if let Value::Message(message) = value {
            check_names(message)?;
        }
        operation[name] = value.to_tree().map_err(|error| {
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}")
        })?;
    }
    Ok(operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{NULL, from_json};

    fn mutation(kind: &str, source: &str) -> Result<String, String> {
        let field = if kind == "JSONPatch" { "jsonPatch" } else { "applyConfiguration" };
        let mut spec = object::Value::object();
        let mut one = object::Value::object();
        one["patchType"] = kind.into();
        one[field]["expression"] = source.into();
        spec["mutations"] = [one].into_iter().collect();
        let object = from_json(br#"{"data": {"k": "v"}}"#).expect("valid");
        let inputs = PolicyInputs::new(&object, &NULL);
        let policy = MutatingPolicy::new(&spec);
        assert_eq!(policy.matches(&inputs), Ok(true));
        policy.mutation(0, &inputs).map(|mutation| match mutation {
            Mutation::JsonPatch(tree) | Mutation::Apply(tree) => format!("{tree:?}"),
        })
    }

    #[test]
    fn changes_are_written_as_objects() {
        assert_eq!(
            mutation(
                "ApplyConfiguration",
                "Object{metadata: Object.metadata{labels: {'a': object.data.k}}}"
            ),
            Ok(r#"{"metadata": {"labels": {"a": "v"}}}"#.to_owned())
        );
        assert_eq!(
            mutation(
                "JSONPatch",
                "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b~'), value: 'x'}]"
            ),
            Ok(r#"[{"op": "add", "path": "/data/a~1b~0", "value": "x"}]"#.to_owned())
        );
        let wrong = mutation("ApplyConfiguration", "Object{metadata: Object.spec{}}");
        assert!(wrong.is_err_and(|error| error.contains("unexpected type name \"Object.spec\"")));
        let wrong = mutation("ApplyConfiguration", "{'a': 1}");
        assert_eq!(wrong, Err("must evaluate to Object but got map(string, int)".to_owned()));
    }
}
