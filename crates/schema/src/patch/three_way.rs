//! The three-way patch of `kubectl apply`, which brings an object to the state in a file.
//!
//! `original` is the last applied configuration, `modified` the new one, and `current` the live
//! object. Fields of `modified` that differ from `current` are set, fields of `original` that
//! `modified` lacks are removed, and fields that others have added stay.

use object::{StructSchema, Value};

use super::{
    PatchError,
    diff::{DiffPart, merge_patch_diff, strategic_diff},
    patch_schema::PatchSchema,
    strategic::{Mode, merge_object},
};

/// Creates a strategic merge patch if the schema is known, otherwise a JSON merge patch.
pub fn create_three_way_patch(
    shape: Option<&StructSchema>,
    original: &Value,
    modified: &Value,
    current: &Value,
) -> Result<Value, PatchError> {
    let Some(shape) = shape else {
        // A merge patch compares parsed JSON, so raw JSON is expanded.
        let [original, modified, current] =
            [original, modified, current].map(Value::with_raw_expanded);
        let mut patch = merge_patch_diff(&original, &modified, DiffPart::Deletions);
        combine(&mut patch, merge_patch_diff(&current, &modified, DiffPart::Changes));
        return Ok(patch);
    };
    let place = PatchSchema::Struct(shape);
    let mut changes = strategic_diff(current, modified, place, DiffPart::Changes, false)?;
    let deletions = strategic_diff(original, modified, place, DiffPart::Deletions, false)?;
    merge_object(deletions, &mut changes, place, Mode::MergePatches)
}

/// Adds `changes` to a merge patch that only removes fields.
fn combine(patch: &mut Value, changes: Value) {
    if !patch.is_object() || !changes.is_object() {
        *patch = changes;
        return;
    }
    for (name, change) in changes.entries() {
        combine(patch.get_mut(name), change.clone());
    }
}

#[cfg(test)]
mod tests {
    use object::Lens;

    use super::*;
    use crate::{
        patch::{apply_merge_patch_text, apply_strategic_merge_patch, read, written},
        sample::{Sample, tree},
    };

    const ORIGINAL: &str = r#"{"metadata":{"labels":{"a":"1","b":"2"}},"spec":{"containers":[
        {"name":"x","image":"1","args":["p"]},{"name":"y","image":"1"}],"replicas":2}}"#;
    const MODIFIED: &str = r#"{"metadata":{"labels":{"a":"2"}},"spec":{"containers":[
        {"name":"z","image":"1"},{"name":"x","image":"2"}]}}"#;
    const CURRENT: &str = r#"{"metadata":{"labels":{"a":"1","b":"2","c":"3"}},"spec":{"containers":[
        {"name":"x","image":"1","args":["p"],"command":["q"]},{"name":"y","image":"1"}],"replicas":2}}"#;

    #[test]
    fn a_strategic_patch_merges_lists() {
        let [original, modified, current] = [ORIGINAL, MODIFIED, CURRENT].map(tree);
        let patch =
            create_three_way_patch(Some(Sample::SHAPE), &original, &modified, &current).unwrap();
        let expected = tree(
            r#"{"metadata":{"labels":{"a":"2","b":null}},"spec":{
            "$setElementOrder/containers":[{"name":"z"},{"name":"x"}],
            "containers":[{"name":"z","image":"1"},{"name":"x","image":"2","args":null},
                {"$patch":"delete","name":"y"}],
            "replicas":null}}"#,
        );
        assert_eq!(patch, expected);
        let result =
            apply_strategic_merge_patch(Sample::SHAPE, &current, &mut patch.clone()).unwrap();
        let expected = tree(
            r#"{"metadata":{"labels":{"a":"2","c":"3"}},"spec":{"containers":[
            {"name":"z","image":"1"},{"name":"x","image":"2","command":["q"]}]}}"#,
        );
        assert_eq!(result, expected);
    }

    #[test]
    fn a_merge_patch_replaces_them() {
        let [original, modified, current] = [ORIGINAL, MODIFIED, CURRENT].map(tree);
        let patch = create_three_way_patch(None, &original, &modified, &current).unwrap();
        let result = apply_merge_patch_text(&written(&current), &written(&patch));
        let result = read(&result.expect("an object")).expect("it was written a moment ago");
        let expected = tree(
            r#"{"metadata":{"labels":{"a":"2","c":"3"}},"spec":{"containers":[
            {"name":"z","image":"1"},{"name":"x","image":"2"}]}}"#,
        );
        assert_eq!(result, expected);
    }

    #[test]
    fn nothing_to_do_is_an_empty_patch() {
        let [original, current] = [ORIGINAL, CURRENT].map(tree);
        for (shape, current) in [(None, &original), (Some(Sample::SHAPE), &current)] {
            assert_eq!(
                create_three_way_patch(shape, &original, &original, current),
                Ok(Value::object())
            );
        }
    }
}
