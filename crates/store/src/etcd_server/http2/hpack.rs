//! HPACK, the header compression of HTTP/2 (RFC 7541).
//!
//! The decoder supports everything that clients may use. Responses are encoded without the dynamic table, so that the
//! same bytes can be sent again and again.

use std::collections::VecDeque;

use bytes::Bytes;

use super::huffman;

/// Maximum size of the dynamic table, as RFC 7541 counts it.
const TABLE: usize = 4_096;
/// Size that an entry counts in addition to its bytes.
const OVERHEAD: usize = 32;
/// Maximum size of the headers of one request.
const LARGEST: usize = 64 << 10;

pub(super) type Field = (Bytes, Bytes);

/// An invalid header block. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HpackError;

/// The dynamic table of one direction of a connection.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Newest first.
    entries: VecDeque<Field>,
    size: usize,
    limit: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { entries: VecDeque::new(), size: 0, limit: TABLE }
    }
}

impl Decoder {
    /// Decodes a complete header block and adds its headers to `fields`.
    pub(super) fn decode(
        &mut self,
        block: &[u8],
        fields: &mut Vec<Field>,
    ) -> Result<(), HpackError> {
        let (mut rest, mut size) = (Reader(block), 0);
        while let Some(first) = rest.0.first().copied() {
            let field = match first {
                0x80.. => self.entry(rest.number(7)?)?,
                0x40.. => {
                    let field = self.literal(&mut rest, 6)?;
                    self.insert(field.clone());
                    field
                }
                0x20.. if size > 0 => return Err(HpackError), // a size update is allowed only before all fields
                0x20.. => {
                    let limit = rest.number(5)?;
                    self.limit = if limit > TABLE { return Err(HpackError) } else { limit };
                    self.shrink(0);
                    continue;
                }
                _ => self.literal(&mut rest, 4)?,
            };
            size += field.0.len() + field.1.len() + OVERHEAD;
            if size > LARGEST {
                return Err(HpackError);
            }
            fields.push(field);
        }
        Ok(())
    }

    fn literal(&self, rest: &mut Reader<'_>, bits: u8) -> Result<Field, HpackError> {
        let name = match rest.number(bits)? {
            0 => rest.text()?,
            index => self.entry(index)?.0,
        };
        Ok((name, rest.text()?))
    }

    fn entry(&self, index: usize) -> Result<Field, HpackError> {
        let index = index.checked_sub(1).ok_or(HpackError)?;
        if let Some((name, value)) = STATIC.get(index) {
            let text = |text: &'static str| Bytes::from_static(text.as_bytes());
            return Ok((text(name), text(value)));
        }
        self.entries.get(index - STATIC.len()).cloned().ok_or(HpackError)
    }

    fn insert(&mut self, field: Field) {
        let size = field.0.len() + field.1.len() + OVERHEAD;
        self.shrink(size);
        if size <= self.limit {
            self.size += size;
            self.entries.push_front(field);
        }
    }

    /// Evicts the oldest entries until there is room for `more`, or none is left.
    fn shrink(&mut self, more: usize) {
        while self.size + more > self.limit {
            let Some((name, value)) = self.entries.pop_back() else { break };
            self.size -= name.len() + value.len() + OVERHEAD;
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// An integer whose prefix is the last `bits` bits of the next byte.
    fn number(&mut self, bits: u8) -> Result<usize, HpackError> {
        let mask = (1_usize << bits) - 1;
        let mut number = usize::from(self.byte()?) & mask;
        if number < mask {
            return Ok(number);
        }
        for shift in (0..28).step_by(7) {
            let byte = usize::from(self.byte()?);
            number += (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(HpackError)
    }

    fn text(&mut self) -> Result<Bytes, HpackError> {
        let coded = self.0.first().ok_or(HpackError)? & 0x80 != 0;
        let length = self.number(7)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(HpackError)?;
        self.0 = rest;
        if coded {
            huffman::decode(text).map(Bytes::from).ok_or(HpackError)
        } else {
            Ok(Bytes::copy_from_slice(text))
        }
    }

    fn byte(&mut self) -> Result<u8, HpackError> {
        let (first, rest) = self.0.split_first().ok_or(HpackError)?;
        self.0 = rest;
        Ok(*first)
    }
}

/// Writes a literal header without indexing.
pub(super) fn write(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.push(0);
    for text in [name, value] {
        number(out, text.len());
        out.extend_from_slice(text);
    }
}

/// Writes a status: `:status` has index 8 in the static table.
pub(super) fn write_status(out: &mut Vec<u8>, status: u16) {
    match status {
        200 => out.push(0x88),
        status => {
            let text = status.to_string();
            out.push(0x08);
            number(out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// A string length: an integer with a 7-bit prefix.
fn number(out: &mut Vec<u8>, number: usize) {
    let Some(mut rest) = number.checked_sub(0x7f) else {
        return out.push(u8::try_from(number).expect("below 127"));
    };
    out.push(0x7f);
    while rest >= 0x80 {
        out.push(0x80 | u8::try_from(rest & 0x7f).expect("seven bits"));
        rest >>= 7;
    }
    out.push(u8::try_from(rest).expect("below 128"));
}

/// The static table (appendix A).
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, HpackError> {
        let mut fields = Vec::new();
        decoder.decode(block, &mut fields)?;
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        Ok(fields.into_iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    /// The three requests of RFC 7541, C.3, on one connection.
    #[test]
    fn later_requests_refer_to_earlier_ones() {
        let mut decoder = Decoder::default();
        let first = [&[0x82, 0x86, 0x84, 0x41, 0x0f][..], b"www.example.com"].concat();
        let fields = read(&mut decoder, &first).unwrap();
        assert_eq!(fields[0], (":method".into(), "GET".into()));
        assert_eq!(fields[3], (":authority".into(), "www.example.com".into()));
        let second = [&[0x82, 0x86, 0x84, 0xbe, 0x58, 0x08][..], b"no-cache"].concat();
        let fields = read(&mut decoder, &second).unwrap();
        assert_eq!(fields[3], (":authority".into(), "www.example.com".into()));
        assert_eq!(fields[4], ("cache-control".into(), "no-cache".into()));
        let third =
            [&[0x82, 0x87, 0x85, 0xbf, 0x40, 0x0a][..], b"custom-key\x0ccustom-value"].concat();
        let fields = read(&mut decoder, &third).unwrap();
        assert_eq!(fields[4], ("custom-key".into(), "custom-value".into()));
        assert_eq!((decoder.entries.len(), decoder.size), (3, 164));
        assert_eq!(read(&mut decoder, &[0x20, 0xbe]), Err(HpackError), "the table is emptied");
    }

    #[test]
    fn what_is_written_can_be_read() {
        let long = "x".repeat(70_000 / 4);
        let mut block = Vec::new();
        write_status(&mut block, 200);
        write_status(&mut block, 503);
        write(&mut block, b"grpc-status", b"0");
        write(&mut block, b"long", long.as_bytes());
        let fields = read(&mut Decoder::default(), &block).unwrap();
        assert_eq!(fields[1], (":status".into(), "503".into()));
        assert_eq!(fields[2], ("grpc-status".into(), "0".into()));
        assert_eq!(fields[3], ("long".into(), long));
    }

    #[test]
    fn nonsense_is_refused() {
        for block in [
            &[0x80][..],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0x40, 0x05, b'a'],
            &[0x3f, 0xff, 0x7f],
            &[0xc0],
            &[0x00],
        ] {
            assert_eq!(read(&mut Decoder::default(), block), Err(HpackError), "{block:x?}");
        }
        let huge = [&[0x00, 0x01, b'a', 0x7f, 0x81, 0x80, 0x04][..], &vec![b'x'; 65_664]].concat();
        assert_eq!(read(&mut Decoder::default(), &huge), Err(HpackError));
    }
}
