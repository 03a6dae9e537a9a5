use object::Lens;

use super::*;
use crate::sample::{Sample, tree};

#[test]
fn merges_by_the_shape() {
    let doc = r#"{"spec":{"replicas":1,"containers":[{"name":"a","image":"1","args":["x"]},
        {"name":"b","image":"1"}],"accessModes":["r","w"],"strategy":{"type":"Roll","maxSurge":1}}}"#;
    for (what, patch, result) in [
        (
            "an item is merged, a list without a key is replaced",
            r#"{"spec":{"containers":[{"name":"a","args":["y"]}]}}"#,
            r#"{"spec":{"replicas":1,"containers":[{"name":"a","image":"1","args":["y"]},
                {"name":"b","image":"1"}],"accessModes":["r","w"],"strategy":{"type":"Roll","maxSurge":1}}}"#,
        ),
        (
            "a new item comes before the old ones, null removes",
            r#"{"spec":{"replicas":null,"containers":[{"name":"c"}]}}"#,
            r#"{"spec":{"containers":[{"name":"c"},{"name":"a","image":"1","args":["x"]},
                {"name":"b","image":"1"}],"accessModes":["r","w"],"strategy":{"type":"Roll","maxSurge":1}}}"#,
        ),
        (
            "delete and replace",
            r#"{"spec":{"containers":[{"name":"a","$patch":"delete"}],"strategy":{"$patch":"replace","type":"X"}}}"#,
            r#"{"spec":{"replicas":1,"containers":[{"name":"b","image":"1"}],"accessModes":["r","w"],"strategy":{"type":"X"}}}"#,
        ),
        (
            "a whole list replaced",
            r#"{"spec":{"containers":[{"$patch":"replace"},{"name":"z"}],"accessModes":["x"]}}"#,
            r#"{"spec":{"replicas":1,"containers":[{"name":"z"}],"accessModes":["x","r","w"],"strategy":{"type":"Roll","maxSurge":1}}}"#,
        ),
        (
            "order, deletion from a plain list, retained keys",
            r#"{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],
                "$deleteFromPrimitiveList/accessModes":["r"],"strategy":{"$retainKeys":["type"],"type":"X"}}}"#,
            r#"{"spec":{"replicas":1,"containers":[{"name":"b","image":"1"},{"name":"a","image":"1","args":["x"]}],
                "accessModes":["w"],"strategy":{"type":"X"}}}"#,
        ),
        (
            "a directive where nothing is leaves nothing",
            r#"{"spec":{"volumes":[{"name":"v","$patch":"delete"}],"nodeSelector":{"a":null}}}"#,
            r#"{"spec":{"replicas":1,"containers":[{"name":"a","image":"1","args":["x"]},{"name":"b","image":"1"}],
                "accessModes":["r","w"],"strategy":{"type":"Roll","maxSurge":1},"volumes":[],"nodeSelector":{}}}"#,
        ),
    ] {
        let new = apply_strategic_merge_patch(Sample::SHAPE, &tree(doc), &mut tree(patch));
        assert_eq!(new, Ok(tree(result)), "{what}");
    }
}

#[test]
fn refuses_with_upstreams_words() {
    let doc =
        r#"{"spec":{"containers":[{"name":"a"}],"volumes":[{"name":"v"}],"parameters":{"x":{}}}}"#;
    for (patch, code, message) in [
        ("[]", 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (
            r#"{"spec":{"containers":[{"image":"e"}]}}"#,
            500,
            "map: map[image:e] does not contain declared merge key: name",
        ),
        (
            r#"{"spec":{"containers":["x"]}}"#,
            500,
            "list element types are not identical: [[map[name:a]] [x]]",
        ),
        (
            r#"{"spec":{"containers":[{"$patch":5,"name":"c"}]}}"#,
            500,
            "unknown patch type: %!s(int64=5) in map: map[$patch:5 name:c]",
        ),
        (
            r#"{"spec":{"$setElementOrder/containers":"x"}}"#,
            500,
            "expected a []interface {}, but received a string",
        ),
        (
            r#"{"spec":{"$setElementOrder/containers":[{"name":"x"}],"containers":[{"name":"d"}]}}"#,
            500,
            "The order in patch list:\n[map[name:d]]\n doesn't match $setElementOrder list:\n[map[name:x]]\n",
        ),
        (
            r#"{"spec":{"$setElementOrder/containers":["x",{"name":"a"}]}}"#,
            500,
            "value for key 0 is not a map",
        ),
        (
            r#"{"spec":{"$deleteFromPrimitiveList/containers":["a"]}}"#,
            500,
            "list element types are not identical: [[map[name:a]] [a]]",
        ),
        (
            r#"{"spec":{"volumes":[{"$retainKeys":["name"],"hostPath":{},"name":"v"}]}}"#,
            400,
            "invalid patch format of retainKeys",
        ),
        (
            r#"{"spec":{"parameters":{"x":{"y":1}}}}"#,
            500,
            "unable to find api field in struct RawExtension for the json field \"x\"",
        ),
    ] {
        let error = apply_strategic_merge_patch(Sample::SHAPE, &tree(doc), &mut tree(patch))
            .expect_err(patch);
        assert_eq!((error.code(), error.to_string().as_str()), (code, message), "{patch}");
    }
}

#[test]
fn directives_leave_the_patch_as_they_are_obeyed() {
    let doc = tree(r#"{"spec":{"accessModes":["a"],"replicas":1}}"#);
    for (patch, left) in [
        (r#"{"spec":{"$patch":"replace","replicas":2}}"#, r#"{"spec":{"replicas":2}}"#),
        (r#"{"spec":{"$retainKeys":["replicas"],"replicas":2}}"#, r#"{"spec":{"replicas":2}}"#),
        (
            r#"{"spec":{"$setElementOrder/accessModes":[],"accessModes":["b"],"replicas":null}}"#,
            r#"{"spec":{"replicas":null}}"#,
        ),
        (r#"{"metadata":{"labels":{"a":null}}}"#, r#"{"metadata":{"labels":{}}}"#),
    ] {
        let mut given = tree(patch);
        apply_strategic_merge_patch(Sample::SHAPE, &doc, &mut given).unwrap();
        assert_eq!(given, tree(left), "{patch}");
    }
    let mut patch = tree(r#"{"spec":{"$setElementOrder/accessModes":[],"accessModes":["b"]}}"#);
    let new = apply_strategic_merge_patch(Sample::SHAPE, &doc, &mut patch).unwrap();
    assert_eq!(new["spec"]["accessModes"], tree(r#"["a","b"]"#), "as Go sorts what has no place");
}

#[test]
fn long_lists_are_merged_in_time() {
    let names = |from: usize| (from..from + 20_000).map(|n| Value::from(n.to_string()));
    let (mut doc, mut patch) = (Value::object(), Value::object());
    doc["spec"]["accessModes"] = names(0).collect();
    patch["spec"]["accessModes"] = names(10_000).collect();
    let new = apply_strategic_merge_patch(Sample::SHAPE, &doc, &mut patch.clone()).unwrap();
    assert_eq!(new["spec"]["accessModes"].items().len(), 30_000);
}
