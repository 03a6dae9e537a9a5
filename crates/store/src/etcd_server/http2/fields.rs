//! Validation of request headers (RFC 9113, section 8): lower case, each pseudo-header once and before the others, no
//! connection-specific header of HTTP/1.1.

use super::{frame::ErrorCode, hpack::Field};

/// Connection-specific headers, which HTTP/2 forbids.
const OF_CONNECTIONS: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// Validates the headers of a request and returns its content length, if declared.
pub(super) fn declared_length(fields: &[Field]) -> Result<Option<u64>, ErrorCode> {
    let [mut method, mut scheme, mut path, mut authority] = [false; 4];
    let (mut plain, mut length) = (false, None);
    for (name, value) in fields {
        let seen = match &**name {
            b":method" => &mut method,
            b":scheme" => &mut scheme,
            b":path" if !value.is_empty() => &mut path,
            b":authority" => &mut authority,
            name if !is_plain(name) || (name == b"te" && &**value != b"trailers") => {
                return Err(ErrorCode::Protocol);
            }
            b"content-length" => {
                let text = std::str::from_utf8(value).map_err(|_| ErrorCode::Protocol)?;
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                let said = text.parse().ok().filter(|_| digits).ok_or(ErrorCode::Protocol)?;
                if length.replace(said).is_some_and(|before| before != said) {
                    return Err(ErrorCode::Protocol);
                }
                plain = true;
                continue;
            }
            _ => {
                plain = true;
                continue;
            }
        };
        if plain || std::mem::replace(seen, true) {
            return Err(ErrorCode::Protocol); // a pseudo-header after a regular one, or repeated
        }
    }
    if method && scheme && path { Ok(length) } else { Err(ErrorCode::Protocol) }
}

/// Whether a header is a valid regular one, not a pseudo-header.
pub(super) fn is_plain(name: &[u8]) -> bool {
    !name.is_empty()
        && name[0] != b':'
        && !name.iter().any(u8::is_ascii_uppercase)
        && !OF_CONNECTIONS.contains(&name)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn check(fields: &[(&'static str, &'static str)]) -> Result<Option<u64>, ErrorCode> {
        let text = |text: &'static str| Bytes::from_static(text.as_bytes());
        let fields: Vec<Field> = fields.iter().map(|(n, v)| (text(n), text(v))).collect();
        declared_length(&fields)
    }

    #[test]
    fn requests_have_their_parts_first_and_once() {
        let get = [(":method", "GET"), (":scheme", "https"), (":path", "/")];
        let with = |more: &[(&'static str, &'static str)]| check(&[&get[..], more].concat());
        assert_eq!(check(&get), Ok(None));
        assert_eq!(with(&[("te", "trailers"), ("content-length", "7")]), Ok(Some(7)));
        for bad in [
            &[("te", "gzip")][..],
            &[("Upper", "x")],
            &[("connection", "close")],
            &[(":path", "/again")],
            &[(":status", "200")],
            &[("x", "y"), (":authority", "z")],
            &[("content-length", "1"), ("content-length", "2")],
            &[("content-length", "-1")],
            &[("content-length", "+1")],
            &[("", "x")],
        ] {
            assert_eq!(with(bad), Err(ErrorCode::Protocol), "{bad:?}");
        }
        for missing in 0..get.len() {
            let mut less = get.to_vec();
            less.remove(missing);
            assert_eq!(check(&less), Err(ErrorCode::Protocol));
        }
        assert_eq!(
            check(&[(":method", "GET"), (":scheme", "https"), (":path", "")]),
            Err(ErrorCode::Protocol)
        );
    }
}
