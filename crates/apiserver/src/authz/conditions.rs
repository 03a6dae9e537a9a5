//! `matchConditions` of authorization webhooks: CEL expressions that decide whether a webhook is
//! called.

use std::collections::HashSet;

use cel::{
    Bindings, CALL_LIMIT,
    policy::{Expected, Expression},
};
use object::Value;
use schema::{ErrorList, ErrorType, FieldPath};

use crate::structured::text;

/// Maximum number of conditions.
const MOST: usize = 64;

/// The compiled conditions of one webhook; all must hold.
#[derive(Debug, Default)]
pub(crate) struct AuthorizerMatchConditions(Vec<Expression>);

impl AuthorizerMatchConditions {
    /// Compiles the conditions; errors are reported below `path`.
    pub(crate) fn compile(all: &Value, path: &FieldPath<'_>, errors: &mut ErrorList) -> Self {
        let (root, all) = (path.field("matchConditions"), all.items());
        if all.len() > MOST {
            errors.too_many_with_count(&root, all.len(), MOST);
            return Self::default();
        }
        let environment = cel::access::subject_access_review_environment();
        let (mut compiled, mut seen) = (Vec::new(), HashSet::new());
        for (at, condition) in all.iter().enumerate() {
            let (item, source) = (root.index(at), text(condition, "expression"));
            let place = item.field("expression");
            if source.trim().is_empty() {
                errors.required(&place, "");
                continue;
            } else if !seen.insert(source) {
                errors.duplicate(&place, source);
                continue;
            }
            let expression = Expression::compile(&environment, source, Expected::Bool);
            match &expression.program {
                Ok(_) => compiled.push(expression),
                Err(why) if why.starts_with(cel::INSTANTIATION_FAILED) => {
                    errors.push(ErrorType::Internal, &place, Value::Null, why.as_str());
                }
                Err(why) => errors.invalid(&place, source, why.as_str()),
            }
        }
        Self(compiled)
    }

    /// Whether all conditions hold for the spec of a SubjectAccessReview. An error means that some
    /// failed and none was false.
    pub(crate) fn matches(&self, spec: &Value) -> Result<bool, String> {
        let (mut errors, shown) = (Vec::new(), shown(spec));
        let bindings = Bindings::new().tree("request", &shown, None);
        let bindings = bindings.map_err(|why| why.to_string())?;
        for Expression { source, program } in &self.0 {
            let Ok(program) = program else { continue };
            let (value, _) = program.evaluate(&bindings, CALL_LIMIT);
            match value.map(|value| value.as_bool()) {
                Ok(Some(false)) => return Ok(false),
                Ok(_) => {}
                Err(why) => errors.push(format!(
                    "cel evaluation error: expression '{source}' resulted in error: {why}"
                )),
            }
        }
        if errors.is_empty() { Ok(true) } else { Err(errors.join(", ")) }
    }
}

/// The spec with every string field set, so that conditions need not test whether a field exists.
fn shown(spec: &Value) -> Value {
    let fill = |tree: &mut Value, names: &[&str]| {
        for name in names {
            if tree.get(name).is_null() {
                tree[*name] = "".into();
            }
        }
    };
    let mut spec = spec.clone();
    fill(&mut spec, &["user", "uid"]);
    if spec.get("groups").is_null() {
        spec["groups"] = Vec::<Value>::new().into_iter().collect();
    }
    if spec.get("extra").is_null() {
        spec["extra"] = Value::object();
    }
    if spec.get("resourceAttributes").is_object() {
        let names = ["namespace", "verb", "group", "version", "resource", "subresource", "name"];
        fill(&mut spec["resourceAttributes"], &names);
    }
    if spec.get("nonResourceAttributes").is_object() {
        fill(&mut spec["nonResourceAttributes"], &["path", "verb"]);
    }
    spec
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn hold(sources: &[&str], spec: &str) -> Result<bool, String> {
        let conditions = sources.iter().map(|source| {
            let mut condition = Value::object();
            condition["expression"] = (*source).into();
            condition
        });
        let mut errors = ErrorList::default();
        let conditions = AuthorizerMatchConditions::compile(
            &conditions.collect(),
            &FieldPath::Root,
            &mut errors,
        );
        assert!(errors.is_empty(), "{errors:?}");
        conditions.matches(&from_json(spec.as_bytes()).unwrap())
    }

    #[test]
    fn one_that_is_false_outweighs_one_that_fails() {
        let spec =
            r#"{"user":"jane","resourceAttributes":{"namespace":"kube-system","verb":"get"}}"#;
        let fails = "request.nonResourceAttributes.path == '/'";
        let own = "has(request.resourceAttributes) && request.resourceAttributes.name == ''";
        assert_eq!(hold(&[own, "request.user == 'jane'"], spec), Ok(true));
        assert_eq!(hold(&[fails, "request.user == 'joe'"], spec), Ok(false));
        let failed = hold(&[fails, own], spec).unwrap_err();
        assert!(
            failed.starts_with("cel evaluation error: expression 'request.nonResource"),
            "{failed}"
        );
        assert_eq!(hold(&[], spec), Ok(true));
    }
}
