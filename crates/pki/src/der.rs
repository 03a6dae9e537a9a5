//! A minimal DER encoder for certificates, CSRs and keys.

use jiff::{Timestamp, tz::TimeZone};

pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const NULL: u8 = 0x05;
const OID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The tag `[n]`, explicit.
pub(crate) const fn context(n: u8) -> u8 {
    0xa0 | n
}

/// The tag `[n]`, implicit for a primitive value.
pub(crate) const fn implicit(n: u8) -> u8 {
    0x80 | n
}

pub(crate) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    if let Ok(short @ 0..0x80) = u8::try_from(length) {
        out.push(short);
    } else {
        let bytes = length.to_be_bytes();
        let bytes: Vec<u8> = without_leading_zeros(&bytes).collect();
        out.push(0x80 | bytes.len().to_le_bytes()[0]); // at most 8
        out.extend(bytes);
    }
    out.extend_from_slice(content);
    out
}

pub(crate) fn group(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    tagged(tag, &parts.concat())
}

pub(crate) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    group(SEQUENCE, parts)
}

fn without_leading_zeros(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().copied().skip_while(|byte| *byte == 0)
}

/// A non-negative integer, given as big-endian bytes.
pub(crate) fn integer(bytes: &[u8]) -> Vec<u8> {
    let mut content: Vec<u8> = without_leading_zeros(bytes).collect();
    if content.first().is_none_or(|first| first & 0x80 != 0) {
        content.insert(0, 0);
    }
    tagged(INTEGER, &content)
}

pub(crate) fn boolean(yes: bool) -> Vec<u8> {
    tagged(BOOLEAN, &[if yes { 0xff } else { 0 }])
}

pub(crate) fn null() -> Vec<u8> {
    tagged(NULL, &[])
}

pub(crate) fn octets(content: &[u8]) -> Vec<u8> {
    tagged(OCTET_STRING, content)
}

/// A bit string; the last `unused` bits are not part of it.
pub(crate) fn bits(content: &[u8], unused: u8) -> Vec<u8> {
    tagged(BIT_STRING, &[&[unused], content].concat())
}

pub(crate) fn utf8(text: &str) -> Vec<u8> {
    tagged(UTF8_STRING, text.as_bytes())
}

pub(crate) fn oid(arcs: &[u64]) -> Vec<u8> {
    let [first, second, rest @ ..] = arcs else { unreachable!("every oid has two arcs") };
    let mut content = Vec::new();
    for arc in std::iter::once(&(first * 40 + second)).chain(rest) {
        let groups = (64 - arc.leading_zeros()).div_ceil(7).max(1);
        for at in (0..groups).rev() {
            let seven = (arc >> (7 * at)).to_le_bytes()[0] & 0x7f;
            content.push(if at == 0 { seven } else { seven | 0x80 });
        }
    }
    tagged(OID, &content)
}

/// A time in seconds since 1970, in the format that RFC 5280 requires.
pub(crate) fn time(seconds: i64) -> Vec<u8> {
    let moment = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    if (1950..2050).contains(&moment.to_zoned(TimeZone::UTC).year()) {
        tagged(UTC_TIME, moment.strftime("%y%m%d%H%M%SZ").to_string().as_bytes())
    } else {
        tagged(GENERALIZED_TIME, moment.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_integers_and_oids_have_their_shortest_form() {
        assert_eq!(tagged(4, &[0; 0x7f])[..2], [4, 0x7f]);
        assert_eq!(tagged(4, &[0; 0x80])[..3], [4, 0x81, 0x80]);
        assert_eq!(tagged(4, &[0; 0x1234])[..4], [4, 0x82, 0x12, 0x34]);
        assert_eq!(integer(&[0, 0]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0x80]), [2, 2, 0, 0x80]);
        assert_eq!(oid(&[1, 2, 840, 113_549]), [6, 6, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d]);
    }

    #[test]
    fn times_change_their_form_in_2050() {
        assert_eq!(time(0), [&[UTC_TIME, 13], &b"700101000000Z"[..]].concat());
        assert_eq!(
            time(2_524_608_000),
            [&[GENERALIZED_TIME, 15], &b"20500101000000Z"[..]].concat()
        );
    }
}
