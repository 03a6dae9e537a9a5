//! Encryption at rest: loads the encryption configuration, and rewrites stored objects when it has
//! a new key.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use api::Secret;
use bytes::Bytes;
use pki::Dir;
use schema::{Kind as _, ResourceDefinition};
use server::{
    EncryptionConfig, EncryptionTransformer, Registry, ResourceLocation, Transformer as _,
};
use tracing::{error, info, warn};

use crate::Config;

/// Name of the default encryption configuration in the pki directory.
pub const ENCRYPTION: &str = "encryption.yaml";

/// Interval at which the configuration is checked for changes.
const PERIOD: Duration = Duration::from_secs(10);

/// The encryption transformer, and the file that it was configured from.
#[derive(Debug)]
pub(crate) struct EncryptionAtRest {
    pub(crate) encryption: Arc<EncryptionTransformer>,
    file: PathBuf,
    text: String,
    reloads: bool,
}

impl EncryptionAtRest {
    /// Opens the configuration that the flag names; without the flag, the server's own, which
    /// encrypts Secrets and is generated if it is missing.
    pub(crate) fn open(config: &Config, kinds: &[ResourceDefinition]) -> Result<Self> {
        let pki = config.flags.data_dir.join("pki");
        let (file, reloads) = match &config.flags.encryption_provider_config {
            Some(file) => (file.clone(), config.flags.encryption_provider_config_automatic_reload),
            None => (pki.join(ENCRYPTION), true),
        };
        if config.flags.encryption_provider_config.is_none() && !file.exists() {
            let keys = EncryptionConfig::generate(&[Secret::NAMES.plural])?.to_yaml();
            Dir::open(&pki)?.create(ENCRYPTION, keys.as_bytes(), 0o600)?;
        }
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let parsed =
            EncryptionConfig::parse(&text).with_context(|| format!("in {}", file.display()))?;
        Ok(Self {
            encryption: EncryptionTransformer::new(&parsed, places(kinds)),
            file,
            text,
            reloads,
        })
    }

    /// Polls the configuration, if reloading is enabled; when it has changed, rewrites all
    /// encrypted resources with the first key.
    pub(crate) async fn run_reload(mut self, registry: Arc<Registry>) {
        while self.reloads {
            tokio::time::sleep(PERIOD).await;
            let Ok(text) = tokio::fs::read_to_string(&self.file).await else { continue };
            if text == self.text {
                continue;
            }
            match EncryptionConfig::parse(&text) {
                Ok(config) => {
                    self.encryption.replace(&config);
                    info!(file = %self.file.display(), "reloaded the encryption configuration");
                    self.rewrite(&registry).await;
                }
                Err(error) => {
                    error!(%error, "invalid encryption configuration; keeping the previous one");
                }
            }
            self.text = text;
        }
    }

    async fn rewrite(&self, registry: &Registry) {
        for ResourceLocation { resource, group, .. } in self.encryption.encrypted() {
            match registry.rewrite(&group, &resource).await {
                Ok(count) => {
                    info!(resource, group, count, "rewrote objects with the first encryption key");
                }
                Err(status) => warn!(
                    resource,
                    group,
                    error = status.message(),
                    "cannot rewrite all objects with the first encryption key"
                ),
            }
        }
    }
}

/// How many of these stored values are encrypted with keys that this configuration lacks; without
/// one, how many are encrypted. Values encrypted by a KMS are not counted, because only the KMS can
/// tell.
pub fn unreadable<'a>(
    encryption: Option<&str>,
    items: impl Iterator<Item = (&'a Bytes, &'a Bytes)>,
) -> Result<usize> {
    let encrypted =
        |bytes: &Bytes| bytes.starts_with(b"k8s:enc:") && !bytes.starts_with(b"k8s:enc:kms:");
    let keys = match encryption {
        Some(text) => Some(EncryptionTransformer::new(
            &EncryptionConfig::parse(text)?,
            places(&api::builtin_resources()),
        )),
        None => None,
    };
    let lost = |key: &Bytes, bytes: &Bytes| match (&keys, std::str::from_utf8(key)) {
        (Some(keys), Ok(key)) => keys.from_storage(key, bytes).is_err(),
        _ => true,
    };
    Ok(items.filter(|(key, bytes)| encrypted(bytes) && lost(key, bytes)).count())
}

fn places(kinds: &[ResourceDefinition]) -> Vec<ResourceLocation> {
    let stored = kinds.iter().filter(|kind| !kind.storage.prefix.is_empty());
    let place = |kind: &ResourceDefinition| ResourceLocation {
        prefix: kind.storage.prefix.to_string(),
        resource: kind.names.plural.to_string(),
        group: kind.names.group.to_string(),
    };
    stored.map(place).collect()
}
