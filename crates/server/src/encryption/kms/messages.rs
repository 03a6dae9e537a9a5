//! Messages of the KMS v2 gRPC API, and the stored form of values.

use std::collections::BTreeMap;

/// `EncryptedDEKSourceType` HKDF_SHA256_XNONCE_AES_GCM_SEED: the DEK source is a seed.
pub(super) const SEED: i32 = 1;

const LARGEST_ID: usize = 1_024;
const LARGEST_SOURCE: usize = 1_024;
const LARGEST_ANNOTATIONS: usize = 32 << 10;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusResponse {
    #[prost(string, tag = "1")]
    pub(super) version: String,
    #[prost(string, tag = "2")]
    pub(super) healthz: String,
    #[prost(string, tag = "3")]
    pub(super) key_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) uid: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) uid: String,
    #[prost(string, tag = "3")]
    pub(super) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) plaintext: Vec<u8>,
}

/// A stored value, after its prefix.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) encrypted_data: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) encrypted_dek_source: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
    #[prost(int32, tag = "5")]
    pub(super) encrypted_dek_source_type: i32,
}

impl EncryptedObject {
    /// Validates the fields, as upstream does.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let annotations = self.annotations.iter().map(|(name, value)| name.len() + value.len());
        if !(0..=SEED).contains(&self.encrypted_dek_source_type) {
            Err("its key is of an unknown type")
        } else if self.encrypted_data.is_empty() {
            Err("it holds no data")
        } else if !(1..=LARGEST_SOURCE).contains(&self.encrypted_dek_source.len()) {
            Err("its key is empty or too large")
        } else if !(1..=LARGEST_ID).contains(&self.key_id.len()) {
            Err("its key id is empty or too large")
        } else if annotations.sum::<usize>() > LARGEST_ANNOTATIONS {
            Err("its annotations are too large")
        } else if !self.annotations.keys().all(|name| is_domain(name)) {
            Err("an annotation's name is no domain name")
        } else {
            Ok(())
        }
    }

    /// Everything except the data: the cache key of its secret.
    pub(super) fn sealed(&self) -> Vec<u8> {
        let all = Self { encrypted_data: Vec::new(), ..self.clone() };
        prost::Message::encode_to_vec(&all)
    }
}

/// Whether an annotation's name is a domain name in lower case, with at least one dot.
fn is_domain(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let label = |label: &str| {
        let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        label.starts_with(ends)
            && label.ends_with(ends)
            && label.chars().all(|c| c == '-' || ends(c))
    };
    name.len() <= 253 && name.contains('.') && name.split('.').all(label)
}
