//! CBOR bodies: a valid object, damaged in ways that only this encoding allows.

use serde_json::Value;

use super::{
    expand::{Nothing, expand},
    request::Body,
};
use crate::random::Random;

/// The CBOR self-describe tag, with which a body starts.
const MAGIC: &[u8] = b"\xd9\xd9\xf7";
/// Heads and items that no valid object contains: indefinite lengths, reserved values, sizes beyond the body, tags,
/// numbers of all widths.
const HOSTILE: &[&[u8]] = &[
    b"\x5f\x41a\x41b\xff",
    b"\x7f\x61a\x60\xff",
    b"\x7f\x7f\x61a\xff\xff",
    b"\x9f\xff",
    b"\xbf\x61a\x01\xff",
    b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xbb\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x7b\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xc0\x61x",
    b"\xc1\xfb\x7f\xf0\0\0\0\0\0\0",
    b"\xc2\x42\xff\xff",
    b"\xd8\x24\x45\xd9\xd9\xf7\xa0",
    b"\xf9\x7e\0",
    b"\xfb\xff\xf0\0\0\0\0\0\0",
    b"\xf7",
    b"\xf8\xff",
    b"\xfc",
    b"\xff",
    b"\x1c",
    b"\x62\xc3\x28",
    b"\x61\xff",
    b"\xa2\x61a\x01\x61a\x02",
    b"\xa1\x01\x02",
    b"\xa1\x41a\x01",
    b"",
];

/// The object in CBOR, damaged in half of the cases. `None` if it is nested too deep to be built here.
pub(crate) fn body(text: &str, random: &mut Random) -> Option<Body> {
    if text.contains("⟦deep") {
        return None; // nesting is generated below
    }
    let tree: Value = serde_json::from_slice(&expand(text, &Nothing)).ok()?;
    let mut bytes = MAGIC.to_vec();
    let mut left = if random.one_in(2) { Some(random.below(60)) } else { None };
    write(&tree, &mut bytes, &mut left, random);
    if random.one_in(20) {
        bytes.truncate(random.below(bytes.len()));
    }
    Some(Body::bytes(&bytes))
}

/// Writes a value; the value at which `left` is 0 is replaced by a hostile one.
fn write(value: &Value, out: &mut Vec<u8>, left: &mut Option<usize>, random: &mut Random) {
    if let Some(count) = left {
        if *count == 0 {
            *left = None;
            return damage(out, random);
        }
        *count -= 1;
    }
    match value {
        Value::Null => out.push(0xf6),
        Value::Bool(is) => out.push(0xf4 + u8::from(*is)),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => head(0, number, out),
            (_, Some(number)) => head(1, !number.cast_unsigned(), out),
            _ => {
                out.push(0xfb);
                out.extend(number.as_f64().unwrap_or_default().to_be_bytes());
            }
        },
        // strings are written as byte strings or text strings
        Value::String(text) => {
            head(if random.one_in(2) { 2 } else { 3 }, text.len() as u64, out);
            out.extend(text.as_bytes());
        }
        Value::Array(items) => {
            head(4, items.len() as u64, out);
            items.iter().for_each(|item| write(item, out, left, random));
        }
        Value::Object(fields) => {
            head(5, fields.len() as u64, out);
            for (name, value) in fields {
                head(2, name.len() as u64, out);
                out.extend(name.as_bytes());
                write(value, out, left, random);
            }
        }
    }
}

fn head(major: u8, size: u64, out: &mut Vec<u8>) {
    const EIGHT_BYTES_FOLLOW: u8 = 27;
    if let Ok(small @ 0..24) = u8::try_from(size) {
        out.push(major << 5 | small);
    } else {
        out.push(major << 5 | EIGHT_BYTES_FOLLOW);
        out.extend(size.to_be_bytes());
    }
}

fn damage(out: &mut Vec<u8>, random: &mut Random) {
    let depth = [60, 250, 4000, 100_000][random.below(4)];
    match random.below(8) {
        0 => out.extend(std::iter::repeat_n(0x81, depth).chain([0])),
        1 => out.extend(b"\xa1\x41a".repeat(depth).into_iter().chain([0])),
        2 => out.extend(std::iter::repeat_n(0xc6, depth).chain([0])),
        3 => out.extend(b"\xbf\x41a".repeat(depth)),
        _ => out.extend(random.of(HOSTILE)),
    }
}

#[test]
fn an_object_is_written_as_the_encoding_has_it() {
    let tree = serde_json::json!({"a": [1, -2, null, true, "x"], "b": 300});
    let mut out = Vec::new();
    // whether a string is written as bytes is random
    write(&tree, &mut out, &mut None, &mut Random::new(1));
    let text = if out.contains(&0x61) { b"\x61x" } else { b"\x41x" };
    let expected =
        [b"\xa2\x41a\x85\x01\x21\xf6\xf5".as_slice(), text, b"\x41b\x1b\0\0\0\0\0\0\x01\x2c"];
    assert_eq!(out, expected.concat());
}
