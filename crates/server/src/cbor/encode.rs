//! CBOR encoder. Output is deterministic: map keys are sorted, and numbers take their shortest
//! form.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use object::{StructSchema, Type, Value};

use super::{MAGIC, later, major};

/// Encodes a document. The schema determines which strings are bytes.
pub(crate) fn encode_document(shape: Option<&StructSchema>, tree: &Value) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    object(shape, tree, &mut out);
    out
}

/// Encodes a list of objects of one schema.
pub(crate) fn list(
    shape: Option<&StructSchema>,
    (api_version, kind): (&str, &str),
    meta: &Value,
    items: &[Value],
) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    head(major::MAP, 4, &mut out);
    pair("kind", kind, &mut out);
    text("items", &mut out);
    head(major::ARRAY, items.len() as u64, &mut out);
    items.iter().for_each(|item| object(shape, item, &mut out));
    text("metadata", &mut out);
    object(None, meta, &mut out);
    pair("apiVersion", api_version, &mut out);
    out
}

/// Encodes a watch event around an already encoded object.
pub(crate) fn event(ty: &str, sealed: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    head(major::MAP, 2, out);
    pair("type", ty, out);
    text("object", out);
    out.extend_from_slice(sealed);
}

fn pair(name: &str, value: &str, out: &mut Vec<u8>) {
    text(name, out);
    text(value, out);
}

fn object(shape: Option<&StructSchema>, tree: &Value, out: &mut Vec<u8>) {
    entries(tree, out, |name, value, out| {
        let ty = shape.and_then(|shape| shape.field(name)).map(|field| &*field.ty);
        any(ty, value, out);
    });
}

fn any(ty: Option<&Type>, value: &Value, out: &mut Vec<u8>) {
    match (value, ty) {
        (Value::Null, _) => out.push(0xf6),
        (Value::Bool(false), _) => out.push(0xf4),
        (Value::Bool(true), _) => out.push(0xf5),
        (Value::Int(_) | Value::UInt(_), Some(Type::Float)) => {
            float(value.as_f64().unwrap_or_default(), out);
        }
        (Value::Int(n), _) if *n < 0 => head(major::NEGATIVE, (!n).cast_unsigned(), out),
        (Value::Int(n), _) => head(major::UNSIGNED, n.cast_unsigned(), out),
        (Value::UInt(n), _) => head(major::UNSIGNED, *n, out),
        (Value::Float(n), _) => float(*n, out),
        (Value::Text(base64), Some(Type::Bytes)) => match STANDARD.decode(base64.as_bytes()) {
            Ok(bytes) => {
                head(major::TAG, later::BASE64, out);
                string(&bytes, out);
            }
            Err(_) => text(base64, out), // not valid base64: the reader reports the error
        },
        (Value::Text(value), _) => text(value, out),
        (Value::List(items), ty) => {
            let ty = match ty {
                Some(Type::List(ty)) => Some(&**ty),
                _ => None,
            };
            head(major::ARRAY, items.len() as u64, out);
            items.iter().for_each(|item| any(ty, item, out));
        }
        (Value::Object(_) | Value::Map(_), Some(Type::Map(ty))) => {
            entries(value, out, |_, value, out| any(Some(ty), value, out));
        }
        (
            Value::Object(_) | Value::Map(_),
            Some(Type::Object(shape) | Type::StructOr(shape, _)),
        ) => {
            object(Some(shape), value, out);
        }
        (Value::Object(_) | Value::Map(_), _) => object(None, value, out),
        (Value::Raw(_), _) => any(None, &value.with_raw_expanded(), out),
    }
}

/// Encodes a map with its keys sorted by length, then by bytes.
fn entries(tree: &Value, out: &mut Vec<u8>, mut each: impl FnMut(&str, &Value, &mut Vec<u8>)) {
    let mut sorted: Vec<(&str, &Value)> = tree.entries().collect();
    sorted.sort_unstable_by_key(|(name, _)| (name.len(), *name));
    head(major::MAP, sorted.len() as u64, out);
    for (name, value) in sorted {
        text(name, out);
        each(name, value, out);
    }
}

fn text(text: &str, out: &mut Vec<u8>) {
    string(text.as_bytes(), out);
}

fn string(bytes: &[u8], out: &mut Vec<u8>) {
    head(major::BYTES, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes the head of an item, with its number in as few bytes as possible.
fn head(major: u8, n: u64, out: &mut Vec<u8>) {
    let first = major << 5;
    let bytes = n.to_be_bytes();
    match n {
        0..=23 => out.push(first | bytes[7]),
        24..=0xff => out.extend_from_slice(&[first | 0x18, bytes[7]]),
        0x100..=0xffff => {
            out.push(first | 0x19);
            out.extend_from_slice(&bytes[6..]);
        }
        0x1_0000..=0xffff_ffff => {
            out.push(first | 0x1a);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(first | 0x1b);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Encodes a floating-point number in the fewest bytes that keep its exact value.
fn float(n: f64, out: &mut Vec<u8>) {
    #[expect(clippy::cast_possible_truncation, reason = "compared with what it was")]
    let single = n as f32;
    if f64::from(single).to_bits() != n.to_bits() {
        out.push(0xfb);
        out.extend_from_slice(&n.to_be_bytes());
    } else if let Some(half) = half(single) {
        out.push(0xf9);
        out.extend_from_slice(&half.to_be_bytes());
    } else {
        out.push(0xfa);
        out.extend_from_slice(&single.to_be_bytes());
    }
}

/// The number as a half-precision float, if that loses nothing.
fn half(n: f32) -> Option<u16> {
    let bits = n.to_bits();
    let sign = u16::try_from(bits >> 16 & 0x8000).ok()?;
    let exponent = i32::try_from(bits >> 23 & 0xff).ok()? - 127;
    let mantissa = bits & 0x7f_ffff;
    if n == 0.0 {
        return Some(sign);
    }
    match exponent {
        -14..=15 if mantissa.trailing_zeros() >= 13 => {
            let biased = u16::try_from(exponent + 15).ok()?;
            Some(sign | biased << 10 | u16::try_from(mantissa >> 13).ok()?)
        }
        -24..=-15 => {
            // Subnormal half-precision numbers have no implicit leading bit.
            let shift = u32::try_from(-1 - exponent).ok()?;
            let whole = mantissa | 0x80_0000;
            let lost = whole & ((1 << shift) - 1) != 0;
            (!lost).then(|| u16::try_from(whole >> shift).ok()).flatten().map(|low| sign | low)
        }
        _ => None,
    }
}
