//! Protobuf bodies: a valid message that is damaged in its encoding, where no schema applies.

use object::from_json;
use schema::{ResourceDefinition, protobuf};

use super::expand::{Nothing, expand};
use crate::random::Random;

const HOSTILE: &[&[u8]] = &[
    b"",
    b"\xff\xfe",
    b"a\0b",
    b"\xc3",
    b"\xed\xa0\x80",
    b"a\"b",
    b"{\"f:a\":",
    b"../..",
    b"\xf4\x90\x80\x80",
];

/// The object as a protobuf message in its envelope. `None` if it cannot be encoded.
pub(crate) fn message(
    kind: &ResourceDefinition,
    text: &str,
    random: &mut Random,
) -> Option<Vec<u8>> {
    if text.contains("⟦deep") {
        return None; // nesting is generated below, in the encoding
    }
    let mut tree = from_json(&expand(text, &Nothing)).ok()?;
    kind.coerce(&mut tree, &mut Vec::new()).ok()?;
    let mut message = protobuf::encode(&kind.schema, &tree);
    for _ in 0..random.below(3) {
        message = damage(&message, random, 0);
    }
    let version = if random.one_in(20) { "a\"b".into() } else { kind.names.api_version() };
    Some(protobuf::encode_envelope(&version, kind.names.kind, &message))
}

/// A field of a message: its number, its wire type, and its position.
struct Piece {
    tag: u64,
    wire: u64,
    /// Start of the field, with its key.
    start: usize,
    /// Start of the content of a length-delimited field.
    content: usize,
    end: usize,
}

fn damage(message: &[u8], random: &mut Random, depth: usize) -> Vec<u8> {
    let pieces = pieces(message);
    if pieces.is_empty() {
        return random.of(HOSTILE).to_vec();
    }
    let piece = &pieces[random.below(pieces.len())];
    let inner = &message[piece.content..piece.end];
    let replaced = match piece.wire {
        // recurse, if it is a message itself
        2 if depth < 12 && !random.one_in(4) && !self::pieces(inner).is_empty() => {
            delimited(piece.tag, &damage(inner, random, depth + 1))
        }
        2 => match random.below(8) {
            0 => nested(piece.tag, inner, [50, 200, 3000, 20_000][random.below(4)]),
            1 => [key(piece.tag, 2), varint(u64::MAX >> random.below(40)), inner.to_vec()].concat(),
            2 => delimited(piece.tag, &br#"{"f:a":"#.repeat([100, 700, 5000][random.below(3)])),
            3 => {
                let depth = [100, 700, 5000, 20_000][random.below(4)];
                let deep =
                    [br#"{"f:a":"#.repeat(depth), b"{}".to_vec(), b"}".repeat(depth)].concat();
                delimited(piece.tag, &deep)
            }
            4 => delimited(piece.tag, &b"\xc3\xa9".repeat(random.below(5000))),
            _ => delimited(piece.tag, random.of(HOSTILE)),
        },
        0 => {
            let values = [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 31, (1 << 31) - 1, 1 << 53];
            [key(piece.tag, 0), varint(values[random.below(values.len())])].concat()
        }
        _ => vec![0xff; random.below(12)],
    };
    match random.below(10) {
        // duplicated, with another wire type, or removed
        0 => [message, &message[piece.start..piece.end]].concat(),
        1 => [
            &message[..piece.start],
            &key(piece.tag, u64::try_from(random.below(8)).unwrap_or_default()),
            &message[piece.start + 1..],
        ]
        .concat(),
        2 => [&message[..piece.start], &message[piece.end..]].concat(),
        3 => message[..piece.content].to_vec(),
        _ => [&message[..piece.start], &replaced, &message[piece.end..]].concat(),
    }
}

/// Number and content of the length-delimited fields of a message.
pub(crate) fn delimited_fields(message: &[u8]) -> Vec<(u64, &[u8])> {
    let fields = pieces(message).into_iter().filter(|piece| piece.wire == 2);
    fields.map(|piece| (piece.tag, &message[piece.content..piece.end])).collect()
}

/// The fields of a message; empty if the bytes are not a message.
fn pieces(message: &[u8]) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < message.len() {
        let start = at;
        let Some(key) = read(message, &mut at) else { return Vec::new() };
        let (tag, wire) = (key >> 3, key & 7);
        let mut content = at;
        match wire {
            0 => drop(read(message, &mut at)),
            1 => at += 8,
            5 => at += 4,
            2 => {
                let Some(size) = read(message, &mut at).and_then(|size| usize::try_from(size).ok())
                else {
                    return Vec::new();
                };
                content = at;
                at = at.saturating_add(size);
            }
            _ => return Vec::new(),
        }
        if at > message.len() || tag == 0 {
            return Vec::new();
        }
        found.push(Piece { tag, wire, start, content, end: at });
    }
    found
}

fn read(message: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *message.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or_default());
    out
}

fn key(tag: u64, wire: u64) -> Vec<u8> {
    varint(tag << 3 | wire)
}

fn delimited(tag: u64, content: &[u8]) -> Vec<u8> {
    [key(tag, 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// The content nested in this many messages, each the same field of the next.
fn nested(tag: u64, content: &[u8], depth: usize) -> Vec<u8> {
    let mut heads = Vec::new();
    let mut size = content.len();
    for _ in 0..depth {
        let head = [key(tag, 2), varint(size as u64)].concat();
        size += head.len();
        heads.push(head);
    }
    heads.iter().rev().flatten().copied().chain(content.iter().copied()).collect()
}

#[test]
fn a_nested_message_is_one() {
    let deep = nested(3, b"\x08\x01", 300);
    let mut inner: &[u8] = &deep;
    for _ in 0..300 {
        let found = pieces(inner);
        assert_eq!((found.len(), found[0].tag), (1, 3));
        inner = &inner[found[0].content..];
    }
    assert_eq!(inner, b"\x08\x01");
}
