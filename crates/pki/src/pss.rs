//! RSASSA-PSS signatures with SHA-256 and a salt of any length (RFC 8017, 9.1.2). ring supports only one salt length;
//! Go uses the longest that fits. All inputs are public, so the code need not run in constant time.

use num_bigint::BigUint;
use ring::digest::{SHA256, digest};
use x509_parser::public_key::RSAPublicKey;

const HASH: usize = 32;
/// Maximum sizes of the modulus and the exponent in bits.
const LARGEST: usize = 8192;
const EXPONENT: u64 = 32;

pub(crate) fn verifies(key: &RSAPublicKey<'_>, message: &[u8], signature: &[u8]) -> bool {
    let (n, e) = (BigUint::from_bytes_be(key.modulus), BigUint::from_bytes_be(key.exponent));
    let Ok(bits) = usize::try_from(n.bits()) else { return false };
    let signed = BigUint::from_bytes_be(signature);
    let fits = signature.len() == bits.div_ceil(8) && signed < n;
    if !(1024..=LARGEST).contains(&bits) || e.bits() > EXPONENT || !fits {
        return false;
    }
    let opened = signed.modpow(&e, &n).to_bytes_be();
    let size = (bits - 1).div_ceil(8);
    let Some(zeros) = size.checked_sub(opened.len()) else { return false };
    let encoded = [vec![0; zeros], opened].concat();
    is_encoded(&encoded, 8 * size - (bits - 1), message)
}

/// Checks the encoded message. `spare` is the number of unused leading bits.
fn is_encoded(encoded: &[u8], spare: usize, message: &[u8]) -> bool {
    let Some((&0xbc, rest)) = encoded.split_last() else { return false };
    let Some(at) = rest.len().checked_sub(HASH) else { return false };
    let (masked, hash) = rest.split_at(at);
    let used = 0xff_u8.checked_shr(u32::try_from(spare).unwrap_or(8)).unwrap_or_default();
    if masked.first().is_none_or(|first| first & !used != 0) {
        return false;
    }
    let mut block: Vec<u8> =
        masked.iter().zip(mask(hash, masked.len())).map(|(byte, mask)| byte ^ mask).collect();
    if let Some(first) = block.first_mut() {
        *first &= used;
    }
    let Some(one) = block.iter().position(|byte| *byte != 0) else { return false };
    let Some((1, salt)) = block.get(one..).and_then(<[u8]>::split_first) else { return false };
    let inner = [&[0; 8][..], digest(&SHA256, message).as_ref(), salt].concat();
    digest(&SHA256, &inner).as_ref() == hash
}

/// The mask generation function MGF1.
fn mask(seed: &[u8], size: usize) -> Vec<u8> {
    let rounds = u32::try_from(size.div_ceil(HASH)).unwrap_or_default();
    let made = (0..rounds).flat_map(|round| {
        digest(&SHA256, &[seed, &round.to_be_bytes()].concat()).as_ref().to_vec()
    });
    made.take(size).collect()
}

#[cfg(test)]
mod tests {
    use x509_parser::{prelude::FromDer, public_key::PublicKey, x509::SubjectPublicKeyInfo};

    use super::*;

    /// Created with openssl, with the longest salt and with one of the hash's length.
    #[test]
    fn salts_may_have_any_length() {
        let key = include_bytes!("../tests/data/rsa3072-public.der");
        let (_, info) = SubjectPublicKeyInfo::from_der(key).expect("a key");
        let Ok(PublicKey::RSA(key)) = info.parsed() else { panic!("an RSA key") };
        for signed in [
            &include_bytes!("../tests/data/rsa3072-max.sig")[..],
            &include_bytes!("../tests/data/rsa3072-digest.sig")[..],
        ] {
            assert!(verifies(&key, b"uid", signed));
            assert!(!verifies(&key, b"other", signed));
            let mut wrong = signed.to_vec();
            wrong[100] ^= 1;
            assert!(!verifies(&key, b"uid", &wrong));
            assert!(!verifies(&key, b"uid", &signed[1..]));
        }
        assert!(!verifies(&key, b"uid", &[0; 384]));
        assert!(!verifies(&key, b"uid", &[0xff; 384]));
    }
}
