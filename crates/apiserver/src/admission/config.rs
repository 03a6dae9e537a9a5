//! Configuration of the admission plugins (`--admission-control-config-file`): one file that
//! contains each plugin's configuration or names the file it is in.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use object::{Value, yaml::from_yaml};
use schema::{ErrorList, FeatureGates, FieldPath as Field};

use crate::{
    features::MANIFESTS,
    remote::CredentialsByHost,
    structured::{aggregate, known, strict, text},
};

/// The configuration of each plugin, by plugin name.
#[derive(Clone, Debug, Default)]
pub(crate) struct PluginConfigs(BTreeMap<String, Value>);

impl PluginConfigs {
    /// Reads an `AdmissionConfiguration` of apiserver.config.k8s.io.
    pub(crate) fn read(path: &Path, gates: &FeatureGates) -> Result<Self> {
        let file = tree(path)?;
        let kind = text(&file, "kind");
        ensure!(kind == "AdmissionConfiguration", "{}: kind {kind:?} is none", path.display());
        let mut all = BTreeMap::new();
        for plugin in file.get("plugins").items() {
            let name = text(plugin, "name");
            ensure!(
                super::names().any(|own| own == name),
                "{}: plugin {name:?} is not supported",
                path.display()
            );
            let config = match text(plugin, "path") {
                "" => plugin.get("configuration").clone(),
                other => tree(&path.parent().unwrap_or(path).join(other))?,
            };
            check(name, &config, gates)
                .with_context(|| format!("couldn't init admission plugin {name:?}"))?;
            all.insert(name.to_owned(), config);
        }
        Ok(Self(all))
    }

    /// The configuration of the plugin; null if it has none.
    pub(super) fn get(&self, plugin: &str) -> Value {
        self.0.get(plugin).cloned().unwrap_or_default()
    }

    /// The credentials, by webhook host, that the server presents to the webhooks of a plugin
    /// (`kubeConfigFile`).
    pub(super) fn webhook_credentials(&self, plugin: &str) -> Result<CredentialsByHost> {
        match text(&self.get(plugin), "kubeConfigFile") {
            "" => Ok(CredentialsByHost::default()),
            path => CredentialsByHost::read(Path::new(path)),
        }
    }
}

/// Validates the configuration of the webhook and policy plugins.
fn check(plugin: &str, config: &Value, gates: &FeatureGates) -> Result<()> {
    let hooks = plugin.ends_with("AdmissionWebhook");
    if config.is_null() || !(hooks || plugin.ends_with("AdmissionPolicy")) {
        return Ok(());
    }
    let kind = match hooks {
        true => "WebhookAdmissionConfiguration".to_owned(),
        false => format!("{plugin}Configuration"),
    };
    known(config, &kind, &["v1"])?;
    let mut errors = ErrorList::default();
    let fields = ["apiVersion", "kind", "staticManifestsDir", "kubeConfigFile"];
    strict(config, &Field::Root, &fields[..if hooks { 4 } else { 3 }], &mut errors);
    let file = text(config, "kubeConfigFile");
    if !file.is_empty() && !file.starts_with('/') {
        errors.invalid(&Field::Root.field("kubeConfigFile"), file, "must be an absolute file path");
    }
    let (folder, at) = (text(config, "staticManifestsDir"), Field::Root);
    let at = at.field("staticManifestsDir");
    if folder.is_empty() {
    } else if !gates.is_enabled(MANIFESTS) {
        errors.forbidden(
            &at,
            "staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled",
        );
    } else if !folder.starts_with('/') {
        errors.invalid(&at, folder, "must be an absolute file path");
    } else {
        match fs::metadata(folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => errors.invalid(&at, folder, "must be a directory"),
            Err(error) => errors.invalid(&at, folder, format!("unable to read: {error}")),
        }
    }
    ensure!(errors.is_empty(), aggregate(&errors));
    Ok(())
}

fn tree(path: &Path) -> Result<Value> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(from_yaml(&text)?)
}
