//! JSON scalars: strings, numbers, and the three literals.

use std::borrow::Cow;

use super::{JsonError, Reader};
use crate::Value;

impl<'a> Reader<'a> {
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let from = self.at;
        self.at += plain(self.text.get(from..).unwrap_or_default());
        match self.peek()? {
            b'"' => {
                let text = self.since(from)?;
                self.at += 1;
                Ok(Cow::Borrowed(text))
            }
            b'\\' => self.escaped(from).map(Cow::Owned),
            _ => Err(self.unexpected("in string literal")),
        }
    }

    /// The input from `from` to the current position.
    pub(super) fn since(&self, from: usize) -> Result<&'a str, JsonError> {
        self.utf8_prefix.get(from..self.at).ok_or(JsonError::Encoding)
    }

    fn escaped(&mut self, from: usize) -> Result<String, JsonError> {
        let mut out = self.text.get(from..self.at).unwrap_or_default().to_vec();
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return String::from_utf8(out).map_err(|_| JsonError::Encoding);
                }
                b'\\' => {
                    self.at += 1;
                    let c = self.escape()?;
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                0..=0x1f => return Err(self.unexpected("in string literal")),
                byte => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let c = match self.current_byte() {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            c @ (b'"' | b'\\' | b'/') => char::from(c),
            b'u' => {
                self.at += 1;
                let high = self.hex()?;
                if let (0xd800..=0xdbff, Some(b"\\u")) = (high, self.text.get(self.at..self.at + 2))
                {
                    let before = self.at;
                    self.at += 2;
                    let low = self.hex()?;
                    if let 0xdc00..=0xdfff = low {
                        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    self.at = before;
                }
                return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    fn hex(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.current_byte()).to_digit(16) else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    pub(super) fn number(&mut self) -> Result<Value, JsonError> {
        let from = self.at;
        if self.current_byte() == b'-' {
            self.at += 1;
        }
        match self.current_byte() {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        let mut whole = true;
        if self.text.get(self.at) == Some(&b'.') {
            whole = false;
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            whole = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
        }
        let text = self.since(from)?;
        if whole {
            if let Ok(n) = text.parse::<i64>() {
                return Ok(Value::Int(n));
            } else if let Ok(n) = text.parse::<u64>() {
                return Ok(Value::UInt(n));
            }
        }
        match text.parse::<f64>() {
            Ok(n) if n.is_finite() => Ok(Value::Float(n)),
            _ => Err(JsonError::Number(text.to_owned())),
        }
    }

    fn digit(&mut self, context: &'static str) -> Result<(), JsonError> {
        if !self.current_byte().is_ascii_digit() {
            return Err(self.unexpected(context));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    pub(super) fn literal(&mut self, word: &'static str, value: Value) -> Result<Value, JsonError> {
        for expected in word.bytes() {
            if self.current_byte() != expected {
                let (found, expected) = (char::from(self.current_byte()), char::from(expected));
                return Err(JsonError::Literal { found, word, expected });
            }
            self.at += 1;
        }
        Ok(value)
    }
}

/// The number of leading bytes of a string that need no unescaping. Eight bytes are tested at once: a byte that is
/// sought borrows from its top bit.
fn plain(text: &[u8]) -> usize {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    let below = |bytes: u64, limit: u64| bytes.wrapping_sub(EACH * limit) & !bytes;
    let (eights, rest) = text.as_chunks();
    for (eight, at) in eights.iter().zip((0..).step_by(8)) {
        let bytes = u64::from_le_bytes(*eight);
        let (quotes, slashes) = (bytes ^ (EACH * 0x22), bytes ^ (EACH * 0x5c));
        let found = (below(bytes, 0x20) | below(quotes, 1) | below(slashes, 1)) & (EACH * 0x80);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
    text.len() - rest.len() + rest.iter().position(special).unwrap_or(rest.len())
}
