//! Encryption of bytes with a passphrase or a key file: AES-256-GCM, with a key that PBKDF2 derives from the secret.

use std::{num::NonZeroU32, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    pbkdf2,
    rand::{SecureRandom, SystemRandom},
};

const HEADER: &[u8; 16] = b"tiphys-sealed-1\n";
const SALT: usize = 16;
/// PBKDF2 iterations; OWASP's recommendation for HMAC-SHA-256.
const ITERATIONS: u32 = 600_000;
/// Maximum number of iterations to accept from a file; more would take hours.
const MOST_ITERATIONS: u32 = 10_000_000;
/// Minimum length of a passphrase; shorter ones can be guessed.
const SHORTEST: usize = 8;
const LARGEST_SECRET: u64 = 1 << 20;

/// The content of a passphrase file or key file.
pub(super) struct Secret(Vec<u8>);

impl Secret {
    /// Reads a passphrase: the first line of a file, or of standard input for `-`.
    pub(super) fn passphrase(path: &Path) -> Result<Self> {
        let bytes = read(path)?;
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        ensure!(
            line.len() >= SHORTEST,
            "the passphrase in {} is too short: at least {SHORTEST} characters",
            path.display()
        );
        Ok(Self(line.to_vec()))
    }

    /// Reads a key: the whole content of a file.
    pub(super) fn key_file(path: &Path) -> Result<Self> {
        let bytes = read(path)?;
        ensure!(bytes.len() >= 32, "the key in {} has fewer than 32 bytes", path.display());
        Ok(Self(bytes))
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read;
    let about = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).with_context(about)?)
    };
    source.take(LARGEST_SECRET + 1).read_to_end(&mut bytes).with_context(about)?;
    ensure!(bytes.len() as u64 <= LARGEST_SECRET, "{} is too large", path.display());
    Ok(bytes)
}

/// Encrypts bytes with a key derived from the secret.
pub(super) fn seal(secret: &Secret, plain: &[u8]) -> Result<Vec<u8>> {
    seal_with(secret, plain, ITERATIONS)
}

fn seal_with(secret: &Secret, plain: &[u8], iterations: u32) -> Result<Vec<u8>> {
    let (random, mut salt, mut nonce) = (SystemRandom::new(), [0; SALT], [0; NONCE_LEN]);
    for part in [&mut salt[..], &mut nonce[..]] {
        random.fill(part).ok().context("the system's source of randomness failed")?;
    }
    let mut sealed = HEADER.to_vec();
    sealed.extend(iterations.to_be_bytes());
    sealed.extend(salt);
    let mut bytes = plain.to_vec();
    let key = key(secret, &salt, iterations)?;
    let tag = key.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(&sealed),
        &mut bytes,
    );
    tag.ok().context("the data to encrypt is too large")?;
    sealed.extend(nonce);
    sealed.extend(bytes);
    Ok(sealed)
}

/// Decrypts what `seal` returned; fails if the secret is another one.
pub(super) fn open(secret: &Secret, sealed: &[u8]) -> Result<Vec<u8>> {
    let damaged = "the sealed keys are damaged";
    let (header, rest) = sealed.split_at_checked(HEADER.len()).context(damaged)?;
    if header != HEADER {
        bail!("the sealed keys are of another version of tiphys");
    }
    let (iterations, rest) = rest.split_first_chunk::<4>().context(damaged)?;
    let (salt, rest) = rest.split_first_chunk::<SALT>().context(damaged)?;
    let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>().context(damaged)?;
    let iterations = u32::from_be_bytes(*iterations);
    ensure!((1..=MOST_ITERATIONS).contains(&iterations), "{damaged}");
    let about = &sealed[..HEADER.len() + 4 + SALT];
    let mut bytes = rest.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let opened = key(secret, salt, iterations)?.open_in_place(nonce, Aad::from(about), &mut bytes);
    let opened =
        opened.ok().context("the passphrase or key file is not the one they were sealed with")?;
    Ok(opened.to_vec())
}

fn key(secret: &Secret, salt: &[u8], iterations: u32) -> Result<LessSafeKey> {
    let iterations = NonZeroU32::new(iterations).context("no iterations")?;
    let mut bytes = [0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, &secret.0, &mut bytes);
    let key = UnboundKey::new(&AES_256_GCM, &bytes).ok().context("a key has 32 bytes")?;
    Ok(LessSafeKey::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_secret_opens() {
        let secret = |text: &str| Secret(text.as_bytes().to_vec());
        let sealed = seal_with(&secret("correct horse"), b"the keys", 1000).unwrap();
        assert!(!sealed.windows(8).any(|part| part == b"the keys"));
        assert_eq!(open(&secret("correct horse"), &sealed).unwrap(), b"the keys");
        let error = open(&secret("wrong"), &sealed).unwrap_err().to_string();
        assert!(error.contains("not the one they were sealed with"), "{error}");
        for at in [0, 19, 25, 40, sealed.len() - 1] {
            let mut torn = sealed.clone();
            torn[at] ^= 1;
            assert!(open(&secret("correct horse"), &torn).is_err(), "byte {at}");
        }
        for length in [0, 15, 30, 48] {
            assert!(open(&secret("x"), &sealed[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn secrets_are_read_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "a long passphrase\nand a second line\n").unwrap();
        assert_eq!(Secret::passphrase(&path).unwrap().0, b"a long passphrase");
        assert!(Secret::key_file(&path).unwrap().0.ends_with(b"line\n"));
        std::fs::write(&path, "short").unwrap();
        assert!(Secret::passphrase(&path).is_err() && Secret::key_file(&path).is_err());
    }
}
