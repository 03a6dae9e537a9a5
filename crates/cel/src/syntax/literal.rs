//! Values of literals.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use super::token::Token;
use crate::ast::Literal;

/// The value of a literal token.
pub(crate) fn value(token: Token, text: &str, minus: bool) -> Result<Literal, &'static str> {
    let integer = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    Ok(match token {
        Token::Int => {
            let number = integer(text).map_err(|_| "invalid int literal")?;
            let number = if minus { -i128::from(number) } else { i128::from(number) };
            Literal::Int(i64::try_from(number).map_err(|_| "invalid int literal")?)
        }
        Token::Uint => {
            let digits = text.strip_suffix(['u', 'U']).unwrap_or(text);
            Literal::Uint(integer(digits).map_err(|_| "invalid uint literal")?)
        }
        Token::Float => {
            let number: f64 = text.parse().map_err(|_| "invalid double literal")?;
            if number.is_infinite() {
                return Err("invalid double literal");
            }
            Literal::Double(if minus { -number } else { number })
        }
        Token::Text => {
            let bytes = unescape(text, false)?;
            let text = String::from_utf8(bytes).map_err(|_| "unable to unescape string")?;
            Literal::Text(text.into())
        }
        Token::Bytes => Literal::Bytes(unescape(text.get(1..).unwrap_or_default(), true)?.into()),
        Token::True => Literal::Bool(true),
        Token::False => Literal::Bool(false),
        _ => Literal::Null,
    })
}

/// The bytes of a string token, including quotes and `r`; it must be text unless `bytes` is set.
fn unescape(token: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let token = token.replace("\r\n", "\n").replace('\r', "\n");
    let raw = token.starts_with(['r', 'R']);
    let token = token.strip_prefix(['r', 'R']).unwrap_or(&token);
    let quotes = if token.len() >= 6 && (token.starts_with("'''") || token.starts_with("\"\"\"")) {
        3
    } else {
        1
    };
    let body =
        token.get(quotes..token.len().saturating_sub(quotes)).ok_or("unable to unescape string")?;
    if raw || !body.contains('\\') {
        return Ok(body.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            push(&mut out, c);
            continue;
        }
        match rest.next().ok_or("unable to unescape string, found '\\' as last character")? {
            'a' => out.push(7),
            'b' => out.push(8),
            'f' => out.push(12),
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            'v' => out.push(11),
            c @ ('\\' | '\'' | '"' | '`' | '?') => push(&mut out, c),
            'x' | 'X' => point(&mut out, digits(&mut rest, 0, 2, 16)?, bytes)?,
            'u' | 'U' if bytes => return Err("unable to unescape string"),
            'u' => point(&mut out, digits(&mut rest, 0, 4, 16)?, false)?,
            'U' => point(&mut out, digits(&mut rest, 0, 8, 16)?, false)?,
            c @ '0'..='3' => {
                point(&mut out, digits(&mut rest, u32::from(c) - 48, 2, 8)?, bytes)?;
            }
            _ => return Err("unable to unescape string"),
        }
    }
    Ok(out)
}

fn digits(
    rest: &mut std::str::Chars<'_>,
    first: u32,
    count: usize,
    base: u32,
) -> Result<u32, &'static str> {
    let mut value = first;
    for _ in 0..count {
        let digit =
            rest.next().and_then(|c| c.to_digit(base)).ok_or("unable to unescape string")?;
        value = value.wrapping_mul(base).wrapping_add(digit);
    }
    Ok(value)
}

fn point(out: &mut Vec<u8>, value: u32, byte: bool) -> Result<(), &'static str> {
    if byte {
        out.push(u8::try_from(value).map_err(|_| "unable to unescape string")?);
    } else {
        push(out, char::from_u32(value).ok_or("invalid unicode code point")?);
    }
    Ok(())
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_quotes_and_escapes() {
        for (token, bytes, value) in [
            ("'a'", false, "a".as_bytes()),
            ("''", false, b""),
            ("'''a'b'''", false, b"a'b"),
            (r"r'a\n'", false, br"a\n"),
            (r#""\n\t\x41\u00e9\101""#, false, "\n\tAéA".as_bytes()),
            (r"'\xff\377'", true, &[0xff, 0xff]),
            (r"'\xff'", false, "ÿ".as_bytes()),
        ] {
            assert_eq!(unescape(token, bytes).as_deref(), Ok(value), "{token}");
        }
        assert_eq!(unescape(r"'\ud800'", false), Err("invalid unicode code point"));
        assert_eq!(unescape(r"'\u0041'", true), Err("unable to unescape string"));
    }
}
