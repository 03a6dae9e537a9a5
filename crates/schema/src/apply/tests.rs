use object::{Lens, Value};

use super::{last_applied::LAST_APPLIED, *};
use crate::sample::{Sample, tree};

fn by(manager: &'static str) -> FieldManagerRequest<'static> {
    FieldManagerRequest {
        schema: Sample::SHAPE,
        api_version: "apps/v1",
        kind: "Sample",
        manager,
        subresource: "",
        reset_fields: &[&["status"]],
        now: "2030-01-01T00:00:00Z",
        converter: &SingleVersion,
    }
}

fn applied(rest: &str) -> Value {
    let mut object = tree(rest);
    object["apiVersion"] = "apps/v1".into();
    object["kind"] = "Sample".into();
    object
}

fn updated(write: &FieldManagerRequest, old: Option<&Value>, new: Value) -> Value {
    update_managed_fields(write, old, new).expect("there is one version")
}

/// The managedFields as `manager/operation[/subresource] -> fields`.
fn books(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].items();
    let line = |entry: &Value| {
        let part = |name: &str| entry.get(name).as_str().unwrap_or_default();
        let (manager, operation) = (part("manager"), part("operation"));
        let who = format!("{manager}/{operation}/{}", part("subresource"));
        (who.trim_end_matches('/').to_owned(), entry["fieldsV1"].clone())
    };
    entries.iter().map(line).collect()
}

fn expect(object: &Value, lines: &[(&str, &str)]) {
    let lines: Vec<_> =
        lines.iter().map(|(who, fields)| ((*who).to_owned(), tree(fields))).collect();
    assert_eq!(books(object), lines);
}

#[test]
fn each_manager_owns_what_it_applies() {
    let a = applied(r#"{"spec":{"replicas":1,"containers":[{"name":"c","image":"1"}]}}"#);
    let object = apply(&by("a"), None, &a, false).unwrap();
    let own = r#"{"f:spec":{"f:replicas":{},"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:image":{}}}}}"#;
    expect(&object, &[("a/Apply", own)]);

    let b = applied(r#"{"spec":{"containers":[{"name":"c","args":["x"]},{"name":"d"}]}}"#);
    let object = apply(&by("b"), Some(&object), &b, false).unwrap();
    assert_eq!(
        object["spec"]["containers"],
        tree(r#"[{"name":"c","image":"1","args":["x"]},{"name":"d"}]"#)
    );
    let other = r#"{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:args":{}},"k:{\"name\":\"d\"}":{".":{},"f:name":{}}}}}"#;
    expect(&object, &[("a/Apply", own), ("b/Apply", other)]);
}

#[test]
fn another_value_is_a_conflict_unless_forced() {
    let one = applied(r#"{"spec":{"replicas":1}}"#);
    let two = applied(r#"{"spec":{"replicas":2}}"#);
    let object = apply(&by("a"), None, &one, false).unwrap();
    let error = apply(&by("b"), Some(&object), &two, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "a": .spec.replicas"#
    );
    let status = error.status();
    assert_eq!((status.code(), status.reason()), (409, "Conflict"));
    let causes = Value::from(status)["details"]["causes"].clone();
    assert_eq!(
        causes,
        tree(
            r#"[{"field":".spec.replicas","message":"conflict with \"a\"","reason":"FieldManagerConflict"}]"#
        )
    );
    let object = apply(&by("b"), Some(&object), &two, true).unwrap();
    expect(&object, &[("b/Apply", r#"{"f:spec":{"f:replicas":{}}}"#)]);
    let object =
        apply(&by("a"), Some(&object), &two, false).expect("the same value is no conflict");
    assert_eq!(books(&object).len(), 2);
}

#[test]
fn what_is_no_longer_applied_goes_unless_others_want_it() {
    let all = applied(
        r#"{"metadata":{"labels":{"x":"1","y":"1"}},"spec":{"replicas":1,"accessModes":["r","w"],
        "containers":[{"name":"c","image":"1"},{"name":"d"}]}}"#,
    );
    let some = applied(r#"{"metadata":{"labels":{"x":"1"}},"spec":{"accessModes":["w"]}}"#);
    let object = apply(&by("a"), None, &all, false).unwrap();
    let object = apply(&by("b"), Some(&object), &some, false).unwrap();
    let none = applied(r#"{"spec":{"containers":[{"name":"d"}]}}"#);
    let object = apply(&by("a"), Some(&object), &none, false).unwrap();
    assert_eq!(object["metadata"]["labels"], tree(r#"{"x":"1"}"#));
    assert_eq!(object["spec"]["accessModes"], tree(r#"["w"]"#));
    assert_eq!(object["spec"]["containers"], tree(r#"[{"name":"d"}]"#));
    assert!(object["spec"]["replicas"].is_null());
}

#[test]
fn field_by_field_the_same_goes_as_from_the_whole() {
    let parts = [
        r#"{"metadata":{"labels":{"x":"1"}}}"#,
        r#"{"metadata":{"labels":{"y":"1"}}}"#,
        r#"{"metadata":{"annotations":{"z":"1"}}}"#,
        r#"{"spec":{"replicas":1}}"#,
        r#"{"spec":{"accessModes":["r"]}}"#,
        r#"{"spec":{"accessModes":["w"]}}"#,
        r#"{"spec":{"containers":[{"name":"c"}]}}"#,
        r#"{"spec":{"containers":[{"name":"c","image":"1"}]}}"#,
        r#"{"spec":{"containers":[{"name":"d","image":"1"}]}}"#,
    ]
    .map(tree);
    let form = MergeType::root(Sample::SHAPE);
    let some = |mask: u32| {
        let chosen = parts.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1);
        chosen.fold(Value::object(), |all, (_, part)| merge(form, &all, part))
    };
    for n in 0..3000_u32 {
        let mask = n.wrapping_mul(0x9E37_79B1) >> 5;
        let (last, held, nobodys) = (mask & 511, mask >> 9 & 511, mask >> 18 & 511);
        let (merged, last) = (some(last | held | nobodys), to_field_set(form, &some(last)));
        let held = to_field_set(form, &some(held));
        let whole = prune_by_field_sets(form, &merged, &last, &held);
        assert_eq!(
            prune_fields(form, &merged, &last, &held),
            whole,
            "{merged:?} {last:?} {held:?}"
        );
    }
}

#[test]
fn items_come_in_the_order_of_who_applies() {
    let live = updated(&by("u"), None, tree(r#"{"spec":{"accessModes":["b","a","z"]}}"#));
    let wanted = applied(r#"{"spec":{"accessModes":["a","b","n"]}}"#);
    let object = apply(&by("a"), Some(&live), &wanted, false).unwrap();
    assert_eq!(object["spec"]["accessModes"], tree(r#"["a","z","b","n"]"#));
}

#[test]
fn a_write_takes_the_fields_it_changes() {
    let object = apply(&by("a"), None, &applied(r#"{"spec":{"replicas":1}}"#), false).unwrap();
    let mut changed = object.clone();
    changed["spec"]["replicas"] = 5.into();
    changed["metadata"]["labels"] = tree(r#"{"x":"1"}"#);
    changed["metadata"]["resourceVersion"] = "7".into();
    changed["status"] = tree(r#"{"replicas":3}"#);
    let object = updated(&by("u"), Some(&object), changed.clone());
    expect(
        &object,
        &[(
            "u/Update",
            r#"{"f:metadata":{"f:labels":{".":{},"f:x":{}}},"f:spec":{"f:replicas":{}}}"#,
        )],
    );
    let error = apply(&by("a"), Some(&object), &applied(r#"{"spec":{"replicas":1}}"#), false);
    assert_eq!(
        error.unwrap_err().to_string(),
        r#"Apply failed with 1 conflict: conflict with "u" using apps/v1: .spec.replicas"#
    );

    let status = FieldManagerRequest {
        subresource: "status",
        reset_fields: &[&["metadata"], &["spec"]],
        ..by("s")
    };
    let mut old = object.clone();
    old["status"] = Value::object();
    let object = updated(&status, Some(&old), object);
    let line = ("s/Update/status".to_owned(), tree(r#"{"f:status":{"f:replicas":{}}}"#));
    assert!(books(&object).contains(&line), "{object:?}");
}

#[test]
fn creation_owns_what_was_given() {
    let new = tree(
        r#"{"metadata":{"name":"x","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","ports":[
        {"containerPort":80}]}],"selector":{"matchLabels":{"a":"b"}},"strategy":{"type":"R"}},"status":{}}"#,
    );
    let object = updated(&by("u"), None, new);
    expect(
        &object,
        &[(
            "u/Update",
            r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{
            "f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:ports":{".":{},
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}},
            "f:selector":{},"f:strategy":{"f:type":{}}}}"#,
        )],
    );
}

#[test]
fn time_moves_only_with_the_object() {
    let later = FieldManagerRequest { now: "2031-01-01T00:00:00Z", ..by("a") };
    let wanted = applied(r#"{"spec":{"replicas":1}}"#);
    let object = apply(&by("a"), None, &wanted, false).unwrap();
    let time = |object: &Value| object["metadata"]["managedFields"].items()[0]["time"].clone();
    let again = apply(&later, Some(&object), &wanted, false).unwrap();
    assert_eq!(time(&again), "2030-01-01T00:00:00Z".into());
    let other =
        apply(&later, Some(&object), &applied(r#"{"spec":{"replicas":2}}"#), false).unwrap();
    assert_eq!(time(&other), "2031-01-01T00:00:00Z".into());
}

#[test]
fn books_can_be_thrown_away_and_broken_ones_are_errors() {
    let object = apply(&by("a"), None, &applied(r#"{"spec":{"replicas":1}}"#), false).unwrap();
    let mut cleared = object.clone();
    cleared["metadata"]["managedFields"] = tree("[{}]");
    let cleared = updated(&by("u"), Some(&object), cleared);
    expect(&cleared, &[]);
    let first =
        apply(&by("b"), Some(&cleared), &applied(r#"{"spec":{"replicas":2}}"#), true).unwrap();
    assert_eq!(books(&first).len(), 1, "only the new manager is left: {first:?}");

    for broken in [
        r#"[{"operation":"Eat","apiVersion":"v1","fieldsType":"FieldsV1"}]"#,
        r#"[{"operation":"Apply","apiVersion":"v1","fieldsType":"X"}]"#,
        r#"[{"operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f":5}}]"#,
    ] {
        let mut object = object.clone();
        object["metadata"]["managedFields"] = tree(broken);
        let error = apply(&by("a"), Some(&object), &applied("{}"), false).unwrap_err();
        assert!(error.to_string().starts_with("failed to decode managed fields"), "{error}");
        assert_eq!(books(&updated(&by("u"), None, object)).len(), 1, "broken books are ignored");
    }
}

#[test]
fn refuses_with_upstreams_words() {
    let typed = |rest: &str| {
        format!("failed to create typed patch object (/n; apps/v1, Kind=Sample): {rest}")
    };
    for (body, code, message) in [
        (
            r#"{"kind":"Other","apiVersion":"v1"}"#,
            400,
            "invalid object type: /v1, Kind=Other".to_owned(),
        ),
        (
            r#"{"metadata":{"managedFields":[]}}"#,
            400,
            "metadata.managedFields must be nil".to_owned(),
        ),
        (r#"{"nope":1}"#, 500, typed(".nope: field not declared in schema")),
        (
            r#"{"spec":{"replicas":"x"}}"#,
            500,
            typed(".spec.replicas: expected numeric (int or float), got string"),
        ),
        (r#"{"spec":5}"#, 500, typed(".spec: expected map, got &{5}")),
        (
            r#"{"spec":{"containers":[{"name":"c"},{"name":"c"}]}}"#,
            500,
            typed(r#".spec.containers: duplicate entries for key [name="c"]"#),
        ),
        (
            r#"{"spec":{"volumes":[{"emptyDir":{}}]}}"#,
            500,
            typed(
                ".spec.volumes: element 0: associative list with keys has an element that omits all \
                 key fields [\"name\"] (and doesn't have default values for any key fields)",
            ),
        ),
    ] {
        let mut body = tree(body);
        if body["kind"].is_null() {
            body = applied(&String::from_utf8(object::to_json(&body)).expect("JSON"));
            body["metadata"]["name"] = "n".into();
        }
        let error = apply(&by("a"), None, &body, false).unwrap_err();
        assert_eq!((error.status().code(), error.to_string()), (code, message));
    }
}

#[test]
fn a_key_that_is_always_written_is_empty_when_absent() {
    let wanted = applied(r#"{"spec":{"containers":[{"image":"1"}]}}"#);
    let object = apply(&by("a"), None, &wanted, false).unwrap();
    expect(
        &object,
        &[(
            "a/Apply",
            r#"{"f:spec":{"f:containers":{"k:{\"name\":\"\"}":{".":{},"f:image":{}}}}}"#,
        )],
    );
}

#[test]
fn kubectl_takes_over_what_it_has_applied_before() {
    let mut object = tree(r#"{"metadata":{"annotations":{}},"spec":{"replicas":1}}"#);
    object["metadata"]["annotations"][LAST_APPLIED] =
        r#"{"apiVersion":"apps/v1","kind":"Sample","spec":{"replicas":1}}"#.into();
    let object = updated(&by("kubectl-client-side-apply"), None, object);
    let wanted = applied(r#"{"spec":{"replicas":2}}"#);
    assert!(apply(&by("other"), Some(&object), &wanted, false).is_err());
    let object = apply(&by("kubectl"), Some(&object), &wanted, false).unwrap();
    let last = object["metadata"]["annotations"][LAST_APPLIED].as_str().expect("kept");
    assert_eq!(tree(last), wanted);
}

#[test]
fn there_are_never_more_than_ten_updaters() {
    let mut object = updated(&by("u0"), None, tree(r#"{"spec":{"replicas":0}}"#));
    for n in 1..15 {
        let mut new = object.clone();
        new["metadata"]["labels"][format!("l{n}").as_str()] = "x".into();
        let name = format!("u{n}");
        let now = format!("2030-01-01T00:00:{n:02}Z");
        object = updated(
            &FieldManagerRequest { manager: &name, now: &now, ..by("") },
            Some(&object),
            new,
        );
    }
    let lines = books(&object);
    assert_eq!(lines.len(), 10);
    assert!(lines.iter().any(|(who, _)| who == "ancient-changes/Update"), "{lines:?}");
}

#[test]
fn what_is_held_in_a_version_that_there_is_not_is_forgotten() {
    let object = apply(&by("a"), None, &applied(r#"{"spec":{"replicas":1}}"#), false).unwrap();
    let newer = FieldManagerRequest { api_version: "apps/v2", ..by("b") };
    let mut wanted = applied(r#"{"spec":{"replicas":2}}"#);
    wanted["apiVersion"] = "apps/v2".into();
    let object = apply(&newer, Some(&object), &wanted, false).expect("nobody holds it");
    expect(&object, &[("b/Apply", r#"{"f:spec":{"f:replicas":{}}}"#)]);
}

#[test]
fn parts_of_what_is_taken_whole_today_are_held_as_one() {
    let form = MergeType::root(Sample::SHAPE);
    let labels = r#""f:metadata":{"f:labels":{"f:x":{}}}"#;
    let held = format!(r#"{{{labels},"f:spec":{{"f:selector":{{"f:x":{{}}}}}}}}"#);
    let mut fields = FieldSet::decode(&tree(&held)).unwrap();
    assert!(super::compare::collapse_to_atomic(form, &mut fields));
    let whole = format!(r#"{{{labels},"f:spec":{{"f:selector":{{}}}}}}"#);
    assert_eq!(fields.encode().with_raw_expanded(), tree(&whole));
    assert!(!super::compare::collapse_to_atomic(form, &mut fields), "once");
}
