//! Compile errors: messages and positions.

use std::sync::Arc;

use cel::{DeclType, Environment, Type};
use object::from_json;

const SCHEMA: &str = r#"{"type": "object", "properties": {
    "a": {"type": "integer"}, "b": {"type": "string"}, "namespace": {"type": "string"},
    "a-b": {"type": "string"}, "when": {"type": "string", "format": "date-time"},
    "either": {"x-kubernetes-int-or-string": true},
    "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}}
}}"#;

fn compile(source: &str) -> Result<Type, String> {
    let schema = from_json(SCHEMA.as_bytes()).expect("valid");
    let environment =
        Environment::new().with_node("self", &DeclType::from_json_schema(&schema, false));
    let program = Arc::new(environment).compile(source).map_err(|errors| errors.to_string())?;
    Ok(program.output_type().clone())
}

fn first_line(source: &str) -> String {
    match compile(source) {
        Ok(ty) => ty.to_string(),
        Err(errors) => errors.lines().next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn types_follow_the_schema() {
    for (source, ty) in [
        ("self.a + 1", "int"),
        ("self.when", "timestamp"),
        ("self.list.map(e, e.k)", "list(string)"),
        ("self.?a", "optional_type(int)"),
        ("self.?list[?0].k.orValue('')", "string"),
        ("self.either", "dyn"),
        ("self.__namespace__ + self.a__dash__b", "string"),
        ("[]", "list(dyn)"),
        ("{'a': [1]}", "map(string, list(int))"),
        ("self.list.filter(e, e.k == 'x')[0].k", "string"),
        ("type(self.a)", "type(int)"),
        ("type(self.when) == google.protobuf.Timestamp", "bool"),
        ("url('http://a').getQuery()['x']", "list(string)"),
    ] {
        assert_eq!(first_line(source), ty, "{source}");
    }
}

#[test]
fn mistakes_are_named_where_they_are() {
    for (source, error) in [
        ("foo", "1:1: undeclared reference to 'foo' (in container '')"),
        ("self.zz", "1:5: undefined field 'zz'"),
        ("self.a.b", "1:7: type 'int' does not support field selection"),
        (
            "self.a == self.b",
            "1:8: found no matching overload for '_==_' applied to '(int, string)'",
        ),
        ("self.b.foo()", "1:11: undeclared reference to 'foo' (in container '')"),
        ("self.b.size(1)", "1:12: found no matching overload for 'size' applied to 'string.(int)'"),
        ("has(self)", "1:5: invalid argument to has() macro"),
        (
            "self.a.all(x, true)",
            "1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("self.list.all(x.y, true)", "1:16: argument must be a simple name"),
        ("self.list.map(1, true)", "1:15: argument is not an identifier"),
        ("self.a && true", "1:5: expected type 'bool' but found 'int'"),
        ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
        ("duration('1x')", "1:10: invalid duration argument"),
        ("self.b.matches('(')", "1:16: invalid matches argument"),
        (
            "'%d'.format(['a'])",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("if", "1:1: reserved identifier: if"),
        ("dyn", "1:1: undeclared reference to 'dyn' (in container '')"),
        ("quantity('1').x", "1:14: unexpected failed resolution of 'kubernetes.Quantity'"),
        ("99999999999999999999", "1:1: invalid int literal"),
        ("Foo{a: 1}", "1:4: undeclared reference to 'Foo' (in container '')"),
        ("math.abs(1)", "1:1: undeclared reference to 'math' (in container '')"),
    ] {
        assert_eq!(first_line(source), format!("ERROR: <input>:{error}"), "{source}");
    }
}

#[test]
fn syntax_errors_are_upstreams() {
    const START: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
    for (source, error) in [
        ("(self", "1:6: Syntax error: missing ')' at '<EOF>'".to_owned()),
        ("self.a &&", format!("1:10: Syntax error: mismatched input '<EOF>' expecting {START}")),
        ("self ?? 'x'", format!("1:7: Syntax error: extraneous input '?' expecting {START}")),
        ("self x", "1:6: Syntax error: extraneous input 'x' expecting <EOF>".to_owned()),
        ("self x y", "1:6: Syntax error: mismatched input 'x' expecting <EOF>".to_owned()),
        ("self.", "1:6: Syntax error: no viable alternative at input '.'".to_owned()),
        ("self.true", "1:6: Syntax error: mismatched input 'true' expecting IDENTIFIER".to_owned()),
        ("x => x", "1:3: Syntax error: token recognition error at: '=>'".to_owned()),
        ("self.'x", "1:6: Syntax error: token recognition error at: ''x'".to_owned()),
        ("ip(!).x()", format!("1:5: Syntax error: extraneous input ')' expecting {START}")),
        ("has(self.b'x')", "1:5: invalid argument to has() macro".to_owned()),
        ("'abc", "1:1: Syntax error: token recognition error at: ''abc'".to_owned()),
        ("", format!("1:0: Syntax error: mismatched input '<EOF>' expecting {START}")),
    ] {
        assert_eq!(first_line(source), format!("ERROR: <input>:{error}"), "{source}");
    }
}

#[test]
fn what_nests_too_deep_is_refused() {
    let deep = format!("{}1{}", "(".repeat(300), ")".repeat(300));
    assert_eq!(first_line(&deep), "ERROR: <input>:-1:0: expression recursion limit exceeded: 250");
    let fine = format!("{}1{}", "(".repeat(200), ")".repeat(200));
    assert_eq!(first_line(&fine), "int");
    let long = "1".repeat(100_001);
    assert_eq!(
        first_line(&long),
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000"
    );
}
