//! From message to tree.

use std::mem;

use object::{
    Bytes, Duration, Fields, Held, Items, MicroTime, Plain, Struct, Text, Time, Type, Value, Word,
    depth::MAX_DOCUMENT, from_json_within, raw_json,
};

use super::{
    MAGIC,
    wire::{BYTES, Malformed, Wire},
};

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
    Decoder { message, known: "" }.object(shape, message, MAX_DOCUMENT).map(Value::Object)
}

struct Decoder<'a> {
    message: &'a [u8],
    /// A part of it that is known to be text.
    known: &'a str,
}

impl<'a> Decoder<'a> {
    fn object(
        &mut self,
        shape: &Struct,
        message: &'a [u8],
        depth: usize,
    ) -> Result<Fields, Malformed> {
        let mut fields = Vec::with_capacity(shape.index().map_or(0, |index| index.size().min(16)));
        self.read(shape, message, &mut fields, depth)?;
        Ok(Value::fields(fields))
    }

    /// Reads the fields of an object.
    fn read(
        &mut self,
        shape: &Struct,
        mut message: &'a [u8],
        fields: &mut Vec<(Word, Value)>,
        depth: usize,
    ) -> Result<(), Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed)?;
        let Some(index) = shape.index() else { return Ok(()) }; // a CRD's fields have no numbers
        let (mut last, mut repeated) = (0, false);
        while !message.is_empty() {
            let (tag, wire) = Wire::take(&mut message)?;
            let Some(slot) = index.tagged(tag) else { continue };
            let Some(word) = slot.word else {
                let Held::Object(inner) = slot.held else { return Err(Malformed) };
                self.read(inner, wire.bytes()?, fields, depth)?;
                continue;
            };
            // Most fields of a message are empty: nobody has set them.
            match slot.held {
                Held::Text => match wire.bytes()? {
                    [] if slot.omits_zero => continue,
                    bytes => fields.push((word, Value::Text(Text::new(self.text(bytes)?)))),
                },
                Held::Int => match wire.number()? {
                    0 if slot.omits_zero => continue,
                    n => fields.push((word, Value::Int(n.cast_signed()))),
                },
                Held::Bool => match wire.number()? {
                    0 if slot.omits_zero => continue,
                    n => fields.push((word, Value::Bool(n != 0))),
                },
                Held::Object(inner) => {
                    let made = self.object(inner, wire.bytes()?, depth)?;
                    fields.push((word, Value::Object(made)));
                }
                Held::List(item) => {
                    let (items, rest) = self.list(item, (tag, wire), message, depth)?;
                    message = rest;
                    fields.push((word, Value::List(items)));
                }
                Held::Map(item) => {
                    let (map, rest) = self.map(item, (tag, wire), message, depth)?;
                    message = rest;
                    fields.push((word, map));
                }
                Held::Raw => match self.part(wire.bytes()?, 1)? {
                    "" => continue,
                    json => {
                        let raw = raw_json(json.as_bytes()).map_err(|_| Malformed)?;
                        fields.push((word, raw));
                    }
                },
                Held::Otherwise(ty) => {
                    let value = self.value(ty, wire, depth)?;
                    if value.is_null() || slot.omits_zero && value.is_zero() {
                        continue;
                    }
                    fields.push((word, value));
                }
            }
            // Numbers go up, unless somebody is up to something.
            repeated |= tag <= last;
            last = last.max(tag);
        }
        if repeated {
            merge_repeated(fields);
        }
        Ok(())
    }

    /// The items of a list, and what is behind them.
    fn list(
        &mut self,
        item: &Type,
        (tag, first): (u64, Wire<'a>),
        mut message: &'a [u8],
        depth: usize,
    ) -> Result<(Items, &'a [u8]), Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed)?;
        let (mut items, mut next) = (Vec::with_capacity(4), Some(first));
        while let Some(wire) = next {
            match (item, wire) {
                (Type::Object(inner), Wire::Bytes(bytes)) => {
                    let made = self.object(inner, bytes, depth)?;
                    items.push(Value::Object(made));
                }
                (item, wire) => items.push(self.value(item, wire, depth)?),
            }
            next = same(tag, &mut message)?;
        }
        Ok((items.into(), message))
    }

    /// The entries of a map, and what is behind them.
    fn map(
        &mut self,
        item: &Type,
        (tag, first): (u64, Wire<'a>),
        mut message: &'a [u8],
        depth: usize,
    ) -> Result<(Value, &'a [u8]), Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed)?;
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
        wire: Wire<'a>,
        depth: usize,
    ) -> Result<(Text, Value), Malformed> {
        let Wire::Bytes(mut bytes) = wire else { return Err(Malformed) };
        let (mut key, mut content) = (Text::default(), Value::Null);
        while !bytes.is_empty() {
            match Wire::take(&mut bytes)? {
                (1, Wire::Bytes(bytes)) => key = self.text(bytes)?.into(),
                (2, wire) => content = self.value(item, wire, depth)?,
                _ => {}
            }
        }
        if content.is_null() {
            content = self.value(item, Wire::Bytes(&[]), depth).unwrap_or_default();
        }
        Ok((key, content))
    }

    fn value(&mut self, ty: &Type, wire: Wire<'a>, depth: usize) -> Result<Value, Malformed> {
        match (ty, wire) {
            (Type::Bool, Wire::Number(n)) => Ok(Value::Bool(n != 0)),
            (Type::Int32 | Type::Int64, Wire::Number(n)) => Ok(Value::Int(n.cast_signed())),
            (Type::UInt64, Wire::Number(n)) => Ok(n.into()),
            (Type::Float, Wire::Double(bits)) => Ok(Value::Float(f64::from_bits(bits))),
            (Type::Text | Type::Enum(_), Wire::Bytes(bytes)) => Ok(self.text(bytes)?.into()),
            (Type::Bytes, Wire::Bytes(bytes)) => Ok(Bytes::text(bytes).into()),
            (Type::Object(shape), Wire::Bytes(bytes)) => {
                self.object(shape, bytes, depth).map(Value::Object)
            }
            (Type::Quantity, Wire::Bytes(bytes)) => Ok(self.part(bytes, 1)?.into()),
            (Type::Any, Wire::Bytes(bytes)) => match self.part(bytes, 1)? {
                "" => Ok(Value::Null),
                json => {
                    let within = MAX_DOCUMENT - depth;
                    from_json_within(json.as_bytes(), within).map_err(|_| Malformed)
                }
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
                [_, 1, _] => Ok(self.part(bytes, 3)?.into()),
                [_, _, n] => Ok(Value::Int(n.cast_signed())),
            },
            // What is within a map or a list is a message of its own.
            (Type::List(item), Wire::Bytes(mut bytes)) => {
                let depth = depth.checked_sub(1).ok_or(Malformed)?;
                let mut items = Vec::new();
                while let Some(wire) = next(1, &mut bytes)? {
                    items.push(self.value(item, wire, depth)?);
                }
                Ok(Value::List(items.into()))
            }
            (Type::Map(item), Wire::Bytes(mut bytes)) => {
                let depth = depth.checked_sub(1).ok_or(Malformed)?;
                let mut entries = Vec::new();
                while let Some(wire) = next(1, &mut bytes)? {
                    entries.push(self.entry(item, wire, depth)?);
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
        mut bytes: &'a [u8],
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
                    found = Value::Object(self.object(shape, bytes, depth)?);
                }
                (Plain::List, (2, Wire::Bytes(bytes))) => {
                    let depth = depth.checked_sub(1).ok_or(Malformed)?;
                    items.push(Value::Object(self.object(shape, bytes, depth)?));
                }
                (Plain::Texts, (2, Wire::Bytes(bytes))) => items.push(self.text(bytes)?.into()),
                _ => {}
            }
        }
        Ok(if items.is_empty() { found } else { items.into_iter().collect() })
    }

    /// The text that field `tag` holds.
    fn part(&mut self, mut bytes: &'a [u8], tag: u64) -> Result<&'a str, Malformed> {
        let mut found = "";
        while let Some(wire) = next(tag, &mut bytes)? {
            if let Wire::Bytes(bytes) = wire {
                found = self.text(bytes)?;
            }
        }
        Ok(found)
    }

    /// What these bytes of the message say. A message is text for long stretches: one look at a
    /// stretch does for all the texts in it.
    #[inline]
    fn text(&mut self, bytes: &'a [u8]) -> Result<&'a str, Malformed> {
        let at = bytes.as_ptr().addr().wrapping_sub(self.known.as_ptr().addr());
        match self.known.get(at..at.wrapping_add(bytes.len())) {
            Some(known) => Ok(known),
            None => self.look(bytes),
        }
    }

    #[cold]
    fn look(&mut self, bytes: &'a [u8]) -> Result<&'a str, Malformed> {
        if bytes.is_empty() {
            return Ok(""); // stands nowhere in the message, maybe, and the known part stays known
        }
        let at = bytes.as_ptr().addr().wrapping_sub(self.message.as_ptr().addr());
        let rest = self.message.get(at..).unwrap_or(bytes);
        let ascii = |word: &&[u8; 8]| u64::from_le_bytes(**word) & 0x8080_8080_8080_8080 == 0;
        let ascii = 8 * rest.as_chunks().0.iter().take_while(ascii).count();
        self.known = text(rest.get(..bytes.len().max(ascii)).unwrap_or(bytes))?;
        self.known.get(..bytes.len()).ok_or(Malformed)
    }
}

/// The next field with this number, if there is one.
fn next<'a>(tag: u64, message: &mut &'a [u8]) -> Result<Option<Wire<'a>>, Malformed> {
    while !message.is_empty() {
        let (found, wire) = Wire::take(message)?;
        if found == tag {
            return Ok(Some(wire));
        }
    }
    Ok(None)
}

/// The next field of the message, if it has this number: its first byte tells, unless that is large.
#[inline]
fn same<'a>(tag: u64, message: &mut &'a [u8]) -> Result<Option<Wire<'a>>, Malformed> {
    let head = tag << 3 | BYTES;
    match message.first() {
        Some(first) if head >= 0x80 || u64::from(*first) | 7 == head | 7 => {}
        _ => return Ok(None),
    }
    let mut rest = *message;
    let (found, wire) = Wire::take(&mut rest)?;
    Ok((found == tag).then(|| {
        *message = rest;
        wire
    }))
}

/// A field may come again: lists and maps grow, of all else the last counts.
#[cold]
fn merge_repeated(fields: &mut Vec<(Word, Value)>) {
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

/// What the values of one field are together, in their order.
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
        let [_, first, second] = &mut found;
        match Wire::take(&mut bytes)? {
            (1, Wire::Number(n)) => *first = n,
            (2, Wire::Number(n)) => *second = n,
            _ => {}
        }
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed)
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
        // The last byte of the name and the first of the next field are one character.
        assert_eq!(read(b"\x0a\x02a\xc3\x9a\x01\x01b"), Err(Malformed));
        assert_eq!(read(b"\x0a\x02a\xff"), Err(Malformed));
        assert_eq!(read(b"\x0a\x7fa"), Err(Malformed));
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
