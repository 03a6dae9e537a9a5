//! CBOR decoder. The document is first checked for well-formedness without building anything, so
//! that malformed input allocates no values.

use std::{collections::HashSet, fmt, str};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use object::{StructSchema, Text, Time, Type, Value};

use super::{later, major};
use crate::codec::hex;

/// Maximum nesting depth, as in JSON.
const DEPTH: usize = object::depth::MAX_DOCUMENT;

/// Why a document cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// Not well-formed: its kind cannot be determined.
    Unreadable(String),
    /// The document is not a map but an item of this type.
    NoMap(&'static str),
    /// A value inside the document has the wrong type or is not accepted.
    Misfit(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) | Self::Misfit(why) => f.write_str(why),
            Self::NoMap(ty) => {
                write!(f, "cbor: cannot unmarshal {ty} into Go value of type v1.TypeMeta")?;
                let how = " (cannot decode CBOR array to struct without toarray option)";
                f.write_str(if *ty == "array" { how } else { "" })
            }
        }
    }
}

/// A decoded document.
#[derive(Clone, Debug)]
pub(crate) struct DecodedDocument {
    pub(crate) tree: Value,
    /// Index within its map of the first field that the schema does not have.
    pub(crate) unknown: Option<usize>,
}

/// Decodes a document. The schema determines which strings are bytes and which fields are known.
pub(crate) fn read(shape: Option<&StructSchema>, bytes: &[u8]) -> Result<DecodedDocument, Error> {
    if bytes.is_empty() {
        return Err(Error::Unreadable("EOF".to_owned()));
    }
    let mut scan = Reader { bytes, at: 0, unknown: None };
    scan.skip(0).map_err(Error::Unreadable)?;
    if scan.at < bytes.len() {
        let (more, at) = (bytes.len() - scan.at, scan.at);
        let why = format!("cbor: {more} bytes of extraneous data starting at index {at}");
        return Err(Error::Unreadable(why));
    }
    let mut reader = Reader { bytes, at: 0, unknown: None };
    reader.top(shape).map(|tree| DecodedDocument { tree, unknown: reader.unknown })
}

/// The decoder, with its position in the input.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    unknown: Option<usize>,
}

/// The head of an item. `n` is `None` for an item of indefinite length.
struct Head {
    major: u8,
    info: u8,
    n: Option<u64>,
}

/// The schema position of an item.
#[derive(Clone, Copy)]
enum Place<'a> {
    Any,
    /// The fields of an object.
    Fields(&'a StructSchema),
    Of(&'a Type),
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(n).ok_or("unexpected EOF")?;
        let taken = self.bytes.get(self.at..end).ok_or("unexpected EOF")?;
        self.at = end;
        Ok(taken)
    }

    fn head(&mut self) -> Result<Head, String> {
        let first = *self.take(1)?.first().ok_or("unexpected EOF")?;
        let (major, info) = (first >> 5, first & 31);
        let n = match info {
            0..=23 => Some(info.into()),
            24..=27 => {
                let bytes = self.take(1 << (info - 24))?;
                Some(bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
            }
            31 if matches!(major, major::BYTES..=major::MAP | major::SIMPLE) => None,
            _ => {
                let ty = name(major);
                return Err(format!("cbor: invalid additional information {info} for type {ty}"));
            }
        };
        Ok(Head { major, info, n })
    }

    /// Consumes a "break" code if one is next, which ends an item of indefinite length.
    fn ends(&mut self) -> Result<bool, String> {
        let ends = self.bytes.get(self.at).ok_or("unexpected EOF")? == &0xff;
        self.at += usize::from(ends);
        Ok(ends)
    }

    /// Skips an item and checks that it is well-formed.
    fn skip(&mut self, depth: usize) -> Result<(), String> {
        let Head { major, info, n } = self.head()?;
        let nests = matches!(major, major::ARRAY | major::MAP | major::TAG);
        if nests && depth == DEPTH {
            return Err(format!("cbor: exceeded max nested level {DEPTH}"));
        }
        match (major, n) {
            (major::BYTES | major::TEXT, Some(n)) => self.take(fitting(n)?).map(drop),
            (major::BYTES | major::TEXT, None) => {
                while !self.ends()? {
                    let chunk = self.head()?;
                    let n = chunk.n.filter(|_| chunk.major == major).ok_or_else(|| {
                        format!(
                            "cbor: wrong element type {} for indefinite-length {}",
                            name(chunk.major),
                            name(major)
                        )
                    })?;
                    self.take(fitting(n)?)?;
                }
                Ok(())
            }
            (major::ARRAY | major::MAP, Some(n)) => {
                let each = if major == major::MAP { 2 } else { 1 };
                if n > (self.bytes.len() - self.at) as u64 {
                    return Err("unexpected EOF".to_owned()); // each takes a byte at least
                }
                (0..n * each).try_for_each(|_| self.skip(depth + 1))
            }
            (major::ARRAY | major::MAP, None) => {
                let mut count = 0;
                while !self.ends()? {
                    self.skip(depth + 1)?;
                    count += 1;
                }
                match major == major::MAP && count % 2 == 1 {
                    true => Err("cbor: unexpected \"break\" code".to_owned()),
                    false => Ok(()),
                }
            }
            (major::TAG, Some(2 | 3)) => Err(unaccepted(major::TAG, "bignum")),
            (major::TAG, _) => self.skip(depth + 1),
            (major::SIMPLE, None) => Err("cbor: unexpected \"break\" code".to_owned()),
            (major::SIMPLE, Some(n)) if info >= 25 => match number(info, n) {
                n if n.is_nan() => Err(unaccepted(major::SIMPLE, "floating-point NaN")),
                n if n.is_infinite() => Err(unaccepted(major::SIMPLE, "floating-point infinity")),
                _ => Ok(()),
            },
            (major::SIMPLE, Some(n)) if info == 24 && n < 32 => {
                Err(format!("cbor: invalid simple value {n} for type primitives"))
            }
            _ => Ok(()),
        }
    }

    /// Decodes the top-level map.
    fn top(&mut self, shape: Option<&StructSchema>) -> Result<Value, Error> {
        let head = loop {
            let head = self.head().map_err(Error::Unreadable)?;
            if head.major != major::TAG {
                break head;
            }
        };
        if (head.major, head.n) == (major::SIMPLE, Some(22)) {
            return Ok(Value::Null);
        } else if head.major != major::MAP {
            return Err(Error::NoMap(name(head.major)));
        }
        let place = shape.map_or(Place::Any, Place::Fields);
        let before = self.at;
        let read = self.map(head.n, place);
        read.map_err(|why| {
            // Upstream decodes kind and version first. Of all errors, only a duplicate top-level
            // key prevents that.
            self.at = before;
            match self.twice(head.n) {
                Some(why) => Error::Unreadable(why),
                None => Error::Misfit(why),
            }
        })
    }

    /// The error of a duplicate key in the top-level map, if there is one.
    fn twice(&mut self, n: Option<u64>) -> Option<String> {
        let mut seen = HashSet::new();
        while self.more(n, seen.len()).ok()? {
            let key = self.key().ok()?;
            if seen.contains(&key) {
                return Some(duplicate(&key, seen.len()));
            }
            seen.insert(key);
            self.skip(0).ok()?;
        }
        None
    }

    fn more(&mut self, n: Option<u64>, done: usize) -> Result<bool, String> {
        match n {
            Some(n) => Ok((done as u64) < n),
            None => self.ends().map(|ends| !ends),
        }
    }

    fn item(&mut self, place: Place<'_>) -> Result<Value, String> {
        let Head { major, info, n } = self.head()?;
        Ok(match (major, n) {
            (major::UNSIGNED, Some(n)) => match i64::try_from(n) {
                Ok(n) => Value::Int(n),
                Err(_) if matches!(place, Place::Of(Type::UInt64)) => Value::UInt(n),
                Err(_) => return Err(overflow("positive", n.into())),
            },
            (major::NEGATIVE, Some(n)) => match i64::try_from(n) {
                Ok(n) => Value::Int(!n),
                Err(_) => return Err(overflow("negative", -1 - i128::from(n))),
            },
            (major::BYTES | major::TEXT, n) => utf8(&self.string(n)?)?.into(),
            (major::ARRAY, n) => {
                let place = match place {
                    Place::Of(Type::List(ty)) => Place::Of(ty),
                    _ => Place::Any,
                };
                let mut items = Vec::new();
                while self.more(n, items.len())? {
                    items.push(self.item(place)?);
                }
                items.into_iter().collect()
            }
            (major::MAP, n) => {
                let place = match place {
                    Place::Of(Type::Object(shape) | Type::StructOr(shape, _)) => {
                        Place::Fields(shape)
                    }
                    place => place,
                };
                return self.map(n, place);
            }
            (major::TAG, Some(tag @ later::BASE64_URL..=later::HEX)) => {
                return self.encoded(tag, place);
            }
            (major::TAG, Some(1)) => moment(&self.item(Place::Any)?)?,
            (major::TAG, _) => return self.item(place),
            (_, Some(20)) if info < 24 => false.into(),
            (_, Some(21)) if info < 24 => true.into(),
            (_, Some(22)) if info < 24 => Value::Null,
            (_, Some(n)) if info >= 25 => number(info, n).into(),
            (_, n) => {
                let n = n.unwrap_or_default();
                let why = format!("simple value {n} is not recognized");
                return Err(unaccepted(major::SIMPLE, &why));
            }
        })
    }

    /// Decodes a map; a duplicate key is an error.
    fn map(&mut self, n: Option<u64>, place: Place<'_>) -> Result<Value, String> {
        let mut entries: Vec<(Text, Value)> = Vec::new();
        let mut seen = HashSet::new();
        while self.more(n, entries.len())? {
            let key = self.key()?;
            let within = match place {
                Place::Fields(shape) => match shape.field(&key) {
                    Some(field) => Place::Of(&field.ty),
                    None if matches!(&*key, "apiVersion" | "kind")
                        || shape.preserve_unknown_fields =>
                    {
                        Place::Any
                    }
                    None => {
                        self.unknown.get_or_insert(entries.len());
                        Place::Any
                    }
                },
                Place::Of(Type::Map(ty)) => Place::Of(ty),
                _ => Place::Any,
            };
            if !seen.insert(key.clone()) {
                return Err(duplicate(&key, entries.len()));
            }
            entries.push((key, self.item(within)?));
        }
        Ok(Value::from_entries(entries))
    }

    fn key(&mut self) -> Result<Text, String> {
        let head = self.head()?;
        match head.major {
            major::BYTES | major::TEXT => utf8(&self.string(head.n)?),
            other => {
                let ty = name(other);
                Err(format!("cbor: cannot unmarshal {ty} into Go value of type string"))
            }
        }
    }

    fn string(&mut self, n: Option<u64>) -> Result<Vec<u8>, String> {
        let Some(n) = n else {
            let mut all = Vec::new();
            while !self.ends()? {
                let n = self.head()?.n.unwrap_or_default();
                all.extend_from_slice(self.take(fitting(n)?)?);
            }
            return Ok(all);
        };
        self.take(fitting(n)?).map(<[u8]>::to_vec)
    }

    /// Decodes a byte string with an expected later encoding to text in that encoding.
    fn encoded(&mut self, tag: u64, place: Place<'_>) -> Result<Value, String> {
        let before = self.at;
        let head = self.head()?;
        if head.major != major::BYTES {
            self.at = before;
            return self.item(place);
        }
        let bytes = self.string(head.n)?;
        Ok(match tag {
            _ if matches!(place, Place::Of(Type::Bytes)) => STANDARD.encode(bytes),
            later::BASE64_URL => URL_SAFE_NO_PAD.encode(bytes),
            later::BASE64 => STANDARD.encode(bytes),
            _ => hex(&bytes),
        }
        .into())
    }
}

fn utf8(bytes: &[u8]) -> Result<Text, String> {
    let text = str::from_utf8(bytes).map_err(|_| "cbor: invalid UTF-8 string")?;
    Ok(text.into())
}

fn fitting(n: u64) -> Result<usize, String> {
    usize::try_from(n).map_err(|_| "unexpected EOF".to_owned())
}

fn name(major: u8) -> &'static str {
    match major {
        major::UNSIGNED => "positive integer",
        major::NEGATIVE => "negative integer",
        major::BYTES => "byte string",
        major::TEXT => "UTF-8 text string",
        major::ARRAY => "array",
        major::MAP => "map",
        major::TAG => "tag",
        _ => "primitives",
    }
}

fn unaccepted(major: u8, why: &str) -> String {
    let ty = name(major);
    format!("cbor: data item of cbor type {ty} is not accepted by protocol: {why}")
}

fn overflow(sign: &str, n: i128) -> String {
    format!(
        "cbor: cannot unmarshal {sign} integer into Go value of type int64 ({n} overflows Go's \
         int64)"
    )
}

fn duplicate(key: &str, at: usize) -> String {
    format!("cbor: found duplicate map key {key:?} at map element index {at}")
}

/// Decodes a floating-point number of 16, 32 or 64 bits.
fn number(info: u8, bits: u64) -> f64 {
    match info {
        25 => {
            let (sign, mantissa) = (bits >> 15 & 1, bits & 0x3ff);
            let exponent = i32::try_from(bits >> 10 & 0x1f).unwrap_or_default();
            #[expect(clippy::cast_precision_loss, reason = "ten bits")]
            let fraction = mantissa as f64 / 1024.0;
            let size = match exponent {
                0 => fraction * 2f64.powi(-14),
                31 if mantissa == 0 => f64::INFINITY,
                31 => f64::NAN,
                exponent => (1.0 + fraction) * 2f64.powi(exponent - 15),
            };
            if sign == 1 { -size } else { size }
        }
        26 => f32::from_bits(u32::try_from(bits).unwrap_or_default()).into(),
        _ => f64::from_bits(bits),
    }
}

/// Formats an epoch-based time (tag 1: seconds since 1970) as RFC 3339.
fn moment(seconds: &Value) -> Result<Value, String> {
    let n = seconds.as_f64().filter(|n| (-62_135_596_800.0..253_402_300_800.0).contains(n));
    let n = n.ok_or("cbor: invalid time tag")?;
    #[expect(clippy::cast_possible_truncation, reason = "in the bounds above")]
    let micros = (n * 1e6).round() as i64;
    let text = Time::format(micros.div_euclid(1_000_000));
    let text = match micros.rem_euclid(1_000_000) {
        0 => text.to_string(),
        rest => {
            let digits = format!("{rest:06}");
            format!("{}.{}Z", text.trim_end_matches('Z'), digits.trim_end_matches('0'))
        }
    };
    Ok(text.into())
}
