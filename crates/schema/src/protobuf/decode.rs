//! From message to tree.

use object::{
    Bytes, Duration, Field, MicroTime, Plain, Struct, Text, Time, Type, Value, from_json,
};

use super::{
    MAGIC,
    wire::{Malformed, Wire},
};

/// Deeper than any object nests; deeper input is hostile.
const DEPTH: usize = 100;

/// The content of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub message: &'a [u8],
}

/// Takes the envelope off.
pub fn open(bytes: &[u8]) -> Result<Opened<'_>, Malformed> {
    let mut rest = bytes.strip_prefix(MAGIC).ok_or(Malformed)?;
    let mut opened = Opened { api_version: "", kind: "", message: &[] };
    while !rest.is_empty() {
        match Wire::take(&mut rest)? {
            (1, Wire::Bytes(mut names)) => {
                while !names.is_empty() {
                    match Wire::take(&mut names)? {
                        (1, Wire::Bytes(name)) => opened.api_version = text(name)?,
                        (2, Wire::Bytes(name)) => opened.kind = text(name)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(message)) => opened.message = message,
            _ => {}
        }
    }
    Ok(opened)
}

/// Decodes an object. Fields with an unknown number are skipped.
pub fn decode(shape: &Struct, message: &[u8]) -> Result<Value, Malformed> {
    let mut object = Value::object();
    fields(shape, message, &mut object, DEPTH)?;
    Ok(object)
}

fn fields(
    shape: &Struct,
    mut message: &[u8],
    object: &mut Value,
    depth: usize,
) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed)?;
    while !message.is_empty() {
        let (tag, wire) = Wire::take(&mut message)?;
        let is = |field: &&Field| u64::from(field.rules.tag) == tag;
        let Some(field) = shape.fields.iter().find(is) else { continue };
        match (&*field.ty, wire) {
            (Type::Object(inner), Wire::Bytes(bytes)) if field.rules.inline => {
                fields(inner, bytes, object, depth)?;
            }
            (ty, wire) => store(field, ty, wire, object, depth)?,
        }
    }
    Ok(())
}

fn store(
    field: &Field,
    ty: &Type,
    wire: Wire,
    object: &mut Value,
    depth: usize,
) -> Result<(), Malformed> {
    match (ty, wire) {
        (Type::List(item), wire) => {
            let item = value(item, wire, depth)?;
            append(&mut object[&*field.name], item)
        }
        (Type::Map(item), Wire::Bytes(bytes)) => {
            let (key, content) = entry(item, bytes, depth)?;
            object[&*field.name][key.as_str()] = content;
            Ok(())
        }
        (ty, wire) => {
            let value = value(ty, wire, depth)?;
            if !field.omits(&value) {
                object[&*field.name] = value;
            }
            Ok(())
        }
    }
}

fn append(slot: &mut Value, item: Value) -> Result<(), Malformed> {
    if slot.is_null() {
        *slot = Value::List([].into());
    }
    let Value::List(items) = slot else { return Err(Malformed) };
    items.push(item);
    Ok(())
}

fn entry(item: &Type, mut bytes: &[u8], depth: usize) -> Result<(Text, Value), Malformed> {
    let (mut key, mut content) = (Text::default(), Value::Null);
    while !bytes.is_empty() {
        match Wire::take(&mut bytes)? {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?.into(),
            (2, wire) => content = value(item, wire, depth)?,
            _ => {}
        }
    }
    if content.is_null() {
        content = value(item, Wire::Bytes(&[]), depth).unwrap_or_default();
    }
    Ok((key, content))
}

fn value(ty: &Type, wire: Wire, depth: usize) -> Result<Value, Malformed> {
    match (ty, wire) {
        (Type::Bool, Wire::Number(n)) => Ok(Value::Bool(n != 0)),
        (Type::Int32 | Type::Int64, Wire::Number(n)) => Ok(Value::Int(n.cast_signed())),
        (Type::UInt64, Wire::Number(n)) => Ok(n.into()),
        (Type::Float, Wire::Double(bits)) => Ok(Value::Float(f64::from_bits(bits))),
        (Type::Text | Type::Enum(_), Wire::Bytes(bytes)) => Ok(text(bytes)?.into()),
        (Type::Bytes, Wire::Bytes(bytes)) => Ok(Bytes::text(bytes).into()),
        (Type::Object(shape), Wire::Bytes(bytes)) => {
            let mut object = Value::object();
            fields(shape, bytes, &mut object, depth)?;
            Ok(object)
        }
        (Type::Quantity, Wire::Bytes(bytes)) => Ok(part(bytes, 1)?.into()),
        (Type::Any, Wire::Bytes(bytes)) => match part(bytes, 1)? {
            "" => Ok(Value::Null),
            json => from_json(json.as_bytes()).map_err(|_| Malformed),
        },
        (Type::Time, Wire::Bytes(bytes)) => {
            Ok(moment(bytes)?.map_or(Value::Null, |(seconds, _)| Time::text(seconds).into()))
        }
        (Type::MicroTime, Wire::Bytes(bytes)) => {
            let micros = |(s, n): (i64, i64)| s.saturating_mul(1_000_000).saturating_add(n / 1000);
            Ok(moment(bytes)?.map_or(Value::Null, |parts| MicroTime::text(micros(parts)).into()))
        }
        (Type::Duration, Wire::Bytes(bytes)) => {
            let nanos = numbers(bytes)?[1].cast_signed();
            Ok(Duration::text(nanos).into())
        }
        (Type::IntOrString, Wire::Bytes(bytes)) => match numbers(bytes)? {
            [_, 1, _] => Ok(part(bytes, 3)?.into()),
            [_, _, n] => Ok(Value::Int(n.cast_signed())),
        },
        (Type::List(item), Wire::Bytes(mut bytes)) => {
            let depth = depth.checked_sub(1).ok_or(Malformed)?;
            let mut items = Value::List([].into());
            while !bytes.is_empty() {
                if let (1, wire) = Wire::take(&mut bytes)? {
                    append(&mut items, value(item, wire, depth)?)?;
                }
            }
            Ok(items)
        }
        (Type::Map(item), Wire::Bytes(mut bytes)) => {
            let depth = depth.checked_sub(1).ok_or(Malformed)?;
            let mut map = Value::object();
            while !bytes.is_empty() {
                if let (1, Wire::Bytes(bytes)) = Wire::take(&mut bytes)? {
                    let (key, content) = entry(item, bytes, depth)?;
                    map[key.as_str()] = content;
                }
            }
            Ok(map)
        }
        (Type::Either(shape, plain), Wire::Bytes(bytes)) => either(shape, *plain, bytes, depth),
        _ => Err(Malformed),
    }
}

/// A struct and what may stand in its place are two fields of one message.
fn either(
    shape: &Struct,
    plain: Plain,
    mut bytes: &[u8],
    depth: usize,
) -> Result<Value, Malformed> {
    let mut found = match plain {
        Plain::Bool => Value::Bool(false),
        Plain::List | Plain::Texts => Value::Null,
    };
    let object = |bytes: &[u8]| {
        let mut object = Value::object();
        fields(shape, bytes, &mut object, depth).map(|()| object)
    };
    while !bytes.is_empty() {
        match (plain, Wire::take(&mut bytes)?) {
            (Plain::Bool, (1, Wire::Number(n))) if !found.is_object() => found = (n != 0).into(),
            (Plain::Bool, (2, Wire::Bytes(bytes)))
            | (Plain::List | Plain::Texts, (1, Wire::Bytes(bytes))) => found = object(bytes)?,
            (Plain::List, (2, Wire::Bytes(bytes))) => append(&mut found, object(bytes)?)?,
            (Plain::Texts, (2, Wire::Bytes(bytes))) => append(&mut found, text(bytes)?.into())?,
            _ => {}
        }
    }
    Ok(found)
}

/// Seconds and nanoseconds; an empty message is no moment.
fn moment(bytes: &[u8]) -> Result<Option<(i64, i64)>, Malformed> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let [_, seconds, nanos] = numbers(bytes)?;
    Ok(Some((seconds.cast_signed(), nanos.cast_signed())))
}

/// The numbers that fields 1 and 2 hold, at these places.
fn numbers(mut bytes: &[u8]) -> Result<[u64; 3], Malformed> {
    let mut found = [0; 3];
    while !bytes.is_empty() {
        if let (tag @ 1..=2, Wire::Number(n)) = Wire::take(&mut bytes)? {
            found[usize::try_from(tag).expect("1 or 2")] = n;
        }
    }
    Ok(found)
}

/// The text that field `tag` holds.
fn part(mut bytes: &[u8], tag: u64) -> Result<&str, Malformed> {
    let mut found = "";
    while !bytes.is_empty() {
        match Wire::take(&mut bytes)? {
            (n, Wire::Bytes(bytes)) if n == tag => found = text(bytes)?,
            _ => {}
        }
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed)
}
