//! The ciphers of the providers, with upstream's storage formats.

use std::{fmt, sync::Arc};

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::{
    AesGcm, KeyInit, Nonce,
    aead::{Aead, Payload, consts::U12},
};
use cbc::cipher::{
    BlockModeDecrypt, BlockModeEncrypt, KeyIvInit, StreamCipher, block_padding::Pkcs7,
};
use poly1305::Poly1305;
use ring::rand::{SecureRandom, SystemRandom};
use salsa20::XSalsa20;

use super::kms::Kms;

/// A provider with one of its keys.
#[derive(Clone)]
pub(super) enum Cipher {
    Identity,
    AesGcm {
        prefix: String,
        key: Vec<u8>,
    },
    AesCbc {
        prefix: String,
        key: Vec<u8>,
    },
    Secretbox {
        prefix: String,
        key: [u8; 32],
    },
    /// The key is in a KMS.
    Kms(Arc<Kms>),
}

/// Omits the key, which must not be logged.
impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix())
    }
}

impl Cipher {
    pub(super) fn prefix(&self) -> &str {
        match self {
            Self::Identity => "identity",
            Self::Kms(kms) => &kms.prefix,
            Self::AesGcm { prefix, .. }
            | Self::AesCbc { prefix, .. }
            | Self::Secretbox { prefix, .. } => prefix,
        }
    }

    /// Encrypts a value. `at` is its storage key: `aesgcm` authenticates it, so that the ciphertext
    /// cannot be moved to another key.
    pub(super) fn seal(&self, at: &str, text: &[u8]) -> Option<Vec<u8>> {
        let mut out = self.prefix().as_bytes().to_vec();
        match self {
            Self::Identity => return None,
            Self::Kms(kms) => return kms.seal(at, text),
            Self::AesGcm { key, .. } => out.extend(seal_gcm(key, at, text)?),
            Self::AesCbc { key, .. } => {
                let vector = random::<16>()?;
                out.extend_from_slice(&vector);
                out.extend(match key.len() {
                    16 => cbc::Encryptor::<Aes128>::new_from_slices(key, &vector)
                        .ok()?
                        .encrypt_padded_vec::<Pkcs7>(text),
                    24 => cbc::Encryptor::<Aes192>::new_from_slices(key, &vector)
                        .ok()?
                        .encrypt_padded_vec::<Pkcs7>(text),
                    _ => cbc::Encryptor::<Aes256>::new_from_slices(key, &vector)
                        .ok()?
                        .encrypt_padded_vec::<Pkcs7>(text),
                });
            }
            Self::Secretbox { key, .. } => {
                let nonce = random::<24>()?;
                out.extend_from_slice(&nonce);
                let (mut stream, mac) = secretbox(key, &nonce);
                let mut sealed = text.to_vec();
                stream.apply_keystream(&mut sealed);
                out.extend_from_slice(&mac.compute_unpadded(&sealed));
                out.extend(sealed);
            }
        }
        Some(out)
    }

    /// Decrypts a value; `None` if it has another prefix or was modified.
    pub(super) fn open(&self, at: &str, stored: &[u8]) -> Option<Vec<u8>> {
        let sealed = stored.strip_prefix(self.prefix().as_bytes())?;
        match self {
            Self::Identity => None,
            Self::Kms(kms) => kms.open(at, stored),
            Self::AesGcm { key, .. } => open_gcm(key, at, sealed),
            Self::AesCbc { key, .. } => {
                let (vector, sealed) = sealed.split_at_checked(16)?;
                match key.len() {
                    16 => cbc::Decryptor::<Aes128>::new_from_slices(key, vector)
                        .ok()?
                        .decrypt_padded_vec::<Pkcs7>(sealed),
                    24 => cbc::Decryptor::<Aes192>::new_from_slices(key, vector)
                        .ok()?
                        .decrypt_padded_vec::<Pkcs7>(sealed),
                    _ => cbc::Decryptor::<Aes256>::new_from_slices(key, vector)
                        .ok()?
                        .decrypt_padded_vec::<Pkcs7>(sealed),
                }
                .ok()
            }
            Self::Secretbox { key, .. } => {
                let (nonce, rest) = sealed.split_at_checked(24)?;
                let (tag, sealed) = rest.split_at_checked(16)?;
                let (mut stream, mac) = secretbox(key, nonce.try_into().ok()?);
                let mut opened = sealed.to_vec();
                let is = mac.compute_unpadded(sealed);
                // Constant-time comparison.
                let different = is.iter().zip(tag).fold(0, |different, (a, b)| different | (a ^ b));
                (different == 0).then_some(())?;
                stream.apply_keystream(&mut opened);
                Some(opened)
            }
        }
    }
}

/// Encrypts with AES-GCM and a random nonce, which the result begins with. `at` is authenticated.
pub(super) fn seal_gcm(key: &[u8], at: &str, text: &[u8]) -> Option<Vec<u8>> {
    let nonce = random::<12>()?;
    let sealed = gcm(key, &nonce, Payload { msg: text, aad: at.as_bytes() }, true)?;
    Some([&nonce[..], &sealed].concat())
}

pub(super) fn open_gcm(key: &[u8], at: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_at_checked(12)?;
    gcm(key, nonce, Payload { msg: sealed, aad: at.as_bytes() }, false)
}

fn gcm(key: &[u8], nonce: &[u8], payload: Payload<'_, '_>, seals: bool) -> Option<Vec<u8>> {
    fn with<C: Aead>(
        cipher: &C,
        nonce: &aes_gcm::aead::Nonce<C>,
        payload: Payload<'_, '_>,
        seals: bool,
    ) -> Option<Vec<u8>> {
        if seals {
            cipher.encrypt(nonce, payload).ok()
        } else {
            cipher.decrypt(nonce, payload).ok()
        }
    }
    let nonce = Nonce::<U12>::try_from(nonce).ok()?;
    match key.len() {
        16 => with(&AesGcm::<Aes128, U12>::new_from_slice(key).ok()?, &nonce, payload, seals),
        24 => with(&AesGcm::<Aes192, U12>::new_from_slice(key).ok()?, &nonce, payload, seals),
        _ => with(&AesGcm::<Aes256, U12>::new_from_slice(key).ok()?, &nonce, payload, seals),
    }
}

/// XSalsa20 and Poly1305 combined as in NaCl: the first 32 bytes of the stream are the key of the
/// MAC, and the text is encrypted with what follows.
fn secretbox(key: &[u8; 32], nonce: &[u8; 24]) -> (XSalsa20, Poly1305) {
    let mut stream = XSalsa20::new(key.into(), nonce.into());
    let mut first = [0; 32];
    stream.apply_keystream(&mut first);
    let mac = Poly1305::new((&first).into());
    (stream, mac)
}

pub(super) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}
