//! The interface to cryptography, which this crate does not contain: a verifier of signatures is installed at start.

use std::sync::OnceLock;

/// Given a key (a SubjectPublicKeyInfo), how many bits of SHA-2 were signed, the message and
/// the signature. `None`: it cannot be told of such a key.
pub type VerifySignature = fn(&[u8], u16, &[u8], &[u8]) -> Option<bool>;

static VERIFY: OnceLock<VerifySignature> = OnceLock::new();

/// From now on signatures are looked at. Only the first counts.
pub fn install_verifier(verify: VerifySignature) {
    VERIFY.get_or_init(|| verify);
}

pub(crate) fn verify_signature(
    key: &[u8],
    bits: u16,
    message: &[u8],
    signature: &[u8],
) -> Option<bool> {
    VERIFY.get().and_then(|verify| verify(key, bits, message, signature))
}
