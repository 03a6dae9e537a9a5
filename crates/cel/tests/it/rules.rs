//! CRD validation rules: errors in schemas and in objects.

use cel::CrdRuleCompiler;
use object::{Value, from_json};
use schema::{
    ErrorList, FieldPath,
    custom::{CelRuleCompiler, JsonSchema},
};

fn schema(text: &str) -> JsonSchema {
    JsonSchema::from(from_json(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}")))
}

fn judged(text: &str) -> Vec<String> {
    let mut errs = ErrorList::default();
    CrdRuleCompiler.check(&schema(text), None, &FieldPath::Root.field("s"), &mut errs);
    errs.0.iter().map(ToString::to_string).collect()
}

fn checked(text: &str, object: &str, old: Option<&str>) -> Vec<String> {
    let value = |text: &str| -> Value { from_json(text.as_bytes()).expect("valid") };
    let mut errs = ErrorList::default();
    let rules = CrdRuleCompiler.compile(&schema(text)).expect("has rules");
    rules.check(&value(object), old.map(value).as_ref(), &mut errs);
    errs.0.iter().map(ToString::to_string).collect()
}

fn with_rule(rest: &str, rule: &str) -> String {
    format!(
        r#"{{"type": "object", "properties": {{"f": {{{rest}, "x-kubernetes-validations": [{rule}]}}}}}}"#
    )
}

#[test]
fn rules_must_compile_and_be_cheap() {
    let text = r#""type": "string", "maxLength": 10"#;
    assert_eq!(judged(&with_rule(text, r#"{"rule": "self == 'a'"}"#)), Vec::<String>::new());
    assert_eq!(
        judged(&with_rule(text, r#"{"rule": "self > 1"}"#)),
        ["s.properties[f].x-kubernetes-validations[0].rule: Invalid value: \
          {\"Rule\":\"self \\u003e 1\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\
          \"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:6: found no \
          matching overload for '_>_' applied to '(string, int)'\n | self > 1\n | .....^"]
    );
    let judged_list = judged(&with_rule(
        r#""type": "array", "items": {"type": "string"}"#,
        r#"{"rule": "self.all(x, self.all(y, x == y))"}"#,
    ));
    assert_eq!(judged_list.len(), 3);
    assert!(
        judged_list[0]
            .contains("Forbidden: estimated rule cost exceeds budget by factor of more than 100x")
    );
    let unused = judged(&with_rule(text, r#"{"rule": "true", "optionalOldSelf": true}"#));
    assert!(unused[0].contains("may not be set if oldSelf is not used in rule"));
    let items = r#"{"type": "array", "items": {"type": "string", "maxLength": 5,
        "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}, "maxItems": 5}"#;
    assert_eq!(
        judged(items),
        ["s.items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf \
          cannot be used on the uncorrelatable portion of the schema within s"]
    );
}

#[test]
fn objects_are_refused_where_a_rule_fails() {
    let text = r#""type": "string""#;
    let one = |rule: &str, value: &str| {
        checked(&with_rule(text, rule), &format!(r#"{{"f": {value}}}"#), None)
    };
    assert_eq!(one(r#"{"rule": "self == 'a'"}"#, r#""a""#), Vec::<String>::new());
    assert_eq!(
        one(r#"{"rule": "self == 'a'"}"#, r#""b""#),
        ["f: Invalid value: \"b\": failed rule: self == 'a'"]
    );
    assert_eq!(
        one(
            r#"{"rule": "self == 'a'", "message": "be a", "reason": "FieldValueForbidden"}"#,
            r#""b""#
        ),
        ["f: Forbidden: be a"]
    );
    assert_eq!(
        one(r#"{"rule": "self == 'a'", "messageExpression": "'not ' + self"}"#, r#""b""#),
        ["f: Invalid value: \"b\": not b"]
    );
    assert_eq!(
        one(r#"{"rule": "int(self) == 1"}"#, r#""b""#),
        [
            "f: Invalid value: \"string\": type conversion error from 'string' to 'int' evaluating rule: int(self) == 1"
        ]
    );
}

#[test]
fn the_past_counts() {
    let rule = r#"{"rule": "self == oldSelf"}"#;
    let text = with_rule(r#""type": "string""#, rule);
    assert_eq!(checked(&text, r#"{"f": "b"}"#, None), Vec::<String>::new());
    assert_eq!(
        checked(&text, r#"{"f": "b"}"#, Some(r#"{"f": "a"}"#)),
        ["f: Invalid value: \"b\": failed rule: self == oldSelf"]
    );
    let optional = r#"{"rule": "oldSelf.hasValue() || self == 'first'", "optionalOldSelf": true}"#;
    let text = with_rule(r#""type": "string""#, optional);
    assert_eq!(checked(&text, r#"{"f": "b"}"#, None).len(), 1);
    assert_eq!(checked(&text, r#"{"f": "b"}"#, Some(r#"{"f": "a"}"#)), Vec::<String>::new());
    let never = with_rule(r#""type": "string""#, r#"{"rule": "self == 'x'"}"#);
    let untouched = checked(&never, r#"{"f": "b", "g": 1}"#, Some(r#"{"f": "b"}"#));
    assert_eq!(untouched, Vec::<String>::new(), "what was wrong before is let be");
}

#[test]
fn what_was_wrong_before_is_only_told() {
    let text = with_rule(r#""type": "integer""#, r#"{"rule": "self > 10", "message": "small"}"#);
    let (rules, mut errs) =
        (CrdRuleCompiler.compile(&schema(&text)).expect("has rules"), ErrorList::default());
    let value = |text: &str| -> Value { from_json(text.as_bytes()).expect("valid") };
    rules.check(&value(r#"{"f": 3}"#), Some(&value(r#"{"f": 3, "g": 1}"#)), &mut errs);
    let told: Vec<String> = errs.1.iter().map(ToString::to_string).collect();
    assert_eq!((errs.0.len(), told), (0, vec!["f: Invalid value: 3: small".to_owned()]));
}

#[test]
fn a_message_that_costs_too_much_ends_it() {
    let each = "self.all(x, self.all(y, self.all(z, z == y || x == z || true)))";
    let rule =
        format!(r#"{{"rule": "self.size() == 0", "messageExpression": "{each} ? 'a' : 'b'"}}"#);
    let text = with_rule(r#""type": "array", "items": {"type": "integer"}"#, &rule);
    let few = checked(&text, r#"{"f": [1, 2]}"#, None);
    assert_eq!(few, ["f: Invalid value: a"]);
    let many: Vec<&str> = std::iter::repeat_n("1", 100).collect();
    let many = checked(&text, &format!(r#"{{"f": [{}]}}"#, many.join(",")), None);
    assert_eq!(many.len(), 1);
    assert!(many[0].starts_with(
        r#"f: Invalid value: "array": no further validation rules will be run due to call cost exceeds limit for messageExpression: "self.all("#
    ), "{many:?}");
}
