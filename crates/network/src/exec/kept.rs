//! Results on disk: one file per sandbox, with the configuration that made it.

use super::configuration::NetworkList;
use crate::{Attachment, Bandwidth, Error, PortMapping, Result, about};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// What a pod wished for: part of what plugins are told again at `remove`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Wishes {
    pub(super) ports: Vec<PortMapping>,
    pub(super) bandwidth: Option<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) id: String,
    netns: PathBuf,
    namespace: String,
    name: String,
    uid: String,
    pub(super) wishes: Wishes,
    pub(super) list: NetworkList,
    result: Value,
}

#[derive(Debug, Clone)]
pub(super) struct Store {
    directory: PathBuf,
}

impl From<&Attachment> for Wishes {
    fn from(attachment: &Attachment) -> Self {
        Self {
            ports: attachment.ports.clone(),
            bandwidth: attachment.bandwidth.map(|limit| (limit.ingress, limit.egress)),
        }
    }
}

impl Kept {
    pub(super) fn new(attachment: &Attachment, list: &NetworkList, result: Value) -> Self {
        Self {
            id: attachment.id.clone(),
            netns: attachment.netns.clone(),
            namespace: attachment.namespace.clone(),
            name: attachment.name.clone(),
            uid: attachment.uid.clone(),
            wishes: attachment.into(),
            list: list.clone(),
            result,
        }
    }

    pub(super) fn previous(&self) -> Option<&Value> {
        Some(&self.result).filter(|result| !result.is_null())
    }

    pub(super) fn attachment(&self) -> Attachment {
        Attachment {
            id: self.id.clone(),
            netns: self.netns.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            ports: self.wishes.ports.clone(),
            bandwidth: self.wishes.bandwidth.map(|(ingress, egress)| Bandwidth { ingress, egress }),
        }
    }
}

impl Store {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(super) fn write(&self, kept: &Kept) -> Result<()> {
        let path = self.path(&kept.id)?;
        let say = path.display().to_string();
        fs::create_dir_all(&self.directory).map_err(about(&say))?;
        let partial = path.with_extension("partial");
        let bytes = serde_json::to_vec(kept).expect("strings, numbers and JSON");
        fs::write(&partial, bytes).map_err(about(&say))?;
        fs::rename(&partial, &path).map_err(about(&say))
    }

    pub(super) fn read(&self, id: &str) -> Result<Option<Kept>> {
        let path = self.path(id)?;
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(about(path.display().to_string())(error)),
        }
    }

    pub(super) fn remove(&self, id: &str) -> Result<()> {
        let path = self.path(id)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(about(path.display().to_string())(error))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn all(&self) -> Result<Vec<Kept>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(about(self.directory.display().to_string())(error)),
        };
        let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
        Ok(entries.filter_map(|entry| read(entry.ok()?.path())).collect())
    }

    fn path(&self, id: &str) -> Result<PathBuf> {
        if id.is_empty() || id.contains(['/', '.']) {
            return Err(Error::Configuration(format!("{id:?} is no sandbox id")));
        }
        Ok(self.directory.join(format!("{id}.json")))
    }
}
