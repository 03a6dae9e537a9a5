//! The configuration of plugins: one file that holds or names that of each.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use object::{Value, yaml::from_yaml};

#[derive(Clone, Debug, Default)]
pub(crate) struct PluginConfigs(BTreeMap<String, Value>);

impl PluginConfigs {
    /// Reads an `AdmissionConfiguration` of apiserver.config.k8s.io.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let file = tree(path)?;
        let kind = file.get("kind").as_str().unwrap_or_default();
        ensure!(kind == "AdmissionConfiguration", "{}: kind {kind:?} is none", path.display());
        let mut all = BTreeMap::new();
        for plugin in file.get("plugins").items() {
            let name = plugin.get("name").as_str().unwrap_or_default();
            ensure!(
                super::names().any(|own| own == name),
                "{}: plugin {name:?} is not supported",
                path.display()
            );
            let config = match plugin.get("path").as_str().filter(|path| !path.is_empty()) {
                Some(other) => tree(&path.parent().unwrap_or(path).join(other))?,
                None => plugin.get("configuration").clone(),
            };
            all.insert(name.to_owned(), config);
        }
        Ok(Self(all))
    }

    pub(super) fn get(&self, plugin: &str) -> Value {
        self.0.get(plugin).cloned().unwrap_or_default()
    }
}

fn tree(path: &Path) -> Result<Value> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(from_yaml(&text)?)
}
