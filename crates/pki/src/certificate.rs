//! Encoding of X.509 certificates (RFC 5280).

use std::net::IpAddr;

use ring::{
    digest,
    rand::{SecureRandom, SystemRandom},
};
use rustls_pki_types::CertificateDer;

use crate::{Error, PrivateKey, PublicKey, Usage, der};

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
const SUBJECT_KEY_ID: &[u64] = &[2, 5, 29, 14];
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
pub(crate) const ALTERNATIVE_NAMES: &[u64] = &[2, 5, 29, 17];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const AUTHORITY_KEY_ID: &[u64] = &[2, 5, 29, 35];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
const SERVER_AUTH: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 1];
const CLIENT_AUTH: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];

const DIGITAL_SIGNATURE: u8 = 0b1000_0000;
const KEY_ENCIPHERMENT: u8 = 0b0010_0000;
const CERTIFICATE_SIGN: u8 = 0b0000_0100;
const VERSION_3: &[u8] = &[2];

/// The content of a certificate, except for the issuer.
#[derive(Debug)]
pub(crate) struct TbsCertificate<'a> {
    /// An encoded `Name`.
    pub(crate) subject: Vec<u8>,
    pub(crate) key: &'a SubjectKey,
    /// Encoded GeneralNames; empty if there are none.
    pub(crate) names: Vec<u8>,
    pub(crate) purpose: Purpose<'a>,
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
}

/// The public key of a certificate's subject. It may be of a type that this crate cannot sign with.
#[derive(Clone, Debug)]
pub(crate) struct SubjectKey {
    /// The encoded SubjectPublicKeyInfo.
    pub(crate) der: Vec<u8>,
    /// The public key bits in it.
    pub(crate) bits: Vec<u8>,
}

impl From<&PublicKey> for SubjectKey {
    fn from(key: &PublicKey) -> Self {
        Self { der: key.to_der(), bits: key.raw().to_vec() }
    }
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose<'a> {
    Authority,
    Leaf(&'a [Usage]),
}

/// Signs `content`. `issuer` is the encoded name of the issuer.
pub(crate) fn sign(
    content: &TbsCertificate<'_>,
    issuer: &[u8],
    by: &PrivateKey,
) -> Result<CertificateDer<'static>, Error> {
    let algorithm = by.public().algorithm().signature_algorithm();
    let mut serial = [0; 16];
    SystemRandom::new().fill(&mut serial).map_err(|_| Error::Random)?;
    serial[0] &= 0x7f;
    let body = der::sequence(&[
        der::tagged(der::context(0), &der::integer(VERSION_3)),
        der::integer(&serial),
        algorithm.clone(),
        issuer.to_vec(),
        der::sequence(&[der::time(content.not_before), der::time(content.not_after)]),
        content.subject.clone(),
        content.key.der.clone(),
        der::tagged(der::context(3), &der::sequence(&extensions(content, by))),
    ]);
    let signature = der::bits(&by.sign(&body)?, 0);
    Ok(CertificateDer::from(der::sequence(&[body, algorithm, signature])))
}

/// Encodes a subject: organizations first, as Go does.
pub(crate) fn encode_name(common_name: &str, organizations: &[String]) -> Vec<u8> {
    let part = |kind: &[u64], text: &str| {
        der::group(der::SET, &[der::sequence(&[der::oid(kind), der::utf8(text)])])
    };
    let parts = organizations.iter().map(|text| part(ORGANIZATION, text));
    let common = (!common_name.is_empty()).then(|| part(COMMON_NAME, common_name));
    der::sequence(&parts.chain(common).collect::<Vec<_>>())
}

/// Encodes GeneralNames; empty if there are none.
pub(crate) fn alternative_names(dns: &[String], ips: &[IpAddr]) -> Vec<u8> {
    let dns = dns.iter().map(|name| der::tagged(der::implicit(2), name.as_bytes()));
    let ips = ips.iter().map(|ip| match ip {
        IpAddr::V4(ip) => der::tagged(der::implicit(7), &ip.octets()),
        IpAddr::V6(ip) => der::tagged(der::implicit(7), &ip.octets()),
    });
    let all: Vec<_> = dns.chain(ips).collect();
    if all.is_empty() { Vec::new() } else { der::sequence(&all) }
}

pub(crate) fn extension(id: &[u64], critical: bool, value: &[u8]) -> Vec<u8> {
    let mut parts = vec![der::oid(id)];
    if critical {
        parts.push(der::boolean(true));
    }
    parts.push(der::octets(value));
    der::sequence(&parts)
}

fn extensions(content: &TbsCertificate<'_>, by: &PrivateKey) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    match content.purpose {
        Purpose::Authority => {
            let flags = DIGITAL_SIGNATURE | KEY_ENCIPHERMENT | CERTIFICATE_SIGN;
            all.push(extension(KEY_USAGE, true, &der::bits(&[flags], 2)));
            let is_ca = der::sequence(&[der::boolean(true)]);
            all.push(extension(BASIC_CONSTRAINTS, true, &is_ca));
        }
        Purpose::Leaf(usages) => {
            let flags = DIGITAL_SIGNATURE | KEY_ENCIPHERMENT;
            all.push(extension(KEY_USAGE, true, &der::bits(&[flags], 5)));
            let usages = usages.iter().map(|usage| match usage {
                Usage::Client => der::oid(CLIENT_AUTH),
                Usage::Server => der::oid(SERVER_AUTH),
            });
            let usages: Vec<_> = usages.collect();
            if !usages.is_empty() {
                all.push(extension(EXTENDED_KEY_USAGE, false, &der::sequence(&usages)));
            }
            all.push(extension(BASIC_CONSTRAINTS, true, &der::sequence(&[])));
        }
    }
    all.push(extension(SUBJECT_KEY_ID, false, &der::octets(&key_id(&content.key.bits))));
    let authority = der::sequence(&[der::tagged(der::implicit(0), &key_id(by.public().raw()))]);
    all.push(extension(AUTHORITY_KEY_ID, false, &authority));
    if !content.names.is_empty() {
        all.push(extension(ALTERNATIVE_NAMES, false, &content.names));
    }
    all
}

/// The key identifier (RFC 7093, method 1).
fn key_id(key: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, key).as_ref().iter().take(20).copied().collect()
}
