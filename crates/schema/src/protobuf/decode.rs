//! From message to tree.

use object::{
    Bytes, Duration, MicroTime, Plain, Struct, Text, Time, Type, Value, Word, from_json, raw_json,
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
    Decoder::default().object(shape, message, DEPTH)
}

/// What has been read of nodes that are not complete: a node is made when it is known how large
/// it must be.
#[derive(Default)]
struct Decoder {
    fields: Vec<(Word, Value)>,
    items: Vec<Value>,
}

impl Decoder {
    fn object(&mut self, shape: &Struct, message: &[u8], depth: usize) -> Result<Value, Malformed> {
        let from = self.fields.len();
        self.read(shape, message, from, depth)?;
        Ok(Value::from_fields(&mut self.fields, from))
    }

    /// Reads the fields of the object whose first stands at `from`.
    fn read(
        &mut self,
        shape: &Struct,
        mut message: &[u8],
        from: usize,
        depth: usize,
    ) -> Result<(), Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed)?;
        let mut last = 0;
        while !message.is_empty() {
            let (tag, wire) = Wire::take(&mut message)?;
            let Some(field) = shape.tagged(tag) else { continue };
            let value = match (&*field.ty, wire) {
                (Type::Object(inner), Wire::Bytes(bytes)) if field.rules.inline => {
                    self.read(inner, bytes, from, depth)?;
                    continue;
                }
                (Type::List(item), wire) => {
                    let items = self.items.len();
                    let mut next = Some(wire);
                    while let Some(wire) = next {
                        let value = self.value(item, wire, depth)?;
                        self.items.push(value);
                        next = same(tag, &mut message);
                    }
                    Value::from_items(&mut self.items, items)
                }
                (Type::Map(item), wire) => {
                    let (mut entries, mut next) = (Vec::new(), Some(wire));
                    while let Some(wire) = next {
                        let Wire::Bytes(bytes) = wire else { return Err(Malformed) };
                        entries.push(self.entry(item, bytes, depth)?);
                        next = same(tag, &mut message);
                    }
                    Value::from_entries(entries)
                }
                (Type::Any, Wire::Bytes(bytes)) if field.rules.raw => match part(bytes, 1)? {
                    "" => Value::Null,
                    json => raw_json(json.as_bytes()).map_err(|_| Malformed)?,
                },
                (ty, wire) => self.value(ty, wire, depth)?,
            };
            let (Some(word), false) = (field.word, field.omits(&value)) else { continue };
            // Numbers go up, unless somebody is up to something.
            let known = if tag <= last { &mut self.fields[from..] } else { &mut [] };
            match known.iter_mut().find(|field| field.0 == word) {
                Some(field) => add(&mut field.1, value),
                None => self.fields.push((word, value)),
            }
            last = last.max(tag);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        item: &Type,
        mut bytes: &[u8],
        depth: usize,
    ) -> Result<(Text, Value), Malformed> {
        let (mut key, mut content) = (Text::default(), Value::Null);
        while !bytes.is_empty() {
            match Wire::take(&mut bytes)? {
                (1, Wire::Bytes(bytes)) => key = text(bytes)?.into(),
                (2, wire) => content = self.value(item, wire, depth)?,
                _ => {}
            }
        }
        if content.is_null() {
            content = self.value(item, Wire::Bytes(&[]), depth).unwrap_or_default();
        }
        Ok((key, content))
    }

    fn value(&mut self, ty: &Type, wire: Wire, depth: usize) -> Result<Value, Malformed> {
        match (ty, wire) {
            (Type::Bool, Wire::Number(n)) => Ok(Value::Bool(n != 0)),
            (Type::Int32 | Type::Int64, Wire::Number(n)) => Ok(Value::Int(n.cast_signed())),
            (Type::UInt64, Wire::Number(n)) => Ok(n.into()),
            (Type::Float, Wire::Double(bits)) => Ok(Value::Float(f64::from_bits(bits))),
            (Type::Text | Type::Enum(_), Wire::Bytes(bytes)) => Ok(text(bytes)?.into()),
            (Type::Bytes, Wire::Bytes(bytes)) => Ok(Bytes::text(bytes).into()),
            (Type::Object(shape), Wire::Bytes(bytes)) => self.object(shape, bytes, depth),
            (Type::Quantity, Wire::Bytes(bytes)) => Ok(part(bytes, 1)?.into()),
            (Type::Any, Wire::Bytes(bytes)) => match part(bytes, 1)? {
                "" => Ok(Value::Null),
                json => from_json(json.as_bytes()).map_err(|_| Malformed),
            },
            (Type::Time, Wire::Bytes(bytes)) => {
                Ok(moment(bytes)?.map_or(Value::Null, |(seconds, _)| Time::text(seconds).into()))
            }
            (Type::MicroTime, Wire::Bytes(bytes)) => {
                let micros =
                    |(s, n): (i64, i64)| s.saturating_mul(1_000_000).saturating_add(n / 1000);
                Ok(moment(bytes)?.map_or(Value::Null, |it| MicroTime::text(micros(it)).into()))
            }
            (Type::Duration, Wire::Bytes(bytes)) => {
                let nanos = numbers(bytes)?[1].cast_signed();
                Ok(Duration::text(nanos).into())
            }
            (Type::IntOrString, Wire::Bytes(bytes)) => match numbers(bytes)? {
                [_, 1, _] => Ok(part(bytes, 3)?.into()),
                [_, _, n] => Ok(Value::Int(n.cast_signed())),
            },
            // A list within a map or a list is a message of its own.
            (Type::List(item), Wire::Bytes(mut bytes)) => {
                let depth = depth.checked_sub(1).ok_or(Malformed)?;
                let mut items = Vec::new();
                while !bytes.is_empty() {
                    if let (1, wire) = Wire::take(&mut bytes)? {
                        items.push(self.value(item, wire, depth)?);
                    }
                }
                Ok(items.into_iter().collect())
            }
            (Type::Map(item), Wire::Bytes(mut bytes)) => {
                let depth = depth.checked_sub(1).ok_or(Malformed)?;
                let mut entries = Vec::new();
                while !bytes.is_empty() {
                    if let (1, Wire::Bytes(bytes)) = Wire::take(&mut bytes)? {
                        entries.push(self.entry(item, bytes, depth)?);
                    }
                }
                Ok(Value::from_entries(entries))
            }
            (Type::Either(shape, plain), Wire::Bytes(bytes)) => {
                self.either(shape, *plain, bytes, depth)
            }
            _ => Err(Malformed),
        }
    }

    /// A struct and what may stand in its place are two fields of one message.
    fn either(
        &mut self,
        shape: &Struct,
        plain: Plain,
        mut bytes: &[u8],
        depth: usize,
    ) -> Result<Value, Malformed> {
        let mut found = match plain {
            Plain::Bool => Value::Bool(false),
            Plain::List | Plain::Texts => Value::Null,
        };
        let mut items = Vec::new();
        while !bytes.is_empty() {
            match (plain, Wire::take(&mut bytes)?) {
                (Plain::Bool, (1, Wire::Number(n))) if !found.is_object() => {
                    found = (n != 0).into();
                }
                (Plain::Bool, (2, Wire::Bytes(bytes)))
                | (Plain::List | Plain::Texts, (1, Wire::Bytes(bytes))) => {
                    found = self.object(shape, bytes, depth)?;
                }
                (Plain::List, (2, Wire::Bytes(bytes))) => {
                    items.push(self.object(shape, bytes, depth)?);
                }
                (Plain::Texts, (2, Wire::Bytes(bytes))) => items.push(text(bytes)?.into()),
                _ => {}
            }
        }
        Ok(if items.is_empty() { found } else { items.into_iter().collect() })
    }
}

/// The next field of the message, if it has this number.
fn same<'a>(tag: u64, message: &mut &'a [u8]) -> Option<Wire<'a>> {
    let mut rest = *message;
    let (found, wire) = Wire::take(&mut rest).ok()?;
    (found == tag).then(|| {
        *message = rest;
        wire
    })
}

/// A field that comes again: lists and maps grow, of all else the last counts.
fn add(known: &mut Value, more: Value) {
    match (known, more) {
        (Value::List(items), Value::List(more)) => items.extend(more),
        (known, more) if known.is_object() && more.is_object() => {
            more.entries().for_each(|(name, value)| *known.get_mut(name) = value.clone());
        }
        (known, more) => *known = more,
    }
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
