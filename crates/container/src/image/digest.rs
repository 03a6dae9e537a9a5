//! Content digests (`sha256:…`), and readers and writers that compute them on the fly.

use std::{
    fmt::{self, Write as _},
    io::{self, Read, Write},
};

use serde::{Deserialize, Serialize};

use super::{Error, Result};

/// A SHA-256 digest, as `sha256:HEX`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// Computes the digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hash(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
    }

    /// The chain id of a stack of layers: the hash of the lower stack's chain id and the top layer's diff id.
    pub(super) fn chain_id(below: Option<&Digest>, diff: &Digest) -> Self {
        below.map_or_else(|| diff.clone(), |below| Self::of(format!("{below} {diff}").as_bytes()))
    }

    pub fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }

    fn from_hash(hash: &[u8]) -> Self {
        let mut text = String::from("sha256:");
        for byte in hash {
            write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        }
        Self(text)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = Error;

    /// Validates a digest. All digests from outside pass through here, so every `Digest` is a safe file name.
    fn try_from(text: String) -> Result<Self> {
        let hex = text
            .strip_prefix("sha256:")
            .ok_or_else(|| Error::malformed(format!("unsupported digest {text:?}")))?;
        if hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            Ok(Self(text))
        } else {
            Err(Error::malformed(format!("invalid digest {text:?}")))
        }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

/// Computes digest and length of the bytes that are read or written through it.
pub(super) struct DigestStream<T> {
    inner: T,
    context: ring::digest::Context,
    length: u64,
    limit: u64,
}

impl<T> DigestStream<T> {
    /// More than `limit` bytes cause an error.
    pub(super) fn new(inner: T, limit: u64) -> Self {
        let context = ring::digest::Context::new(&ring::digest::SHA256);
        Self { inner, context, length: 0, limit }
    }

    pub(super) fn finish(self) -> (T, Digest, u64) {
        (self.inner, Digest::from_hash(self.context.finish().as_ref()), self.length)
    }

    fn update(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len() as u64;
        if self.length > self.limit {
            return Err(Error::malformed(format!("more than {} bytes", self.limit)).into());
        }
        self.context.update(bytes);
        Ok(())
    }
}

impl<R: Read> Read for DigestStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.update(&buffer[..count])?;
        Ok(count)
    }
}

impl<W: Write> Write for DigestStream<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.update(&buffer[..count])?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_digests_pass() {
        let good = format!("sha256:{}", "a".repeat(64));
        assert_eq!(Digest::try_from(good.clone()).map(String::from).ok(), Some(good));
        for bad in [
            "sha256:../../etc/passwd",
            "sha512:00",
            "sha256:AA",
            "",
            &format!("sha256:{}", "A".repeat(64)),
        ] {
            assert!(Digest::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn digest_and_limit() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        let mut hashing = DigestStream::new(io::sink(), 4);
        hashing.write_all(b"four").expect("within the limit");
        assert!(hashing.write_all(b"!").is_err());
    }
}
