//! The Huffman code of HPACK (RFC 7541, appendix B).
//!
//! The code is canonical: shorter codes come first, and codes of one length are in the order of their symbols. So the
//! table of lengths defines all of it.

use std::sync::LazyLock;

const LONGEST: usize = 30;

/// The length of each byte's code in bits.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

struct Code {
    /// How many symbols have a code of each length.
    counts: [u32; LONGEST + 1],
    /// Symbols in the order of their codes.
    symbols: Vec<u8>,
}

static CODE: LazyLock<Code> = LazyLock::new(|| {
    let mut counts = [0; LONGEST + 1];
    LENGTHS.iter().for_each(|length| counts[usize::from(*length)] += 1);
    let mut symbols: Vec<_> = (0..=u8::MAX).collect();
    symbols.sort_by_key(|symbol| LENGTHS[usize::from(*symbol)]);
    Code { counts, symbols }
});

/// Decodes a Huffman-coded string; `None` if it is invalid.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(bytes.len() * 8 / 5);
    let (mut code, mut first, mut index, mut length) = (0_u32, 0, 0, 0);
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |nth| byte >> nth & 1)) {
        code = code << 1 | u32::from(bit);
        first <<= 1;
        length += 1;
        let count = *CODE.counts.get(length)?;
        if code - first < count {
            text.push(*CODE.symbols.get(usize::try_from(index + code - first).ok()?)?);
            (code, first, index, length) = (0, 0, 0, 0);
        } else {
            (first, index) = (first + count, index + count);
        }
    }
    // The rest is padding: fewer than eight one bits.
    (length < 8 && code + 1 == 1 << length).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_standard() {
        let hex = |text: &str| -> Vec<u8> {
            let nibbles = text.as_bytes().chunks(2);
            nibbles
                .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
                .collect()
        };
        for (written, text) in [
            ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
            ("a8eb10649cbf", "no-cache"),
            ("6402", "302"),
            ("d07abe941054d444a8200595040b8166e082a62d1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ] {
            assert_eq!(decode(&hex(written)).as_deref(), Some(text.as_bytes()), "{text}");
        }
        assert_eq!(decode(&[]), Some(Vec::new()));
        assert_eq!(decode(&[0xff]), None, "a whole byte of filling");
        assert_eq!(decode(&[0x18]), None, "filled with zeros");
        assert_eq!(decode(&[0xff; 8]), None, "the end of the code is no text");
        for byte in 0..=u8::MAX {
            let _ = decode(&[byte, !byte, byte.rotate_left(3)]); // no panic
        }
    }
}
