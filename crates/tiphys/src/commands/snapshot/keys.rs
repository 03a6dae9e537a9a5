//! The keys in a snapshot: what a restored cluster needs in addition to its objects to be the same cluster. These are
//! the encryption keys of Secrets, the CAs, the service account keys, and the settings with the CIDRs that addresses
//! were allocated from.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use object::{Value, from_json, to_json};
use store::archive::EtcdSnapshot;

use super::sealed::{self, Secret};
use crate::up;

/// The saved files below `pki`. All other files there are generated from these.
const FILES: [&str; 7] = [
    "ca.crt",
    "ca.key",
    "front-proxy-ca.crt",
    "front-proxy-ca.key",
    "sa.key",
    "sa.pub",
    apiserver::ENCRYPTION,
];
/// Name of the entry with these files in the snapshot, encrypted.
const SEALED: &str = "keys";
/// Name of the entry with the settings in the snapshot, which are not secret.
const SETTINGS: &str = "settings";
/// Maximum size in bytes of a certificate, key or configuration file.
const LARGEST: u64 = 1 << 20;

/// The entries that are saved in addition to the objects.
pub(super) fn collect(data: &Path, secret: Option<&Secret>) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut beside = BTreeMap::new();
    if let Ok(text) = fs::read(data.join("config.yaml")) {
        beside.insert(SETTINGS.to_owned(), text);
    }
    let Some(secret) = secret else { return Ok(beside) };
    let mut keys = Value::object();
    for name in FILES {
        let path = data.join("pki").join(name);
        let bytes = sys::durable_record::read(&path, LARGEST);
        let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
        let bytes = bytes.with_context(|| format!("{} is missing", path.display()))?;
        let text = String::from_utf8(bytes).with_context(|| path.display().to_string())?;
        keys[name] = text.into();
    }
    beside.insert(SEALED.to_owned(), sealed::seal(secret, &to_json(&keys))?);
    Ok(beside)
}

/// The keys that a restored cluster gets.
pub(super) struct Keys(BTreeMap<&'static str, String>);

impl Keys {
    /// The keys from the snapshot. `None` if it has none, or if no secret is given and the data directory has its own
    /// keys. Fails if encrypted objects could not be decrypted after the restore.
    pub(super) fn choose(
        archive: &EtcdSnapshot,
        secret: Option<&Secret>,
        data: &Path,
    ) -> Result<Option<Self>> {
        let own = fs::read_to_string(data.join("pki").join(apiserver::ENCRYPTION)).ok();
        let keys = match (archive.beside.get(SEALED), secret) {
            (Some(sealed), Some(secret)) => Some(Self::open(secret, sealed)?),
            (None, Some(_)) => bail!("there are no keys in this file: it was saved without them"),
            (Some(_), None) if own.is_none() => bail!(
                "the keys in this file are sealed: give the --passphrase-file or --key-file that it was saved with"
            ),
            (_, None) => None,
        };
        let encryption = match &keys {
            Some(Self(files)) => files.get(apiserver::ENCRYPTION),
            None => own.as_ref(),
        };
        let lost = apiserver::unreadable(encryption.map(String::as_str), archive.items())?;
        ensure!(
            lost == 0,
            "{lost} objects are encrypted with keys that are neither in this file nor in {}: put the \
             pki/{} of the saved cluster there first",
            data.join("pki").display(),
            apiserver::ENCRYPTION
        );
        Ok(keys)
    }

    fn open(secret: &Secret, sealed: &[u8]) -> Result<Self> {
        let tree = from_json(&sealed::open(secret, sealed)?).context("the sealed keys")?;
        let files = FILES.into_iter().map(|name| {
            let text =
                tree.get(name).as_str().with_context(|| format!("{name} is not among the keys"))?;
            Ok((name, text.to_owned()))
        });
        Ok(Self(files.collect::<Result<_>>()?))
    }

    /// Writes the keys. An existing `pki` directory with different keys is renamed first; returns its new path.
    pub(super) fn write(&self, data: &Path, stamp: &str) -> Result<Option<PathBuf>> {
        let folder = data.join("pki");
        let about = |path: &Path| format!("cannot write {}", path.display());
        let same = self.0.iter().all(|(name, text)| {
            fs::read_to_string(folder.join(name)).is_ok_and(|own| own == *text)
        });
        if same {
            return Ok(None);
        }
        let mut aside = None;
        if folder.exists() {
            let kept = data.join(format!("pki.before-{stamp}"));
            fs::rename(&folder, &kept).with_context(|| about(&kept))?;
            aside = Some(kept);
        }
        fs::create_dir_all(&folder).with_context(|| about(&folder))?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        for (name, text) in &self.0 {
            let path = folder.join(name);
            sys::durable_record::write(
                &path,
                text.as_bytes(),
                sys::durable_record::Durability::Whole,
            )
            .with_context(|| about(&path))?;
        }
        Ok(aside)
    }
}

/// Records the saved cluster's node name and CIDRs for the first start, if the data directory has no settings yet.
pub(super) fn note_settings(archive: &EtcdSnapshot, data: &Path) -> Result<()> {
    match archive.beside.get(SETTINGS) {
        Some(text) if !data.join("config.yaml").exists() => up::note_restored(data, text),
        _ => Ok(()),
    }
}

/// Describes for `snapshot status` whether the snapshot contains the keys.
pub(super) fn describe(archive: &EtcdSnapshot) -> &'static str {
    match archive.beside.contains_key(SEALED) {
        true => "sealed in it",
        false => "not in it",
    }
}
