//! Objects with every field set, as upstream encodes them: `tests/data`.

use std::{fs, path::PathBuf};

use object::{DeleteOptions, Lens, SchemaRef, Status, StructSchema, Value, from_json};
use schema::protobuf::{decode, decode_envelope, encode, encode_envelope};

#[test]
fn decodes_to_the_same_tree_as_json() {
    for fixture in fixtures() {
        let opened = decode_envelope(&fixture.message).expect(&fixture.name);
        let mut tree = decode(&fixture.shape, opened.message).expect(&fixture.name);
        tree["apiVersion"] = opened.api_version.into();
        tree["kind"] = opened.kind.into();
        assert_eq!(tree, fixture.json, "{}", fixture.name);
    }
}

#[test]
fn encodes_to_the_same_bytes() {
    for fixture in fixtures() {
        let message = encode(&fixture.shape, &fixture.json);
        let text = |name| fixture.json.get(name).as_str().expect("every object says what it is");
        let sealed = encode_envelope(text("apiVersion"), text("kind"), &message);
        assert!(sealed == fixture.message, "{}", fixture.name);
    }
}

#[test]
fn damaged_messages_are_errors_at_worst() {
    let fixture = fixtures().into_iter().find(|fixture| fixture.name.contains("Service"));
    let fixture = fixture.expect("kept in tests/data");
    let read = |bytes: &[u8]| {
        decode_envelope(bytes).and_then(|opened| decode(&fixture.shape, opened.message)).is_ok()
    };
    let cut = (0..fixture.message.len()).filter(|at| read(&fixture.message[..*at])).count();
    assert!(cut < 20, "{cut} of the cut messages were taken for whole ones");
    for at in 0..fixture.message.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = fixture.message.clone();
            bytes[at] ^= flip;
            read(&bytes);
        }
    }
}

struct Fixture {
    name: String,
    shape: SchemaRef<StructSchema>,
    json: Value,
    message: Vec<u8>,
}

fn fixtures() -> Vec<Fixture> {
    let files =
        fs::read_dir("tests/data").expect("part of the sources").map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|end| end == "pb")).map(fixture).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "an iterator gives it")]
fn fixture(file: PathBuf) -> Fixture {
    let text = fs::read(file.with_extension("json")).expect("beside every message");
    let mut json = from_json(&text).expect("valid JSON");
    let shape = shape(&json);
    let mut unknown = Vec::new();
    schema::coerce_to_schema(&shape, &mut json, &mut unknown).expect("fits its shape");
    assert!(unknown.is_empty(), "{}: {unknown:?}", file.display());
    let message = fs::read(&file).expect("just listed");
    Fixture { name: file.display().to_string(), shape, json, message }
}

/// The shape of what an object says that it is.
fn shape(object: &Value) -> SchemaRef<StructSchema> {
    let is = |name: &str| object["kind"].as_str() == Some(name);
    if is("Status") {
        return SchemaRef::Static(Status::SHAPE);
    } else if is("DeleteOptions") {
        return SchemaRef::Static(DeleteOptions::SHAPE);
    }
    let known = api::builtin_resources().into_iter().find(|definition| {
        is(definition.names.kind)
            && object["apiVersion"].as_str() == Some(&definition.names.api_version())
    });
    known.expect("a built-in kind").schema
}
