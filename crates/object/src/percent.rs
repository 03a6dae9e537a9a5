//! Percent-encoding in URLs.

use crate::Text;

/// Decodes percent-encoding. With `plus`, as in queries, a plus sign is a space. Bytes that are not UTF-8 are replaced.
pub fn percent_decode(text: &str, plus: bool) -> Text {
    if !text.contains(['%', '+']) {
        return text.into();
    }
    String::from_utf8_lossy(&percent_decode_bytes(text, plus)).as_ref().into()
}

/// Like `percent_decode`, for text that may not be UTF-8. What is no escape stays as it is.
pub fn percent_decode_bytes(text: &str, plus: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let digits = match tail {
            [high, low, ..] if *first == b'%' => digit(*high).zip(digit(*low)),
            _ => None,
        };
        match digits {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = tail.get(2..).unwrap_or_default();
            }
            None if plus && *first == b'+' => bytes.push(b' '),
            None => bytes.push(*first),
        }
    }
    bytes
}

/// A hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_escapes_are_decoded() {
        for (text, plus, decoded) in [
            ("a%2Fb", false, "a/b"),
            ("a+b", false, "a+b"),
            ("a+b%2b", true, "a b+"),
            ("%zz%4", false, "%zz%4"),
            ("%+f", false, "%+f"),
            ("%e4%bd%a0", false, "你"),
        ] {
            assert_eq!(percent_decode(text, plus), decoded, "{text}");
        }
        assert_eq!(percent_decode_bytes("%ff", false), [0xff]);
    }
}
