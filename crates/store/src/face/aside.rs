//! What the log keeps besides clients' keys, and how keys are written there.
//!
//! A key is any bytes, and the log has text. So each byte is the character of that
//! number: the order stays, and what is plain text stays as it is.

use std::collections::BTreeMap;

use bytes::Bytes;
use object::Text;

use crate::{Lineage, Record, engine::ASIDE};

/// The engine's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Aside {
    /// That a lease was granted; its value is how long.
    Lease(i64),
    /// That an alarm is on.
    Alarm,
    /// How far everything is compacted; its value is the revision.
    Floor,
}

impl Aside {
    pub(super) fn key(self) -> Text {
        match self {
            Self::Lease(id) => format!("{ASIDE}lease/{id:016x}"),
            Self::Alarm => format!("{ASIDE}alarm"),
            Self::Floor => format!("{ASIDE}floor"),
        }
        .into()
    }

    /// Whether a key of the log is the engine's own.
    pub(super) fn is(key: &str) -> bool {
        key.starts_with(ASIDE)
    }

    /// What one of the engine's own keys is; `None`: nothing that is known here.
    pub(super) fn of(key: &str) -> Option<Self> {
        let name = key.strip_prefix(ASIDE)?;
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

/// What a store begins with besides clients' keys: everything up to `revision` is
/// forgotten, and these leases are granted.
pub(crate) fn begin(revision: u64, leases: &BTreeMap<i64, i64>) -> Vec<Record> {
    let record = |what: Aside, value: i64| {
        let (key, bytes, lineage) = (what.key(), Some(number(value)), Lineage::new(revision));
        Record { revision, key, bytes, expires: None, note: None, lineage }
    };
    let granted = leases.iter().map(|(id, ttl)| record(Aside::Lease(*id), *ttl));
    granted.chain([record(Aside::Floor, revision.cast_signed())]).collect()
}

pub(crate) fn to_text(key: &[u8]) -> Text {
    match std::str::from_utf8(key) {
        Ok(text) if text.is_ascii() => text.into(),
        _ => key.iter().copied().map(char::from).collect(),
    }
}

/// `None`: no client wrote it.
pub(crate) fn from_text(text: &str) -> Option<Bytes> {
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
        let texts: Vec<_> = keys.iter().map(|key| to_text(key)).collect();
        assert!(texts.is_sorted() && texts[0] == "/registry/a");
        for (key, text) in keys.iter().zip(&texts) {
            assert_eq!(from_text(text).as_deref(), Some(*key));
            assert!(!Aside::is(text));
        }
    }

    #[test]
    fn the_engines_own_keys_are_behind_all_others() {
        for own in [Aside::Lease(-3), Aside::Alarm, Aside::Floor] {
            assert_eq!(Aside::of(&own.key()), Some(own));
            assert!(own.key() > to_text(&[0xff; 4]) && from_text(&own.key()).is_none());
        }
        assert!(Aside::is("\u{100}later") && Aside::of("\u{100}later").is_none());
    }
}
