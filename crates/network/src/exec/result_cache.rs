//! The result cache on disk: one file per sandbox, with the configuration that it was created with.

use super::configuration::NetworkConfigList;
use crate::{Attachment, Bandwidth, Error, PortMapping, Result, io_error};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use sys::durable_record::{self, Durability};

/// The runtime configuration of a pod, which plugins get again at `remove`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RuntimeConfig {
    pub(super) ports: Vec<PortMapping>,
    pub(super) bandwidth: Option<(u64, u64)>,
}

/// The cached result of a sandbox, with everything needed to remove it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CachedResult {
    pub(super) id: String,
    netns: PathBuf,
    namespace: String,
    name: String,
    uid: String,
    pub(super) runtime_config: RuntimeConfig,
    pub(super) list: NetworkConfigList,
    result: Value,
}

/// Maximum size of a file in bytes. Results are limited elsewhere, and none is larger.
const LARGEST: u64 = 16 << 20;

/// The cached results on disk.
#[derive(Debug, Clone)]
pub(super) struct ResultCache {
    directory: PathBuf,
}

impl From<&Attachment> for RuntimeConfig {
    fn from(attachment: &Attachment) -> Self {
        Self {
            ports: attachment.port_mappings.clone(),
            bandwidth: attachment.bandwidth.map(|limit| (limit.ingress, limit.egress)),
        }
    }
}

impl CachedResult {
    pub(super) fn new(attachment: &Attachment, list: &NetworkConfigList, result: Value) -> Self {
        Self {
            id: attachment.sandbox_id.clone(),
            netns: attachment.netns.clone(),
            namespace: attachment.namespace.clone(),
            name: attachment.name.clone(),
            uid: attachment.uid.clone(),
            runtime_config: attachment.into(),
            list: list.clone(),
            result,
        }
    }

    pub(super) fn prev_result(&self) -> Option<&Value> {
        Some(&self.result).filter(|result| !result.is_null())
    }

    pub(super) fn attachment(&self) -> Attachment {
        Attachment {
            sandbox_id: self.id.clone(),
            netns: self.netns.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            port_mappings: self.runtime_config.ports.clone(),
            bandwidth: self
                .runtime_config
                .bandwidth
                .map(|(ingress, egress)| Bandwidth { ingress, egress }),
        }
    }
}

impl ResultCache {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(super) fn write(&self, kept: &CachedResult) -> Result<()> {
        let path = self.path(&kept.id)?;
        let say = path.display().to_string();
        fs::create_dir_all(&self.directory).map_err(io_error(&say))?;
        let bytes = serde_json::to_vec(kept).map_err(|error| io_error(&say)(error.into()))?;
        durable_record::write(&path, &bytes, Durability::None).map_err(io_error(&say))
    }

    /// The cached result of a sandbox; `None` if it cannot be read.
    pub(super) fn read(&self, id: &str) -> Result<Option<CachedResult>> {
        Ok(read(&self.path(id)?))
    }

    pub(super) fn remove(&self, id: &str) -> Result<()> {
        let path = self.path(id)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(io_error(path.display().to_string())(error))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn all(&self) -> Result<Vec<CachedResult>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error(self.directory.display().to_string())(error)),
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let kept = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
        Ok(kept.filter_map(|path| read(&path)).collect())
    }

    fn path(&self, id: &str) -> Result<PathBuf> {
        if id.is_empty() || id.contains(['/', '.']) {
            return Err(Error::Configuration(format!("{id:?} is no sandbox id")));
        }
        Ok(self.directory.join(format!("{id}.json")))
    }
}

/// Reads a file. An unreadable one is logged and moved aside; plugins then remove without the result.
fn read(path: &Path) -> Option<CachedResult> {
    let read = durable_record::read(path, LARGEST).and_then(|bytes| {
        bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(Into::into)).transpose()
    });
    read.unwrap_or_else(|error| {
        tracing::error!(path = %path.display(), %error, "cannot read a plugin's result; moving it aside");
        if let Err(error) = durable_record::put_aside(path) {
            tracing::error!(path = %path.display(), %error, "cannot move the result aside");
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_may_stand_in_the_place_of_a_result() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = ResultCache::new(directory.path().to_owned());
        fs::write(directory.path().join("empty.json"), "").expect("written");
        fs::write(directory.path().join("garbage.json"), "{\"id\": 1").expect("written");
        fs::create_dir_all(directory.path().join("folder.json/below")).expect("a folder");
        assert_eq!(store.all().expect("what is there"), []);
        for id in ["empty", "garbage", "folder", "none"] {
            assert_eq!(store.read(id).expect("nothing"), None, "{id}");
            store.remove(id).expect("nothing to remove");
        }
    }
}
