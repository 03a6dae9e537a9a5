//! Cost estimates and actual costs.

use std::sync::Arc;

use cel::{Bindings, DeclType, Environment};
use object::from_json;

fn most(schema: &str, source: &str) -> u64 {
    let schema = from_json(schema.as_bytes()).expect("valid");
    let environment =
        Environment::new().with_node("self", &DeclType::from_json_schema(&schema, false));
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

const SCHEMA: &str = r#"{"type": "object", "properties": {
    "s": {"type": "string"}, "i": {"type": "integer"}, "b": {"type": "boolean"},
    "n": {"type": "string", "nullable": true},
    "by": {"type": "string", "format": "byte"},
    "ls": {"type": "array", "items": {"type": "string"}},
    "li": {"type": "array", "items": {"type": "integer"}},
    "ms": {"type": "object", "additionalProperties": {"type": "string"}},
    "o": {"type": "object", "properties": {"x": {"type": "integer"}}}}}"#;

/// The value of an expression, and its cost.
fn spent(source: &str, budget: u64) -> (String, u64) {
    let value = from_json(
        br#"{"s": "abc", "i": 3, "b": true, "ls": ["a", "b"], "li": [3, 1], "ms": {"a": "x"},
            "o": {"x": 1}, "n": null, "by": "/w=="}"#,
    );
    let value = value.expect("valid");
    let node = DeclType::from_json_schema(&from_json(SCHEMA.as_bytes()).expect("valid"), false);
    let environment = Arc::new(Environment::new().with_node("self", &node));
    let program = environment.compile(source);
    let program = program.unwrap_or_else(|errors| panic!("{source}: {errors}"));
    let bindings = Bindings::new().tree("self", &value, Some(&node)).expect("valid");
    let (outcome, cost) = program.evaluate(&bindings, budget);
    let shown = match outcome {
        Ok(value) => format!("{:?}", value.as_bool().expect("a bool")),
        Err(error) => error.to_string(),
    };
    (shown, cost)
}

#[test]
fn evaluation_costs_what_it_reads_and_makes() {
    for (source, value, cost) in [
        // Each step costs one, plus one for the attribute; not within a conditional or as an index.
        ("self.b", "true", 2),
        ("has(self.o.x)", "true", 2),
        ("self.b ? self.b : self.b", "true", 3),
        ("self.li[self.i - 2] == 1", "true", 7),
        ("self.ls[self.o.x] == 'b'", "true", 6),
        ("(self.b ? self.o : self.o).x == 1", "true", 5),
        ("self.o == self.o", "true", 5),
        // A missing value costs nothing.
        ("self.ms[?'zz'].orValue('k') == 'k'", "true", 3),
        ("self.?n.hasValue()", "false", 2),
        // Literals are created at compile time.
        ("self.s in ['abc', 'b']", "true", 2),
        ("1 in [] || self.b", "true", 2),
        ("[1, 2, 3].map(x, x * self.i).sum() == 18", "true", 53),
        ("type(self.i) == int", "true", 4),
        ("optional.of(1).optMap(x, 2).value() == 2", "true", 5),
        ("{'a': 1, 'a': self.i}.a == 3", "true", 35),
        ("lists.range(self.i) == [0, 1, 2]", "true", 17),
        // Failing calls are charged as well.
        ("lists.range(-self.i) == []", "lists.range: size must be non-negative, got -3", 15),
        (
            "self.by == b'a'",
            "Invalid byte formatted string /w==: illegal base64 data at input byte 0",
            3,
        ),
        ("[self.ms.zz] == ['a']", "no such key: zz", 14),
        ("self.ms.zz.startsWith('a') || self.b", "true", 6),
        ("dyn(self.li) == dyn(1)", "no such overload", 4),
        ("dyn(self.li) != dyn(1)", "true", 4),
        ("quantity('1') == quantity('2').sub(quantity('1'))", "no such overload", 5),
        ("quantity('2').sub(quantity('1')) == quantity('1')", "true", 5),
        (
            "self.ls.map(x, self.ms.zz).sort() == []",
            "internal error: interface conversion: *types.Err is not traits.Lister: missing method Add",
            33,
        ),
    ] {
        assert_eq!(spent(source, u64::MAX), (value.to_owned(), cost), "{source}");
    }
}

#[test]
fn an_evaluation_ends_with_its_budget() {
    let source = "[1, 2, 3].map(x, x * self.i).sum() == 18";
    assert_eq!(spent(source, 53).0, "true");
    assert_eq!(spent(source, 52).0, "operation cancelled: actual cost limit exceeded");
    // A value that is too large is never created.
    assert_eq!(
        spent("lists.range(self.i * 1000000000000).size() > 1", u64::MAX).0,
        "operation cancelled: actual cost limit exceeded"
    );
    // The error is not absorbed.
    let source = "[1, 2, 3].map(x, x * self.i).sum() == 1 || true";
    assert_eq!(spent(source, 20).0, "operation cancelled: actual cost limit exceeded");
}
