//! Decodes a protobuf message to a value.

use std::mem;

use object::{
    Bytes, Duration, FieldId, Fields, Items, MicroTime, ProtoEncoding, StructAlternative,
    StructSchema, Text, Time, Type, Value, depth::MAX_DOCUMENT, from_json_raw, from_json_within,
};

use super::{
    MAGIC,
    wire::{BYTES, DecodeError, WireValue},
};

/// The decoded envelope (`runtime.Unknown`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub message: &'a [u8],
}

/// Decodes the envelope.
pub fn decode_envelope(bytes: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    let mut rest = bytes.strip_prefix(MAGIC).ok_or(DecodeError)?;
    let mut opened = Envelope { api_version: "", kind: "", message: &[] };
    while !rest.is_empty() {
        match WireValue::decode_field(&mut rest)? {
            (1, WireValue::Bytes(mut names)) => {
                while !names.is_empty() {
                    match WireValue::decode_field(&mut names)? {
                        (1, WireValue::Bytes(name)) => opened.api_version = text(name)?,
                        (2, WireValue::Bytes(name)) => opened.kind = text(name)?,
                        _ => {}
                    }
                }
            }
            (2, WireValue::Bytes(message)) => opened.message = message,
            _ => {}
        }
    }
    Ok(opened)
}

/// Decodes an object. Fields with unknown numbers are skipped.
pub fn decode(shape: &StructSchema, message: &[u8]) -> Result<Value, DecodeError> {
    Decoder { message, validated_text: "" }.object(shape, message, MAX_DOCUMENT).map(Value::Object)
}

/// Decodes the values of one message.
struct Decoder<'a> {
    message: &'a [u8],
    /// A part of the message that is known to be UTF-8.
    validated_text: &'a str,
}

impl<'a> Decoder<'a> {
    fn object(
        &mut self,
        shape: &StructSchema,
        message: &'a [u8],
        depth: usize,
    ) -> Result<Fields, DecodeError> {
        let mut fields =
            Vec::with_capacity(shape.index().map_or(0, |index| index.field_count().min(16)));
        self.read(shape, message, &mut fields, depth)?;
        Ok(Value::sort_fields(fields))
    }

    /// Decodes the fields of an object.
    fn read(
        &mut self,
        shape: &StructSchema,
        mut message: &'a [u8],
        fields: &mut Vec<(FieldId, Value)>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        let depth = depth.checked_sub(1).ok_or(DecodeError)?;
        let Some(index) = shape.index() else { return Ok(()) }; // a CRD has no field numbers
        let (mut last, mut repeated) = (0, false);
        while !message.is_empty() {
            let (tag, wire) = WireValue::decode_field(&mut message)?;
            let Some(slot) = index.by_tag(tag) else { continue };
            let Some(word) = slot.word else {
                let ProtoEncoding::Object(inner) = slot.encoding else { return Err(DecodeError) };
                self.read(inner, wire.bytes()?, fields, depth)?;
                continue;
            };
            // Most fields of a message are empty, because they were not set.
            match slot.encoding {
                ProtoEncoding::Text => match wire.bytes()? {
                    [] if slot.omits_zero => continue,
                    bytes => fields.push((word, Value::Text(Text::new(self.text(bytes)?)))),
                },
                ProtoEncoding::Int => match wire.number()? {
                    0 if slot.omits_zero => continue,
                    n => fields.push((word, Value::Int(n.cast_signed()))),
                },
                ProtoEncoding::Bool => match wire.number()? {
                    0 if slot.omits_zero => continue,
                    n => fields.push((word, Value::Bool(n != 0))),
                },
                ProtoEncoding::Object(inner) => {
                    let made = self.object(inner, wire.bytes()?, depth)?;
                    fields.push((word, Value::Object(made)));
                }
                ProtoEncoding::List(item) => {
                    let (items, rest) = self.list(item, (tag, wire), message, depth)?;
                    message = rest;
                    fields.push((word, Value::List(items)));
                }
                ProtoEncoding::Map(item) => {
                    let (map, rest) = self.map(item, (tag, wire), message, depth)?;
                    message = rest;
                    fields.push((word, map));
                }
                ProtoEncoding::Raw => match self.part(wire.bytes()?, 1)? {
                    "" => continue,
                    json => {
                        let raw = from_json_raw(json.as_bytes()).map_err(|_| DecodeError)?;
                        fields.push((word, raw));
                    }
                },
                ProtoEncoding::ByType(ty) => {
                    let value = self.value(ty, wire, depth)?;
                    if value.is_null() || slot.omits_zero && value.is_zero() {
                        continue;
                    }
                    fields.push((word, value));
                }
            }
            // Field numbers increase, unless the message was crafted or not written by upstream.
            repeated |= tag <= last;
            last = last.max(tag);
        }
        if repeated {
            merge_repeated(fields);
        }
        Ok(())
    }

    /// The items of a list, and the rest of the message.
    fn list(
        &mut self,
        item: &Type,
        (tag, first): (u64, WireValue<'a>),
        mut message: &'a [u8],
        depth: usize,
    ) -> Result<(Items, &'a [u8]), DecodeError> {
        let depth = depth.checked_sub(1).ok_or(DecodeError)?;
        let (mut items, mut next) = (Vec::with_capacity(4), Some(first));
        while let Some(wire) = next {
            match (item, wire) {
                (Type::Object(inner), WireValue::Bytes(bytes)) => {
                    let made = self.object(inner, bytes, depth)?;
                    items.push(Value::Object(made));
                }
                (item, wire) => items.push(self.value(item, wire, depth)?),
            }
            next = same(tag, &mut message)?;
        }
        Ok((items.into(), message))
    }

    /// The entries of a map, and the rest of the message.
    fn map(
        &mut self,
        item: &Type,
        (tag, first): (u64, WireValue<'a>),
        mut message: &'a [u8],
        depth: usize,
    ) -> Result<(Value, &'a [u8]), DecodeError> {
        let depth = depth.checked_sub(1).ok_or(DecodeError)?;
        let (mut entries, mut next) = (Vec::with_capacity(4), Some(first));
        while let Some(wire) = next {
            entries.push(self.entry(item, wire, depth)?);
            next = same(tag, &mut message)?;
        }
        Ok((Value::from_entries(entries), message))
    }

    fn entry(
        &mut self,
        item: &Type,
        wire: WireValue<'a>,
        depth: usize,
    ) -> Result<(Text, Value), DecodeError> {
        let WireValue::Bytes(mut bytes) = wire else { return Err(DecodeError) };
        let (mut key, mut content) = (Text::default(), Value::Null);
        while !bytes.is_empty() {
            match WireValue::decode_field(&mut bytes)? {
                (1, WireValue::Bytes(bytes)) => key = self.text(bytes)?.into(),
                (2, wire) => content = self.value(item, wire, depth)?,
                _ => {}
            }
        }
        if content.is_null() {
            content = self.value(item, WireValue::Bytes(&[]), depth).unwrap_or_default();
        }
        Ok((key, content))
    }

    fn value(
        &mut self,
        ty: &Type,
        wire: WireValue<'a>,
        depth: usize,
    ) -> Result<Value, DecodeError> {
        match (ty, wire) {
            (Type::Bool, WireValue::Number(n)) => Ok(Value::Bool(n != 0)),
            (Type::Int32 | Type::Int64, WireValue::Number(n)) => Ok(Value::Int(n.cast_signed())),
            (Type::UInt64, WireValue::Number(n)) => Ok(n.into()),
            (Type::Float, WireValue::Double(bits)) => Ok(Value::Float(f64::from_bits(bits))),
            (Type::Text | Type::Enum(_), WireValue::Bytes(bytes)) => Ok(self.text(bytes)?.into()),
            (Type::Bytes, WireValue::Bytes(bytes)) => Ok(Bytes::encode(bytes).into()),
            (Type::Object(shape), WireValue::Bytes(bytes)) => {
                self.object(shape, bytes, depth).map(Value::Object)
            }
            (Type::Quantity, WireValue::Bytes(bytes)) => Ok(self.part(bytes, 1)?.into()),
            (Type::Any, WireValue::Bytes(bytes)) => match self.part(bytes, 1)? {
                "" => Ok(Value::Null),
                json => {
                    let within = MAX_DOCUMENT - depth;
                    from_json_within(json.as_bytes(), within).map_err(|_| DecodeError)
                }
            },
            (Type::Time, WireValue::Bytes(bytes)) => {
                Ok(moment(bytes)?.map_or(Value::Null, |(seconds, _)| Time::format(seconds).into()))
            }
            (Type::MicroTime, WireValue::Bytes(bytes)) => {
                let micros =
                    |(s, n): (i64, i64)| s.saturating_mul(1_000_000).saturating_add(n / 1000);
                Ok(moment(bytes)?.map_or(Value::Null, |it| MicroTime::format(micros(it)).into()))
            }
            (Type::Duration, WireValue::Bytes(bytes)) => {
                let nanos = numbers(bytes)?[1].cast_signed();
                Ok(Duration::format_nanos(nanos).into())
            }
            (Type::IntOrString, WireValue::Bytes(bytes)) => match numbers(bytes)? {
                [_, 1, _] => Ok(self.part(bytes, 3)?.into()),
                [_, _, n] => Ok(Value::Int(n.cast_signed())),
            },
            // A list or map inside a map or list is a nested message.
            (Type::List(item), WireValue::Bytes(mut bytes)) => {
                let depth = depth.checked_sub(1).ok_or(DecodeError)?;
                let mut items = Vec::new();
                while let Some(wire) = next(1, &mut bytes)? {
                    items.push(self.value(item, wire, depth)?);
                }
                Ok(Value::List(items.into()))
            }
            (Type::Map(item), WireValue::Bytes(mut bytes)) => {
                let depth = depth.checked_sub(1).ok_or(DecodeError)?;
                let mut entries = Vec::new();
                while let Some(wire) = next(1, &mut bytes)? {
                    entries.push(self.entry(item, wire, depth)?);
                }
                Ok(Value::from_entries(entries))
            }
            (Type::StructOr(shape, plain), WireValue::Bytes(bytes)) => {
                self.either(shape, *plain, bytes, depth)
            }
            _ => Err(DecodeError),
        }
    }

    /// Decodes a struct or its alternative: two fields of one message.
    fn either(
        &mut self,
        shape: &StructSchema,
        plain: StructAlternative,
        mut bytes: &'a [u8],
        depth: usize,
    ) -> Result<Value, DecodeError> {
        let mut found = match plain {
            StructAlternative::Bool => Value::Bool(false),
            StructAlternative::List | StructAlternative::Strings => Value::Null,
        };
        let mut items = Vec::new();
        while !bytes.is_empty() {
            match (plain, WireValue::decode_field(&mut bytes)?) {
                (StructAlternative::Bool, (1, WireValue::Number(n))) if !found.is_object() => {
                    found = (n != 0).into();
                }
                (StructAlternative::Bool, (2, WireValue::Bytes(bytes)))
                | (
                    StructAlternative::List | StructAlternative::Strings,
                    (1, WireValue::Bytes(bytes)),
                ) => {
                    found = Value::Object(self.object(shape, bytes, depth)?);
                }
                (StructAlternative::List, (2, WireValue::Bytes(bytes))) => {
                    let depth = depth.checked_sub(1).ok_or(DecodeError)?;
                    items.push(Value::Object(self.object(shape, bytes, depth)?));
                }
                (StructAlternative::Strings, (2, WireValue::Bytes(bytes))) => {
                    items.push(self.text(bytes)?.into());
                }
                _ => {}
            }
        }
        Ok(if items.is_empty() { found } else { items.into_iter().collect() })
    }

    /// The string in field `tag`.
    fn part(&mut self, mut bytes: &'a [u8], tag: u64) -> Result<&'a str, DecodeError> {
        let mut found = "";
        while let Some(wire) = next(tag, &mut bytes)? {
            if let WireValue::Bytes(bytes) = wire {
                found = self.text(bytes)?;
            }
        }
        Ok(found)
    }

    /// The bytes as a string. Messages are mostly text, so a long stretch is validated at once, for
    /// all the strings in it.
    #[inline]
    fn text(&mut self, bytes: &'a [u8]) -> Result<&'a str, DecodeError> {
        let at = bytes.as_ptr().addr().wrapping_sub(self.validated_text.as_ptr().addr());
        match self.validated_text.get(at..at.wrapping_add(bytes.len())) {
            Some(known) => Ok(known),
            None => self.look(bytes),
        }
    }

    #[cold]
    fn look(&mut self, bytes: &'a [u8]) -> Result<&'a str, DecodeError> {
        if bytes.is_empty() {
            return Ok(""); // may point outside of the message; the validated part stays
        }
        let at = bytes.as_ptr().addr().wrapping_sub(self.message.as_ptr().addr());
        let rest = self.message.get(at..).unwrap_or(bytes);
        let ascii = |word: &&[u8; 8]| u64::from_le_bytes(**word) & 0x8080_8080_8080_8080 == 0;
        let ascii = 8 * rest.as_chunks().0.iter().take_while(ascii).count();
        self.validated_text = text(rest.get(..bytes.len().max(ascii)).unwrap_or(bytes))?;
        self.validated_text.get(..bytes.len()).ok_or(DecodeError)
    }
}

/// The next field with this number.
fn next<'a>(tag: u64, message: &mut &'a [u8]) -> Result<Option<WireValue<'a>>, DecodeError> {
    while !message.is_empty() {
        let (found, wire) = WireValue::decode_field(message)?;
        if found == tag {
            return Ok(Some(wire));
        }
    }
    Ok(None)
}

/// The next field, if it has this number. Its first byte decides, unless the number is large.
#[inline]
fn same<'a>(tag: u64, message: &mut &'a [u8]) -> Result<Option<WireValue<'a>>, DecodeError> {
    let head = tag << 3 | BYTES;
    match message.first() {
        Some(first) if head >= 0x80 || u64::from(*first) | 7 == head | 7 => {}
        _ => return Ok(None),
    }
    let mut rest = *message;
    let (found, wire) = WireValue::decode_field(&mut rest)?;
    Ok((found == tag).then(|| {
        *message = rest;
        wire
    }))
}

/// Merges repeated fields: lists and maps are concatenated; of other fields the last value counts.
#[cold]
fn merge_repeated(fields: &mut Vec<(FieldId, Value)>) {
    let mut all = mem::take(fields);
    all.sort_by_key(|field| field.0);
    let mut all = all.into_iter().peekable();
    while let Some((word, value)) = all.next() {
        let mut values = vec![value];
        while let Some((_, value)) = all.next_if(|field| field.0 == word) {
            values.push(value);
        }
        fields.push((word, merged(values)));
    }
}

/// The merged value of a repeated field.
fn merged(mut values: Vec<Value>) -> Value {
    let is_list = |value: &Value| matches!(value, Value::List(_));
    if values.len() > 1 && values.iter().all(is_list) {
        return values.iter().flat_map(|list| list.items().iter().cloned()).collect();
    } else if values.len() > 1 && values.iter().all(Value::is_object) {
        let entries = values.iter().flat_map(Value::entries);
        return Value::from_entries(entries.map(|(name, it)| (name.into(), it.clone())).collect());
    }
    values.pop().unwrap_or_default()
}

/// Decodes seconds and nanoseconds; an empty message is no time.
fn moment(bytes: &[u8]) -> Result<Option<(i64, i64)>, DecodeError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let [_, seconds, nanos] = numbers(bytes)?;
    Ok(Some((seconds.cast_signed(), nanos.cast_signed())))
}

/// The numbers in fields 1 and 2, at these indexes.
fn numbers(mut bytes: &[u8]) -> Result<[u64; 3], DecodeError> {
    let mut found = [0; 3];
    while !bytes.is_empty() {
        let [_, first, second] = &mut found;
        match WireValue::decode_field(&mut bytes)? {
            (1, WireValue::Number(n)) => *first = n,
            (2, WireValue::Number(n)) => *second = n,
            _ => {}
        }
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError)
}

#[cfg(test)]
mod tests {
    use object::{Lens, ObjectMeta};

    use super::*;

    #[test]
    fn texts_are_text_by_themselves() {
        let read = |message: &[u8]| decode(<ObjectMeta as Lens>::SHAPE, message);
        let meta = read(b"\x0a\x03a\xc3\xa9\x1a\x01b").unwrap();
        assert_eq!((meta["name"].as_str(), meta["namespace"].as_str()), (Some("aé"), Some("b")));
        // The last byte of the name and the first of the next field form one character.
        assert_eq!(read(b"\x0a\x02a\xc3\x9a\x01\x01b"), Err(DecodeError));
        assert_eq!(read(b"\x0a\x02a\xff"), Err(DecodeError));
        assert_eq!(read(b"\x0a\x7fa"), Err(DecodeError));
    }

    #[test]
    fn of_a_field_that_comes_again_the_last_counts() {
        let read = |message: &[u8]| decode(<ObjectMeta as Lens>::SHAPE, message).unwrap();
        let meta = read(b"\x72\x01a\x0a\x01x\x72\x01b\x0a\x01y");
        assert_eq!(meta["name"].as_str(), Some("y"));
        assert_eq!(meta["finalizers"], ["a", "b"].into_iter().collect());
    }

    #[test]
    fn many_entries_that_come_in_turns_are_read_in_time() {
        let mut message = Vec::new();
        for n in 0..60_000 {
            let (key, key_length) = (format!("{n:06}"), 6);
            message.extend([0x5a, key_length + 2, 0x0a, key_length]);
            message.extend(key.bytes());
            message.extend(b"\x0a\x01x");
        }
        let before = std::time::Instant::now();
        let meta = decode(<ObjectMeta as Lens>::SHAPE, &message).expect("well formed");
        assert_eq!(meta["labels"].entries().len(), 60_000);
        assert!(before.elapsed().as_secs() < 60, "{:?}", before.elapsed());
    }
}
