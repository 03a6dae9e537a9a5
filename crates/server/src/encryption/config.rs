//! Parses and writes the `EncryptionConfiguration`: resources, providers and keys.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use object::{
    Value,
    yaml::{from_yaml, to_yaml},
};
use ring::rand::{SecureRandom, SystemRandom};

use super::{
    ciphers::Cipher,
    kms::{self, Kms},
};

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";

/// A valid configuration. It contains secrets, so only `to_yaml` prints them.
#[derive(Clone)]
pub struct EncryptionConfig {
    /// Names of resources, and the ciphers of their providers in order.
    pub(super) resources: Vec<(Vec<String>, Vec<Cipher>)>,
}

/// An error in a configuration, and its field.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct ConfigError {
    at: String,
    what: String,
}

fn wrong(at: &str, what: impl Into<String>) -> ConfigError {
    ConfigError { at: at.to_owned(), what: what.into() }
}

impl std::fmt::Debug for EncryptionConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.resources).finish()
    }
}

impl EncryptionConfig {
    /// A configuration with a new key for these resources. What was written unencrypted before
    /// stays readable.
    pub fn generate(resources: &[&str]) -> Result<Self, ConfigError> {
        let ciphers = vec![new_key(1)?, Cipher::Identity];
        let resources = resources.iter().map(|resource| (*resource).into()).collect();
        Ok(Self { resources: vec![(resources, ciphers)] })
    }

    /// Adds a new key in front of the others, for each list of resources that is encrypted.
    pub fn rotate(&mut self) -> Result<(), ConfigError> {
        let of_kms = |cipher: &Cipher| matches!(cipher, Cipher::Kms(_));
        if self.resources.iter().any(|(_, ciphers)| ciphers.first().is_some_and(of_kms)) {
            let what = "the keys are a KMS's: change them there, and it is noticed here";
            return Err(wrong("a new key", what));
        }
        for (_, ciphers) in &mut self.resources {
            let number = |cipher: &Cipher| {
                cipher.prefix().split(':').nth(4)?.strip_prefix("key")?.parse().ok()
            };
            let last: u32 = ciphers.iter().filter_map(number).max().unwrap_or_default();
            if !matches!(ciphers.first(), None | Some(Cipher::Identity)) {
                ciphers.insert(0, new_key(last + 1)?);
            }
        }
        Ok(())
    }

    /// Parses and validates a configuration file.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config = from_yaml(text).map_err(|error| wrong("the file", error.to_string()))?;
        let is = |name: &str, value: &str| match config.get(name).as_str() {
            Some(found) if found == value => Ok(()),
            found => {
                Err(wrong(name, format!("must be {value}, is {}", found.unwrap_or("missing"))))
            }
        };
        is("apiVersion", API_VERSION)?;
        is("kind", KIND)?;
        only(&config, "the file", &["apiVersion", "kind", "resources"])?;
        let all = config.get("resources").items();
        if all.is_empty() {
            return Err(wrong("resources", "at least one is needed"));
        }
        let resources = all
            .iter()
            .enumerate()
            .map(|(nth, entry)| resource(entry, &format!("resources[{nth}]")));
        let this = Self { resources: resources.collect::<Result<_, _>>()? };
        let mut names: Vec<_> = this.kms().map(|kms| &kms.config.name).collect();
        names.sort_unstable();
        match names.iter().zip(names.iter().skip(1)).find(|(one, next)| one == next) {
            Some((name, _)) => Err(wrong("kms", format!("two have the name {name:?}"))),
            None => Ok(this),
        }
    }

    pub(super) fn kms(&self) -> impl Iterator<Item = &Arc<Kms>> {
        let ciphers = self.resources.iter().flat_map(|(_, ciphers)| ciphers);
        ciphers.filter_map(|cipher| if let Cipher::Kms(kms) = cipher { Some(kms) } else { None })
    }

    /// Formats the configuration as a file, including the keys.
    pub fn to_yaml(&self) -> String {
        let mut file = Value::object();
        file["apiVersion"] = API_VERSION.into();
        file["kind"] = KIND.into();
        let resource = |(names, ciphers): &(Vec<String>, Vec<Cipher>)| {
            let mut resource = Value::object();
            resource["resources"] = names.iter().map(String::as_str).collect();
            resource["providers"] = ciphers.iter().map(provider_tree).collect();
            resource
        };
        file["resources"] = self.resources.iter().map(resource).collect();
        to_yaml(&file)
    }
}

fn provider_tree(cipher: &Cipher) -> Value {
    let mut provider = Value::object();
    let (kind, key): (_, &[u8]) = match cipher {
        Cipher::Identity => {
            provider["identity"] = Value::object();
            return provider;
        }
        Cipher::Kms(kms) => {
            let kms::Config { name, endpoint, timeout } = &kms.config;
            provider["kms"]["apiVersion"] = "v2".into();
            provider["kms"]["name"] = name.as_str().into();
            provider["kms"]["endpoint"] = endpoint.as_str().into();
            provider["kms"]["timeout"] = format!("{}ms", timeout.as_millis()).into();
            return provider;
        }
        Cipher::AesGcm { key, .. } => ("aesgcm", key),
        Cipher::AesCbc { key, .. } => ("aescbc", key),
        Cipher::Secretbox { key, .. } => ("secretbox", key),
    };
    let mut own = Value::object();
    own["name"] = cipher.prefix().split(':').nth(4).unwrap_or_default().into();
    own["secret"] = STANDARD.encode(key).into();
    provider[kind]["keys"] = [own].into_iter().collect();
    provider
}

fn new_key(number: u32) -> Result<Cipher, ConfigError> {
    let mut key = [0; 32];
    SystemRandom::new().fill(&mut key).map_err(|_| wrong("a new key", "no randomness"))?;
    Ok(Cipher::Secretbox { prefix: format!("k8s:enc:secretbox:v1:key{number}:"), key })
}

fn resource(entry: &Value, at: &str) -> Result<(Vec<String>, Vec<Cipher>), ConfigError> {
    only(entry, at, &["resources", "providers"])?;
    let names = entry.get("resources").items().iter();
    let names: Vec<_> = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
    if names.is_empty() {
        return Err(wrong(&format!("{at}.resources"), "at least one is needed"));
    } else if let Some(odd) = names.iter().find(|name| name.is_empty() || *name == "*") {
        let what = format!("{odd:?} is no resource: say secrets, deployments.apps, *.apps or *.*");
        return Err(wrong(&format!("{at}.resources"), what));
    }
    let providers = entry.get("providers").items();
    if providers.is_empty() {
        return Err(wrong(&format!("{at}.providers"), "at least one is needed"));
    }
    let mut ciphers = Vec::new();
    for (nth, entry) in providers.iter().enumerate() {
        ciphers.extend(provider(entry, &format!("{at}.providers[{nth}]"))?);
    }
    Ok((names, ciphers))
}

fn provider(entry: &Value, at: &str) -> Result<Vec<Cipher>, ConfigError> {
    let mut entries = entry.entries();
    let (Some((name, value)), None) = (entries.next(), entries.next()) else {
        return Err(wrong(at, "one provider is needed, and only one"));
    };
    let at = format!("{at}.{name}");
    match name {
        "identity" => Ok(vec![Cipher::Identity]),
        "aesgcm" | "aescbc" | "secretbox" => keys(name, value, &at),
        "kms" => {
            kms_provider(value, &at).map(|config| vec![Cipher::Kms(Arc::new(Kms::new(config)))])
        }
        _ => Err(wrong(&at, "is no provider: aesgcm, aescbc, secretbox, kms and identity are")),
    }
}

fn kms_provider(value: &Value, at: &str) -> Result<kms::Config, ConfigError> {
    only(value, at, &["apiVersion", "name", "endpoint", "timeout", "cachesize"])?;
    let text = |name: &str| value.get(name).as_str().unwrap_or_default().to_owned();
    if text("apiVersion") != "v2" {
        return Err(wrong(&format!("{at}.apiVersion"), "must be v2: v1 is not supported"));
    } else if value.entries().any(|(name, _)| name == "cachesize") {
        return Err(wrong(&format!("{at}.cachesize"), "v2 has none"));
    }
    let (name, endpoint) = (text("name"), text("endpoint"));
    if name.is_empty() || name.contains(':') {
        return Err(wrong(&format!("{at}.name"), "a name is needed, without colons"));
    }
    let path = endpoint.strip_prefix("unix://").unwrap_or_default();
    if !path.starts_with('/') || path.starts_with("/@") {
        return Err(wrong(&format!("{at}.endpoint"), "must be a path, as unix:///run/kms.sock"));
    }
    let timeout = match text("timeout") {
        none if none.is_empty() => Duration::from_secs(3),
        text => {
            let nanos = object::Duration::parse_nanos(&text)
                .ok()
                .and_then(|nanos| u64::try_from(nanos).ok());
            let nanos = nanos.filter(|nanos| *nanos > 0);
            let nanos =
                nanos.ok_or(wrong(&format!("{at}.timeout"), "must be a duration above 0"))?;
            Duration::from_nanos(nanos)
        }
    };
    Ok(kms::Config { name, endpoint, timeout })
}

fn keys(provider: &str, value: &Value, at: &str) -> Result<Vec<Cipher>, ConfigError> {
    only(value, at, &["keys"])?;
    let keys = value.get("keys").items();
    if keys.is_empty() {
        return Err(wrong(&format!("{at}.keys"), "at least one is needed"));
    }
    let one = |(nth, entry): (usize, &Value)| {
        let at = format!("{at}.keys[{nth}]");
        only(entry, &at, &["name", "secret"])?;
        let name = entry.get("name").as_str().unwrap_or_default();
        if name.is_empty() || name.contains(':') {
            return Err(wrong(&at, "a name is needed, without colons"));
        }
        let secret = entry.get("secret").as_str().unwrap_or_default();
        let key = STANDARD.decode(secret).map_err(|_| wrong(&at, "the secret is not base64"))?;
        let prefix = format!("k8s:enc:{provider}:v1:{name}:");
        match (provider, key.len()) {
            ("aesgcm", 16 | 24 | 32) => Ok(Cipher::AesGcm { prefix, key }),
            ("aescbc", 16 | 24 | 32) => Ok(Cipher::AesCbc { prefix, key }),
            ("secretbox", length) => match key.try_into() {
                Ok(key) => Ok(Cipher::Secretbox { prefix, key }),
                Err(_) => Err(wrong(&at, format!("the secret has {length} bytes, not 32"))),
            },
            (_, length) => {
                Err(wrong(&at, format!("the secret has {length} bytes, not 16, 24 or 32")))
            }
        }
    };
    keys.iter().enumerate().map(one).collect()
}

/// Rejects unknown fields.
fn only(value: &Value, at: &str, known: &[&str]) -> Result<(), ConfigError> {
    match value.entries().find(|(name, _)| !known.contains(name)) {
        Some((name, _)) => Err(wrong(at, format!("unknown field {name:?}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        let head = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n");
        let refused =
            |rest: &str| EncryptionConfig::parse(&format!("{head}{rest}")).unwrap_err().to_string();
        assert!(
            EncryptionConfig::parse("kind: Pod").unwrap_err().to_string().starts_with("apiVersion")
        );
        assert_eq!(refused("resources: []"), "resources: at least one is needed");
        let list = |provider: &str| {
            format!("resources:\n- resources: [secrets]\n  providers:\n  - {provider}\n")
        };
        let short = refused(&list("secretbox: {keys: [{name: a, secret: c2hvcnQ=}]}"));
        assert_eq!(
            short,
            "resources[0].providers[0].secretbox.keys[0]: the secret has 5 bytes, not 32"
        );
        assert!(refused(&list("kms: {name: a}")).contains("v1 is not supported"));
        let kms = |rest: &str| list(&format!("kms: {{apiVersion: v2, {rest}}}"));
        assert!(refused(&kms("name: 'a:b'")).contains("without colons"));
        assert!(refused(&kms("name: a, endpoint: 'http://x'")).contains("must be a path"));
        let good = "name: a, endpoint: 'unix:///run/a.sock'";
        assert!(refused(&kms(&format!("{good}, cachesize: 3"))).contains("v2 has none"));
        assert!(refused(&kms(&format!("{good}, timeout: 0s"))).contains("above 0"));
        let twice = format!("{}  - kms: {{apiVersion: v2, {good}}}\n", kms(good));
        assert!(refused(&twice).contains("two have the name"));
        assert!(refused(&list("aesgcm: {keys: [], cache: 3}")).contains("unknown field"));
    }

    #[test]
    fn a_kms_is_written_as_it_was_read_and_keeps_its_keys() {
        let text = format!(
            "apiVersion: {API_VERSION}\nkind: {KIND}\nresources:\n- resources: [secrets]\n  providers:\n  - kms:\n      \
             {{apiVersion: v2, name: a, endpoint: 'unix:///run/a.sock', timeout: 1.5s}}\n  - identity: {{}}\n"
        );
        let mut config = EncryptionConfig::parse(&text).unwrap();
        let again = EncryptionConfig::parse(&config.to_yaml()).unwrap();
        let read = again.kms().next().unwrap();
        assert_eq!(read.config, config.kms().next().unwrap().config);
        assert_eq!(read.config.timeout, Duration::from_millis(1_500));
        assert!(config.rotate().unwrap_err().to_string().contains("a KMS's"));
    }

    #[test]
    fn a_debug_text_has_no_key() {
        let config = EncryptionConfig::generate(&["secrets"]).unwrap();
        let secret = config
            .to_yaml()
            .lines()
            .find_map(|l| l.trim().strip_prefix("secret: ").map(str::to_owned));
        assert!(!format!("{config:?}").contains(&secret.unwrap()));
    }
}
