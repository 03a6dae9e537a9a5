//! CEL environments for structured authentication and authorization configuration.

use std::sync::Arc;

use crate::{environment::Environment, types::Type};

/// Declares `claims`, the claims of a JWT.
pub fn claims_environment() -> Arc<Environment> {
    Arc::new(Environment::new().with_variable("claims", Type::map(Type::Text, Type::Any)))
}

/// Declares `user`, the user that the claims are mapped to.
pub fn user_environment() -> Arc<Environment> {
    const USER: &str = "kubernetes.UserInfo";
    let fields = [
        ("username", Type::Text),
        ("uid", Type::Text),
        ("groups", Type::list(Type::Text)),
        ("extra", extra()),
    ];
    let environment = Environment::new().with_structure(USER, &fields);
    Arc::new(environment.with_variable("user", Type::named(USER)))
}

/// Declares `request`, the spec of a SubjectAccessReview.
pub fn subject_access_review_environment() -> Arc<Environment> {
    let name = |short: &str| format!("kubernetes.{short}");
    let ty = |short: &str| Type::named(&name(short));
    let texts = |names: &[&'static str]| -> Vec<(&'static str, Type)> {
        names.iter().map(|name| (*name, Type::Text)).collect()
    };
    let mut requirement = texts(&["key", "operator"]);
    requirement.push(("values", Type::list(Type::Text)));
    let selector =
        [("rawSelector", Type::Text), ("requirements", Type::list(ty("SelectorRequirement")))];
    let mut resource =
        texts(&["namespace", "verb", "group", "version", "resource", "subresource", "name"]);
    resource.push(("fieldSelector", ty("FieldSelectorAttributes")));
    resource.push(("labelSelector", ty("LabelSelectorAttributes")));
    let mut spec = texts(&["user", "uid"]);
    spec.push(("resourceAttributes", ty("ResourceAttributes")));
    spec.push(("nonResourceAttributes", ty("NonResourceAttributes")));
    spec.push(("groups", Type::list(Type::Text)));
    spec.push(("extra", extra()));
    let environment = Environment::new()
        .with_structure(&name("SelectorRequirement"), &requirement)
        .with_structure(&name("FieldSelectorAttributes"), &selector)
        .with_structure(&name("LabelSelectorAttributes"), &selector)
        .with_structure(&name("ResourceAttributes"), &resource)
        .with_structure(&name("NonResourceAttributes"), &texts(&["path", "verb"]))
        .with_structure(&name("SubjectAccessReviewSpec"), &spec);
    Arc::new(environment.with_variable("request", ty("SubjectAccessReviewSpec")))
}

fn extra() -> Type {
    Type::map(Type::Text, Type::list(Type::Text))
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;
    use crate::program::{Bindings, CALL_LIMIT};

    fn holds(of: &Arc<Environment>, name: &str, tree: &str, source: &str) -> Result<bool, String> {
        let program = of.compile(source).map_err(|errors| errors.to_string())?;
        let tree = from_json(tree.as_bytes()).expect("written here");
        let bindings = Bindings::new().tree(name, &tree, None).expect("a tree");
        let (value, _) = program.evaluate(&bindings, CALL_LIMIT);
        value.map(|value| value.as_bool() == Some(true)).map_err(|error| error.to_string())
    }

    #[test]
    fn claims_have_any_name_and_any_type() {
        let tree = r#"{"sub":"jane","roles":["a","b"],"n":{"m":1}}"#;
        let of = claims_environment();
        assert_eq!(
            holds(&of, "claims", tree, "claims.sub == 'jane' && 'a' in claims.roles"),
            Ok(true)
        );
        assert_eq!(holds(&of, "claims", tree, "dyn(claims.roles).exists(r, r == 'b')"), Ok(true));
        let over = holds(&of, "claims", tree, "claims.roles.exists(r, r == 'b')").unwrap_err();
        assert!(over.contains("expression of type 'any' cannot be range"), "{over}");
        assert_eq!(holds(&of, "claims", tree, "claims.n.m == 2"), Ok(false));
        let missing = holds(&of, "claims", tree, "claims.nope == ''").expect_err("not there");
        assert!(missing.contains("no such key: nope"), "{missing}");
        assert!(of.compile("user.username").is_err());
    }

    #[test]
    fn users_and_reviews_have_known_fields() {
        let tree = r#"{"username":"jane","groups":["a"],"extra":{"k":["v"]}}"#;
        let of = user_environment();
        assert_eq!(
            holds(&of, "user", tree, "user.groups.all(g, !g.startsWith('system:'))"),
            Ok(true)
        );
        assert_eq!(holds(&of, "user", tree, "user.extra['k'] == ['v']"), Ok(true));
        assert!(of.compile("user.name").is_err());
        let tree = r#"{"user":"jane","resourceAttributes":{"namespace":"kube-system"}}"#;
        let of = subject_access_review_environment();
        let source = "has(request.resourceAttributes) && request.resourceAttributes.namespace == 'kube-system'";
        assert_eq!(holds(&of, "request", tree, source), Ok(true));
        assert_eq!(holds(&of, "request", r#"{"user":"jane"}"#, source), Ok(false));
    }
}
