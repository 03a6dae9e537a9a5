//! Loading of CNI network configuration, and the input of a plugin.

use super::result_cache::RuntimeConfig;
use crate::{Error, Result, io_error};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const MIN_VERSION: CniVersion = CniVersion(0, 3, 0);
const MAX_VERSION: CniVersion = CniVersion(1, 1, 0);
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// Whether a plugin's configuration declares this capability.
pub(super) fn has_capability(plugin: &Value, name: &str) -> bool {
    let declared = plugin.get("capabilities").and_then(|all| all.get(name));
    declared == Some(&Value::Bool(true))
}

/// A plugin list, which together forms one network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkConfigList {
    pub name: String,
    pub(super) version: CniVersion,
    pub(super) disable_check: bool,
    pub(super) disable_gc: bool,
    pub(super) plugins: Vec<Value>,
}

/// A version of the CNI specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct CniVersion(pub(super) u8, pub(super) u8, pub(super) u8);

impl NetworkConfigList {
    /// Loads the first configuration of a directory, by name.
    pub fn load(folder: &Path) -> Result<Self> {
        let say = folder.display().to_string();
        let mut files: Vec<PathBuf> = fs::read_dir(folder)
            .map_err(io_error(&say))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let extension = path.extension().and_then(|e| e.to_str());
                matches!(extension, Some("conflist" | "conf" | "json"))
            })
            .collect();
        files.sort();
        let first = files.first();
        let path = first.ok_or_else(|| Error::Configuration(format!("no network in {say}")))?;
        let name = path.display().to_string();
        if fs::metadata(path).map_err(io_error(&name))?.len() > MAX_CONFIG_BYTES {
            return Err(Error::Configuration(format!(
                "{name} is larger than {MAX_CONFIG_BYTES} bytes"
            )));
        }
        let text = fs::read(path).map_err(io_error(&name))?;
        let value: Value = serde_json::from_slice(&text)
            .map_err(|error| Error::Configuration(format!("{name}: {error}")))?;
        Self::parse(value).map_err(|why| Error::Configuration(format!("{name}: {why}")))
    }

    fn parse(value: Value) -> Result<Self, String> {
        let name = value
            .get("name")
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())
            .ok_or("no name")?;
        let name = name.to_owned();
        let version = version(&value)?;
        let flag = |name: &str| match value.get(name) {
            Some(Value::String(text)) => text == "true",
            other => other == Some(&Value::Bool(true)),
        };
        let (disable_check, disable_gc) = (flag("disableCheck"), flag("disableGC"));
        // A single plugin is a list of one.
        let plugins = match value.get("plugins") {
            Some(Value::Array(plugins)) => plugins.clone(),
            Some(_) => return Err("plugins is not a list".to_owned()),
            None => vec![value],
        };
        if plugins.is_empty() {
            return Err("no plugins".to_owned());
        }
        if plugins.iter().any(|plugin| plugin_type(plugin).is_none()) {
            return Err("a plugin without a type, or with one that is a path".to_owned());
        }
        Ok(Self { name, version, disable_check, disable_gc, plugins })
    }

    /// The input of a plugin: its configuration, the network's name and version, the previous result, and the runtime
    /// configuration that it declares capabilities for.
    pub(super) fn plugin_config(
        &self,
        plugin: &Value,
        wishes: &RuntimeConfig,
        previous: Option<&Value>,
    ) -> Value {
        let mut input = plugin.as_object().cloned().unwrap_or_default();
        input.insert("name".to_owned(), json!(self.name));
        input.insert("cniVersion".to_owned(), json!(self.version.to_string()));
        let mut runtime = Map::new();
        let has = |name: &str| has_capability(plugin, name);
        if has("portMappings") && !wishes.ports.is_empty() {
            runtime.insert("portMappings".to_owned(), json!(wishes.ports));
        }
        if let Some((ingress, egress)) = wishes.bandwidth.filter(|_| has("bandwidth")) {
            let mut limits = Map::new();
            for (name, rate) in [("ingress", ingress), ("egress", egress)] {
                if rate > 0 {
                    limits.insert(format!("{name}Rate"), json!(rate));
                    limits.insert(format!("{name}Burst"), json!(i32::MAX));
                }
            }
            runtime.insert("bandwidth".to_owned(), Value::Object(limits));
        }
        if !runtime.is_empty() {
            input.insert("runtimeConfig".to_owned(), Value::Object(runtime));
        }
        if let Some(previous) = previous {
            input.insert("prevResult".to_owned(), previous.clone());
        }
        Value::Object(input)
    }

    /// The path of a plugin's executable, in the first directory that has it.
    pub(super) fn plugin_path(&self, plugin: &Value, folders: &[PathBuf]) -> Result<PathBuf> {
        let kind = plugin_type(plugin).unwrap_or_default();
        let found = folders.iter().map(|folder| folder.join(kind)).find(|path| path.is_file());
        found.ok_or_else(|| {
            Error::Configuration(format!("network {}: no program for plugin {kind}", self.name))
        })
    }
}

fn plugin_type(plugin: &Value) -> Option<&str> {
    plugin["type"].as_str().filter(|kind| !kind.is_empty() && !kind.contains('/'))
}

/// The newest version that both sides support.
fn version(value: &Value) -> Result<CniVersion, String> {
    let single = value["cniVersion"].as_str().unwrap_or("0.1.0");
    let many = value["cniVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let known = std::iter::once(single)
        .chain(many)
        .filter_map(|text| text.parse::<CniVersion>().ok())
        .filter(|version| (MIN_VERSION..=MAX_VERSION).contains(version))
        .max();
    known.ok_or_else(|| {
        format!("version {single} is not supported ({MIN_VERSION} to {MAX_VERSION} are)")
    })
}

impl FromStr for CniVersion {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.').map(|part| part.parse().map_err(|_| ()));
        let mut next = || parts.next().unwrap_or(Err(()));
        let version = Self(next()?, next()?, next()?);
        if parts.next().is_some() { Err(()) } else { Ok(version) }
    }
}

impl std::fmt::Display for CniVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PortMapping, Protocol};

    #[test]
    fn capabilities_decide_what_a_plugin_hears() {
        let list = NetworkConfigList::parse(json!({
            "cniVersion": "1.0.0", "cniVersions": ["1.1.0", "9.0.0"], "name": "net",
            "plugins": [{"type": "a"}, {"type": "b", "capabilities": {"portMappings": true}}]
        }))
        .expect("a list");
        assert_eq!(list.version, CniVersion(1, 1, 0));
        let port = PortMapping {
            host_port: 80,
            container_port: 8080,
            protocol: Protocol::Tcp,
            host_ip: None,
        };
        let wishes = RuntimeConfig { ports: vec![port], bandwidth: None };
        let first = list.plugin_config(&list.plugins[0], &wishes, None);
        assert_eq!(first, json!({"type": "a", "name": "net", "cniVersion": "1.1.0"}));
        let second = list.plugin_config(&list.plugins[1], &wishes, Some(&json!({"ips": []})));
        assert_eq!(
            second["runtimeConfig"]["portMappings"],
            json!([{"hostPort": 80, "containerPort": 8080, "protocol": "tcp"}])
        );
        assert_eq!(second["prevResult"], json!({"ips": []}));
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        for (value, why) in [
            (json!({"cniVersion": "0.2.0", "name": "n", "type": "a"}), "not supported"),
            (json!({"cniVersion": "1.0.0", "type": "a"}), "no name"),
            (json!({"cniVersion": "1.0.0", "name": "n", "plugins": []}), "no plugins"),
            (json!({"cniVersion": "1.0.0", "name": "n", "type": "../a"}), "path"),
        ] {
            let error = NetworkConfigList::parse(value).expect_err("refused");
            assert!(error.contains(why), "{error}");
        }
    }
}
