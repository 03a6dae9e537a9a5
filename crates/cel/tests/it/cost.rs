//! Estimates, by what a schema says of sizes.

use std::sync::Arc;

use cel::{Environment, Node};
use object::from_json;

fn most(schema: &str, source: &str) -> u64 {
    let schema = from_json(schema.as_bytes()).expect("valid");
    let environment = Environment::new().with_node("self", &Node::of(&schema, false));
    let program = Arc::new(environment).compile(source);
    program.unwrap_or_else(|errors| panic!("{source}: {errors}")).cost().max
}

#[test]
fn bounds_lower_estimates() {
    let list =
        |items: &str, bound: &str| format!(r#"{{"type": "array", "items": {items}{bound}}}"#);
    let text = r#"{"type": "string", "maxLength": 10}"#;
    for (schema, source, cost) in [
        (r#"{"type": "integer"}"#.to_owned(), "self > 1", 2),
        (r#"{"type": "string", "maxLength": 10}"#.to_owned(), "self == 'abc'", 2),
        (r#"{"type": "string", "maxLength": 10}"#.to_owned(), "self.matches('a+b+')", 6),
        (r#"{"type": "string", "enum": ["a", "bcd"]}"#.to_owned(), "self.startsWith(self)", 3),
        (list(text, r#", "maxItems": 100"#), "self.all(x, x == 'a')", 502),
        (list(text, ""), "self.all(x, true)", 3_145_727),
        (list(r#"{"type": "integer"}"#, r#", "maxItems": 5"#), "self.sum() > 1", 7),
    ] {
        assert_eq!(most(&schema, source), cost, "{source} on {schema}");
    }
}

#[test]
fn an_unbounded_product_is_too_much() {
    let schema = r#"{"type": "array", "items": {"type": "string"}}"#;
    assert!(most(schema, "self.all(x, self.all(y, x == y))") > 1_000_000_000);
}
