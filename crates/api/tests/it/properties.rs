//! What must hold of any object of any kind.

use object::{
    Value, from_json, to_json,
    yaml::{from_yaml, to_kyaml, to_yaml},
};
use schema::{
    ResourceDefinition,
    apply::{self, FieldManagerRequest},
    patch,
    protobuf::{decode, encode},
};

use crate::generate::{Random, object, rounds};

fn each(few: u64, mut check: impl FnMut(&ResourceDefinition, &mut Random)) {
    for kind in api::builtin_resources() {
        for round in 0..rounds(few) {
            check(&kind, &mut Random::new(round + 1));
        }
    }
}

#[test]
fn what_is_written_is_read_back() {
    each(3, |kind, random| {
        let (name, before) = (kind.names.kind, object(kind, random));
        let json = from_json(&to_json(&before)).expect(name);
        assert_eq!(json, before, "{name}: JSON");
        let yaml = from_yaml(&to_yaml(&before)).expect(name);
        assert_eq!(yaml, before, "{name}: YAML\n{}", to_yaml(&before));
        let kyaml = from_yaml(&to_kyaml(&before)).expect(name);
        assert_eq!(kyaml, before, "{name}: KYAML\n{}", to_kyaml(&before));
        let mut message = decode(&kind.schema, &encode(&kind.schema, &before)).expect(name);
        message["apiVersion"] = kind.names.api_version().into();
        message["kind"] = name.into();
        kind.normalize(&mut message);
        assert_eq!(message, before, "{name}: protobuf");
    });
}

#[test]
fn a_fitting_object_stays_as_it_is() {
    each(2, |kind, random| {
        let before = object(kind, random);
        let (mut after, mut unknown) = (before.clone(), Vec::new());
        kind.coerce(&mut after, &mut unknown).expect(kind.names.kind);
        kind.normalize(&mut after);
        assert_eq!((after, unknown), (before, Vec::new()), "{}", kind.names.kind);
    });
}

#[test]
fn a_patch_leads_from_one_object_to_another() {
    each(3, |kind, random| {
        let (a, b) = (object(kind, random), object(kind, random));
        let wanted = patch::create_three_way_patch(None, &a, &b, &a).expect("always");
        let text = |value| String::from_utf8(to_json(value)).expect("JSON is text");
        let merged = patch::apply_merge_patch_text(&text(&a), &text(&wanted)).expect("an object");
        let mut merged = from_json(merged.as_bytes()).expect("it was written a moment ago");
        kind.normalize(&mut merged); // a `null` cannot be asked for
        assert_eq!(merged, b, "{}: merge", kind.names.kind);
    });
}

#[test]
fn a_strategic_patch_leads_from_one_object_to_another() {
    each(3, |kind, random| {
        let (a, mut b) = (object(kind, random), object(kind, random));
        let name = kind.names.kind;
        let wanted = patch::create_three_way_patch(Some(&kind.schema), &a, &b, &a)
            .unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let mut made = patch::apply_strategic_merge_patch(&kind.schema, &a, &mut wanted.clone())
            .unwrap_or_else(|error| panic!("{name}: {error:?}: {wanted:?}"));
        kind.normalize(&mut made);
        kind.normalize(&mut b);
        let again =
            patch::create_three_way_patch(Some(&kind.schema), &made, &b, &made).expect("as before");
        assert_eq!(again, Value::object(), "{name}: {wanted:?}");
    });
}

#[test]
fn to_apply_again_changes_nothing() {
    each(2, |kind, random| {
        let wanted = object(kind, random);
        let once = applied(kind, "a", None, &wanted).expect(kind.names.kind);
        let again = applied(kind, "a", Some(&once), &wanted).expect(kind.names.kind);
        assert_eq!(again, once, "{}", kind.names.kind);
    });
}

#[test]
fn the_order_of_appliers_of_different_fields_does_not_matter() {
    each(2, |kind, random| {
        let whole = object(kind, random);
        let (mut a, mut b) = (whole.clone(), whole.clone());
        // One has the metadata, the other all else.
        a.retain(|name, _| matches!(name, "apiVersion" | "kind" | "metadata"));
        b.remove("metadata");
        b["metadata"]["name"] = whole.get("metadata").get("name").clone();
        if whole.get("metadata").get("name").is_null() {
            b["metadata"].remove("name");
        }
        let both = |first: (&str, &Value), second: (&str, &Value)| {
            let one = applied(kind, first.0, None, first.1).expect(kind.names.kind);
            let mut both = applied(kind, second.0, Some(&one), second.1).expect(kind.names.kind);
            // When somebody last changed something does depend on the order.
            if let Value::List(books) = both["metadata"].get_mut("managedFields") {
                books.make_mut().iter_mut().for_each(|entry| entry.remove("time"));
                books.make_mut().sort_by_key(|entry| entry["manager"].as_str().map(str::to_owned));
            }
            both
        };
        let there = both(("a", &a), ("b", &b));
        let back = both(("b", &b), ("a", &a));
        assert_eq!(there, back, "{}", kind.names.kind);
    });
}

#[test]
fn damaged_texts_are_errors_at_worst() {
    each(2, |kind, random| {
        let before = object(kind, random);
        let forms = [
            to_json(&before),
            to_yaml(&before).into_bytes(),
            to_kyaml(&before).into_bytes(),
            encode(&kind.schema, &before),
        ];
        for (form, bytes) in forms.iter().enumerate() {
            for _ in 0..8 {
                let mut bytes = bytes.clone();
                damage(&mut bytes, random);
                let read = match form {
                    0 => from_json(&bytes).ok(),
                    3 => decode(&kind.schema, &bytes).ok(),
                    _ => std::str::from_utf8(&bytes).ok().and_then(|text| from_yaml(text).ok()),
                };
                if let Some(mut read) = read {
                    let _ = kind.coerce(&mut read, &mut Vec::new());
                }
            }
        }
    });
}

fn applied(
    kind: &ResourceDefinition,
    manager: &str,
    live: Option<&Value>,
    wanted: &Value,
) -> Result<Value, apply::ApplyError> {
    let api_version = kind.names.api_version();
    let write = FieldManagerRequest {
        schema: &kind.schema,
        api_version: &api_version,
        kind: kind.names.kind,
        manager,
        subresource: "",
        reset_fields: &[],
        now: "2024-01-02T03:04:05Z",
        converter: &apply::SingleVersion,
    };
    apply::apply(&write, live, wanted, false)
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes.truncate(at),
            1 => drop(bytes.remove(at)),
            2 => bytes[at] ^= 1 << random.below(8),
            _ => {
                let part = bytes[at..(at + random.below(9)).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
}
