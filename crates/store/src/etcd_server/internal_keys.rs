//! Internal keys of the log, and the encoding of clients' keys.
//!
//! A client's key is arbitrary bytes, while the log has text. Each byte becomes the character of that number: the sort
//! order stays the same, and ASCII keys are unchanged.

use std::collections::BTreeMap;

use bytes::Bytes;
use object::Text;

use crate::{KeyMetadata, Record, engine::INTERNAL_KEY_PREFIX};

/// A key that the engine itself writes to the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum InternalKey {
    /// A granted lease; the value is its TTL in seconds.
    Lease(i64),
    /// The NOSPACE alarm is raised.
    Alarm,
    /// The compaction; the value is its revision.
    Floor,
}

impl InternalKey {
    pub(super) fn key(self) -> Text {
        match self {
            Self::Lease(id) => format!("{INTERNAL_KEY_PREFIX}lease/{id:016x}"),
            Self::Alarm => format!("{INTERNAL_KEY_PREFIX}alarm"),
            Self::Floor => format!("{INTERNAL_KEY_PREFIX}floor"),
        }
        .into()
    }

    /// Whether a key of the log is internal.
    pub(super) fn is(key: &str) -> bool {
        key.starts_with(INTERNAL_KEY_PREFIX)
    }

    /// Parses an internal key; `None` if it is unknown to this version.
    pub(super) fn of(key: &str) -> Option<Self> {
        let name = key.strip_prefix(INTERNAL_KEY_PREFIX)?;
        match name.split_once('/') {
            None if name == "alarm" => Some(Self::Alarm),
            None if name == "floor" => Some(Self::Floor),
            Some(("lease", id)) => {
                u64::from_str_radix(id, 16).ok().map(|id| Self::Lease(id.cast_signed()))
            }
            _ => None,
        }
    }
}

pub(super) fn number(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

pub(super) fn to_number(bytes: &[u8]) -> Option<i64> {
    Some(i64::from_le_bytes(bytes.try_into().ok()?))
}

/// The internal records of a restored store: everything up to `revision` is compacted, and these leases are granted.
pub(crate) fn initial_records(revision: u64, leases: &BTreeMap<i64, i64>) -> Vec<Record> {
    let record = |what: InternalKey, value: i64| {
        let (key, bytes, lineage) = (what.key(), Some(number(value)), KeyMetadata::new(revision));
        Record { revision, key, bytes, expires: None, note: None, lineage }
    };
    let granted = leases.iter().map(|(id, ttl)| record(InternalKey::Lease(*id), *ttl));
    granted.chain([record(InternalKey::Floor, revision.cast_signed())]).collect()
}

pub(crate) fn key_to_text(key: &[u8]) -> Text {
    match std::str::from_utf8(key) {
        Ok(text) if text.is_ascii() => text.into(),
        _ => key.iter().copied().map(char::from).collect(),
    }
}

/// The client's key; `None` for an internal key.
pub(crate) fn key_from_text(text: &str) -> Option<Bytes> {
    if text.is_ascii() {
        return Some(Bytes::copy_from_slice(text.as_bytes()));
    }
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_key_and_their_order_stays() {
        let keys =
            [&b"/registry/a"[..], b"a\x00", b"a\x7f", b"a\x80\xff", "aé".as_bytes(), b"\xff"];
        let texts: Vec<_> = keys.iter().map(|key| key_to_text(key)).collect();
        assert!(texts.is_sorted() && texts[0] == "/registry/a");
        for (key, text) in keys.iter().zip(&texts) {
            assert_eq!(key_from_text(text).as_deref(), Some(*key));
            assert!(!InternalKey::is(text));
        }
    }

    #[test]
    fn the_engines_own_keys_are_behind_all_others() {
        for own in [InternalKey::Lease(-3), InternalKey::Alarm, InternalKey::Floor] {
            assert_eq!(InternalKey::of(&own.key()), Some(own));
            assert!(own.key() > key_to_text(&[0xff; 4]) && key_from_text(&own.key()).is_none());
        }
        assert!(InternalKey::is("\u{100}later") && InternalKey::of("\u{100}later").is_none());
    }
}
