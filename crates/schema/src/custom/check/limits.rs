//! Tests with schemas and objects that would take long to validate.

use super::*;
use crate::sample::tree;

/// The errors of `value`, within a work budget.
fn limited(limit: u64, schema: &str, value: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = JsonSchema::from(tree(schema));
    let mut errs = ErrorList::default();
    work_budget::within(limit, || {
        SchemaValidator::new(&schema).validate(&schema, (value, old), "", &mut errs);
    });
    errs.0.into_iter().map(|error| error.to_string()).collect()
}

fn list(items: impl Iterator<Item = i64>) -> Value {
    Value::List(items.map(Value::from).collect::<Vec<_>>().into())
}

#[test]
fn work_that_does_not_follow_from_the_size_is_limited() {
    let exhausted = work_budget::Exhausted.to_string();
    let is_refused = |schema: &str, value: &Value| {
        limited(20_000, schema, value, None).last().is_some_and(|last| last.contains(&exhausted))
    };
    let many = |part: &str| vec![part; 300].join(",");
    let numbers = list(0..2_000);
    let of_each = format!(r#"{{"items":{{"oneOf":[{}]}}}}"#, many(r#"{"minimum":5}"#));
    assert!(is_refused(&of_each, &numbers), "alternatives of each item");
    let nested = Value::List(vec![list(0..100); 100].into());
    let inside = many(r#"{"items":{"items":{"minimum":0}}}"#);
    assert!(is_refused(&format!(r#"{{"allOf":[{inside}]}}"#), &nested), "nested items");
    let not = format!(r#"{{"items":{{"not":{{"allOf":[{}]}}}}}}"#, many(r#"{"minimum":-1}"#));
    assert!(is_refused(&not, &numbers), "what is not evaluated is not accepted");
    let values: Vec<_> = (0..20_000).map(|i| (-i).to_string()).collect();
    let values = format!(r#"{{"items":{{"enum":[{}]}}}}"#, values.join(","));
    assert!(is_refused(&values, &numbers), "long enumerations");
    let plain = r#"{"items":{"type":"integer","minimum":0,"anyOf":[{},{"maximum":5}]}}"#;
    assert_eq!(limited(20_000, plain, &numbers, None), [""; 0]);
}

#[test]
fn failures_of_a_large_object_are_limited() {
    let numbers = list(0..50_000);
    let found = limited(work_budget::REQUEST, r#"{"items":{"type":"string"}}"#, &numbers, None);
    assert!(found.len() <= MOST, "{} failures", found.len());
    assert!(found.first().is_some_and(|first| first.starts_with("[0]: ")), "{:?}", found.first());
}

#[test]
fn updating_a_large_list_map_takes_no_quadratic_time() {
    let item = |i: i64| {
        let mut item = Value::object();
        item["k"] = Value::from(i);
        item
    };
    let old = Value::List((0..50_000).map(item).collect::<Vec<_>>().into());
    let new = Value::List((0..50_000).rev().map(item).collect::<Vec<_>>().into());
    let schema = r#"{"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
        "items":{"properties":{"k":{"type":"string"}}}}"#;
    let started = std::time::Instant::now();
    assert_eq!(
        limited(work_budget::REQUEST, schema, &new, Some(&old)),
        [""; 0],
        "what was so before may stay"
    );
    assert!(started.elapsed().as_secs() < 60, "took {:?}", started.elapsed());
}
