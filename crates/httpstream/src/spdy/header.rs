//! SPDY header blocks: names and values, compressed with zlib and a fixed dictionary. The compression state spans all
//! blocks of one direction, so every block must be decoded, and in order.

use std::io;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

const LARGEST_BLOCK: usize = 64 << 10;
const MOST_HEADERS: u32 = 256;

/// Headers, with names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(have, _)| have.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

impl<K: AsRef<str>, V: Into<String>> FromIterator<(K, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(headers: I) -> Self {
        Self(
            headers
                .into_iter()
                .map(|(name, value)| (name.as_ref().to_ascii_lowercase(), value.into()))
                .collect(),
        )
    }
}

/// The compression state of the sending direction.
#[derive(Debug)]
pub(super) struct Encoder(Compress);

/// The decompression state of the receiving direction.
#[derive(Debug)]
pub(super) struct Decoder(Decompress);

impl Encoder {
    pub(super) fn new() -> Self {
        let mut compress = Compress::new(Compression::fast(), true);
        #[expect(clippy::expect_used, reason = "fails only after something has been compressed")]
        compress.set_dictionary(&dictionary()).expect("nothing has been compressed yet");
        Self(compress)
    }

    pub(super) fn encode(&mut self, headers: &Headers) -> io::Result<Vec<u8>> {
        let mut plain = length(headers.0.len())?.to_vec();
        for text in headers.0.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend(length(text.len())?);
            plain.extend(text.as_bytes());
        }
        let mut block = Vec::with_capacity(plain.len() + 64);
        let mut input = &plain[..];
        loop {
            let before = self.0.total_in();
            self.0
                .compress_vec(input, &mut block, FlushCompress::Sync)
                .map_err(io::Error::other)?;
            input = unread(input, self.0.total_in() - before);
            if input.is_empty() && block.len() < block.capacity() {
                return Ok(block);
            }
            block.reserve(256);
        }
    }
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self(Decompress::new(true))
    }

    pub(super) fn decode(&mut self, block: &[u8]) -> io::Result<Headers> {
        let plain = self.inflate(block)?;
        let mut rest = &plain[..];
        let count = take_length(&mut rest)?;
        if count > MOST_HEADERS {
            return Err(invalid());
        }
        (0..count).map(|_| Ok((take_text(&mut rest)?, take_text(&mut rest)?))).collect()
    }

    fn inflate(&mut self, mut block: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::with_capacity(1024);
        loop {
            let before = self.0.total_in();
            let status = match self.0.decompress_vec(block, &mut plain, FlushDecompress::Sync) {
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&dictionary()).map_err(|_| invalid())?;
                    Status::Ok
                }
                status => status.map_err(|_| invalid())?,
            };
            block = unread(block, self.0.total_in() - before);
            if plain.len() > LARGEST_BLOCK || status == Status::StreamEnd {
                return Err(invalid());
            }
            if block.is_empty() && plain.len() < plain.capacity() {
                return Ok(plain);
            }
            if status == Status::BufError && plain.len() < plain.capacity() {
                return Err(invalid());
            }
            plain.reserve(1024);
        }
    }
}

/// The rest of the input after `read` bytes of it.
fn unread(input: &[u8], read: u64) -> &[u8] {
    usize::try_from(read).ok().and_then(|read| input.get(read..)).unwrap_or_default()
}

fn take_length(rest: &mut &[u8]) -> io::Result<u32> {
    let (bytes, after) = rest.split_first_chunk::<4>().ok_or_else(invalid)?;
    *rest = after;
    Ok(u32::from_be_bytes(*bytes))
}

fn take_text(rest: &mut &[u8]) -> io::Result<String> {
    let length = take_length(rest)? as usize;
    let (bytes, after) = rest.split_at_checked(length).ok_or_else(invalid)?;
    *rest = after;
    String::from_utf8(bytes.to_vec()).map_err(|_| invalid())
}

fn length(of: usize) -> io::Result<[u8; 4]> {
    Ok(u32::try_from(of).map_err(|_| invalid())?.to_be_bytes())
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "invalid SPDY headers")
}

/// The dictionary of SPDY/3: words with their lengths, then plain text.
fn dictionary() -> Vec<u8> {
    let words = WORDS
        .split('|')
        .flat_map(|word| length(word.len()).unwrap_or_default().into_iter().chain(word.bytes()));
    words.chain(TEXT.bytes()).collect()
}

const WORDS: &str = "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|\
    accept-ranges|age|allow|authorization|cache-control|connection|content-base|content-encoding|content-language|\
    content-length|content-location|content-md5|content-range|content-type|date|etag|expect|expires|from|host|\
    if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|location|max-forwards|pragma|\
    proxy-authenticate|proxy-authorization|range|referer|retry-after|server|te|trailer|transfer-encoding|upgrade|\
    user-agent|vary|via|warning|www-authenticate|method|get|status|200 OK|version|HTTP/1.1|url|public|set-cookie|\
    keep-alive|origin";

const TEXT: &str = "1001012012022052063003023033043053063074024054064074084094104114124134144154164175025045052\
    03 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden\
    404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug \
    Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,\
    application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch\
    charset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_share_a_history() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let headers: Headers = [("streamType", "stdin"), ("port", "80")].into_iter().collect();
        let sizes = [(), (), ()].map(|()| {
            let block = encoder.encode(&headers).expect("in memory");
            assert_eq!(decoder.decode(&block).expect("valid"), headers);
            block.len()
        });
        assert!(sizes[1] < sizes[0], "the second block refers to the first: {sizes:?}");
        assert_eq!(headers.get("streamtype"), Some("stdin"));
        let many: Headers = (0..200).map(|n| (format!("name-{n}"), "v".repeat(n))).collect();
        assert_eq!(
            decoder.decode(&encoder.encode(&many).expect("in memory")).expect("valid"),
            many
        );
    }

    #[test]
    fn the_dictionary_is_the_standards() {
        let adler = dictionary().iter().fold((1u32, 0u32), |(a, b), &byte| {
            let a = (a + u32::from(byte)) % 65521;
            (a, (b + a) % 65521)
        });
        assert_eq!((dictionary().len(), adler.1 << 16 | adler.0), (1423, 0xe3c6_a7c2));
    }

    #[test]
    fn hostile_blocks() {
        for block in [&b"junk"[..], &[0x78, 0xbb], &[]] {
            assert!(Decoder::new().decode(block).is_err());
        }
        let bomb: Headers = [("a", "x".repeat(1 << 20))].into_iter().collect();
        let block = Encoder::new().encode(&bomb).expect("in memory");
        assert!(
            block.len() < 64 << 10 && Decoder::new().decode(&block).is_err(),
            "a small block that grows"
        );
    }
}
