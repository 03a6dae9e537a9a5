//! Encryption at rest, as configured by an `EncryptionConfiguration`.
//!
//! A stored value begins with a prefix that names its provider and key, so that several providers
//! can be read while the first of them writes:
//!
//! ```text
//!  k8s:enc:secretbox:v1:key2:… nonce, tag, text     the first provider, its first key
//!  k8s:enc:aescbc:v1:key1:…    vector, text         still readable
//!  k8s:enc:kms:v2:name:…       key, text            encrypted with a key from a KMS
//!  k8s\0…                      plain                 readable while `identity` is in the list
//! ```

mod ciphers;
mod config;
mod kms;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use bytes::Bytes;
use object::Status;

pub use self::config::EncryptionConfig;
use self::{ciphers::Cipher, kms::Kms};
use crate::Transformer;

/// The prefix of every encrypted value.
const MARK: &[u8] = b"k8s:enc:";

/// The storage prefix of a kind, and its resource and group: `secrets` or `deployments.apps`.
#[derive(Clone, Debug)]
pub struct ResourceLocation {
    pub prefix: String,
    pub resource: String,
    pub group: String,
}

/// Encrypts and decrypts stored values. Its configuration can be replaced while it is in use.
#[derive(Debug)]
pub struct EncryptionTransformer {
    places: Vec<ResourceLocation>,
    rules: RwLock<ProviderRules>,
}

impl EncryptionTransformer {
    /// A transformer for the given resources.
    pub fn new(config: &EncryptionConfig, places: Vec<ResourceLocation>) -> Arc<Self> {
        let rules = RwLock::new(ProviderRules::new(config, &places));
        Arc::new(Self { places, rules })
    }

    /// Replaces the configuration.
    pub fn replace(&self, config: &EncryptionConfig) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) =
            ProviderRules::new(config, &self.places);
    }

    /// Whether some provider is a KMS.
    pub fn uses_kms(&self) -> bool {
        !self.rules.read().unwrap_or_else(PoisonError::into_inner).kms.is_empty()
    }

    /// Why values cannot be written: the error of a KMS plugin.
    pub fn health(&self) -> Result<(), String> {
        let kms = self.rules.read().unwrap_or_else(PoisonError::into_inner).kms.clone();
        kms.iter().try_for_each(|kms| kms.health())
    }

    /// The resources whose values are written encrypted.
    pub fn encrypted(&self) -> Vec<ResourceLocation> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let writes = |place: &&ResourceLocation| {
            rules.by_prefix.get(&place.prefix).is_some_and(|chain| chain.writes_encrypted())
        };
        self.places.iter().filter(writes).cloned().collect()
    }

    fn chain(&self, key: &str) -> Option<Arc<ProviderChain>> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let path = key.strip_prefix("/registry/").unwrap_or(key);
        let mut above = path.rmatch_indices('/').filter_map(|(at, _)| path.get(..at));
        let known = above.find_map(|prefix| rules.by_prefix.get(prefix));
        if let Some(chain) = known {
            return Some(chain.clone());
        }
        // A custom resource is stored below its group and plural.
        let mut parts = path.split('/');
        let (group, resource) = (parts.next()?, parts.next()?);
        let custom = group.contains('.').then(|| rules.find(resource, group)).flatten();
        custom.cloned()
    }
}

impl Transformer for EncryptionTransformer {
    fn to_storage(&self, key: &str, bytes: Bytes) -> Result<Bytes, Status> {
        match self.chain(key) {
            Some(chain) => chain.write(key, bytes),
            None => Ok(bytes),
        }
    }

    fn from_storage(&self, key: &str, bytes: &Bytes) -> Result<Bytes, Status> {
        match self.chain(key) {
            Some(chain) => chain.read(key, bytes),
            None if bytes.starts_with(MARK) => Err(unreadable(key)),
            None => Ok(bytes.clone()),
        }
    }
}

/// The providers of each resource.
#[derive(Debug, Default)]
struct ProviderRules {
    by_prefix: HashMap<String, Arc<ProviderChain>>,
    /// Names as in the configuration: `secrets`, `*.apps`, `*.*`.
    by_name: Vec<(String, Arc<ProviderChain>)>,
    kms: Vec<Arc<Kms>>,
}

impl ProviderRules {
    fn new(config: &EncryptionConfig, places: &[ResourceLocation]) -> Self {
        let mut this = Self { kms: config.kms().cloned().collect(), ..Self::default() };
        this.kms.iter().for_each(|kms| kms.start());
        for (names, ciphers) in &config.resources {
            let chain = Arc::new(ProviderChain(ciphers.clone()));
            this.by_name.extend(names.iter().map(|name| (name.clone(), chain.clone())));
        }
        for ResourceLocation { prefix, resource, group } in places {
            if let Some(chain) = this.find(resource, group).cloned() {
                this.by_prefix.insert(prefix.clone(), chain);
            }
        }
        this
    }

    /// The providers of the first entry that matches the resource.
    fn find(&self, resource: &str, group: &str) -> Option<&Arc<ProviderChain>> {
        let means = |name: &str| match name.split_once('.') {
            None => group.is_empty() && name == resource,
            Some(("*", "*")) => true,
            Some(("*", all)) => all == group,
            Some((one, of)) => one == resource && of == group,
        };
        self.by_name.iter().find(|(name, _)| means(name)).map(|(_, chain)| chain)
    }
}

/// The providers of a resource: the first encrypts, all of them decrypt.
struct ProviderChain(Vec<Cipher>);

impl ProviderChain {
    fn writes_encrypted(&self) -> bool {
        !matches!(self.0.first(), None | Some(Cipher::Identity))
    }

    fn write(&self, key: &str, bytes: Bytes) -> Result<Bytes, Status> {
        match self.0.first() {
            None | Some(Cipher::Identity) => Ok(bytes),
            Some(cipher) => {
                let sealed = cipher.seal(key, &bytes);
                sealed
                    .map(Bytes::from)
                    .ok_or_else(|| Status::internal("a value cannot be encrypted"))
            }
        }
    }

    fn read(&self, key: &str, bytes: &Bytes) -> Result<Bytes, Status> {
        let plain = !bytes.starts_with(MARK);
        for cipher in &self.0 {
            match cipher {
                Cipher::Identity if plain => return Ok(bytes.clone()),
                Cipher::Identity => {}
                cipher => {
                    if let Some(opened) = cipher.open(key, bytes) {
                        return Ok(opened.into());
                    }
                }
            }
        }
        Err(unreadable(key))
    }
}

/// Omits the keys, which must not be logged.
impl fmt::Debug for ProviderChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(Cipher::prefix)).finish()
    }
}

fn unreadable(key: &str) -> Status {
    Status::internal(format!("no key of the encryption configuration reads {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Vec<ResourceLocation> {
        let place = |prefix: &str, resource: &str, group: &str| ResourceLocation {
            prefix: prefix.into(),
            resource: resource.into(),
            group: group.into(),
        };
        vec![
            place("secrets", "secrets", ""),
            place("configmaps", "configmaps", ""),
            place("deployments", "deployments", "apps"),
        ]
    }

    fn config(providers: &str) -> EncryptionConfig {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: \
             [secrets, '*.apps', pandas.bears.example]\n  providers:\n{providers}"
        );
        EncryptionConfig::parse(&text).unwrap()
    }

    const KEY: &str =
        "    keys: [{name: key1, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]\n";
    const AT: &str = "/registry/secrets/a/x";

    #[test]
    fn each_provider_reads_what_it_wrote_and_only_there() {
        for (name, bound) in [("aesgcm", true), ("aescbc", false), ("secretbox", false)] {
            let one = EncryptionTransformer::new(
                &config(&format!("  - {name}:\n  {KEY}  - identity: {{}}\n")),
                places(),
            );
            let text = Bytes::from_static(b"a word that nobody must find");
            let stored = one.to_storage(AT, text.clone()).unwrap();
            assert!(stored.starts_with(format!("k8s:enc:{name}:v1:key1:").as_bytes()));
            assert!(!stored.windows(4).any(|part| part == b"word"));
            assert_ne!(stored, one.to_storage(AT, text.clone()).unwrap(), "no two are alike");
            assert_eq!(one.from_storage(AT, &stored).unwrap(), text);
            let elsewhere = one.from_storage("/registry/secrets/a/y", &stored);
            assert_eq!(elsewhere.is_err(), bound, "{name}");
            assert_eq!(one.from_storage(AT, &text).unwrap(), text, "what was written before");
            let mut torn = stored.to_vec();
            *torn.last_mut().unwrap() ^= 1;
            let torn = one.from_storage(AT, &torn.into());
            assert!(name == "aescbc" || torn.is_err());
            for length in 0..stored.len() {
                let _ = one.from_storage(AT, &stored.slice(..length)); // no panic
            }
        }
    }

    #[test]
    fn the_first_rule_that_means_a_kind_counts() {
        let one =
            EncryptionTransformer::new(&config(&format!("  - secretbox:\n  {KEY}")), places());
        let sealed =
            |key: &str| one.to_storage(key, Bytes::from_static(b"x")).unwrap().starts_with(MARK);
        assert!(sealed(AT) && sealed("/registry/deployments/a/x"));
        assert!(sealed("/registry/bears.example/pandas/a/x"), "a custom kind");
        assert!(
            !sealed("/registry/configmaps/a/x") && !sealed("/registry/bears.example/others/a/x")
        );
        assert!(
            one.from_storage(AT, &Bytes::from_static(b"plain")).is_err(),
            "identity is not in the list"
        );
        let encrypted: Vec<_> = one.encrypted().into_iter().map(|place| place.prefix).collect();
        assert_eq!(encrypted, ["secrets", "deployments"]);
    }

    #[test]
    fn a_new_key_writes_and_the_old_one_still_reads() {
        let one = EncryptionTransformer::new(
            &EncryptionConfig::generate(&["secrets"]).unwrap(),
            places(),
        );
        let mut config = EncryptionConfig::generate(&["secrets"]).unwrap();
        one.replace(&config);
        let old = one.to_storage(AT, Bytes::from_static(b"text")).unwrap();
        config.rotate().unwrap();
        let config = EncryptionConfig::parse(&config.to_yaml()).unwrap();
        one.replace(&config);
        assert_eq!(&*one.from_storage(AT, &old).unwrap(), b"text");
        let new = one.to_storage(AT, Bytes::from_static(b"text")).unwrap();
        assert!(
            old.starts_with(b"k8s:enc:secretbox:v1:key1:")
                && new.starts_with(b"k8s:enc:secretbox:v1:key2:")
        );
    }
}
