//! Reads kustomization files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use object::{Value, yaml};

use crate::{
    error::{CommandError, Result},
    select::go_io_error,
};

/// A directory and its kustomization file.
#[derive(Debug)]
pub(super) struct Kustomization {
    pub(super) root: PathBuf,
    pub(super) tree: Value,
}

const FILES: &[&str] = &["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Known fields of a kustomization.
const FIELDS: &[&str] = &[
    "apiVersion",
    "bases",
    "buildMetadata",
    "commonAnnotations",
    "commonLabels",
    "components",
    "configMapGenerator",
    "configurations",
    "crds",
    "generatorOptions",
    "generators",
    "helmChartInflationGenerator",
    "helmCharts",
    "helmGlobals",
    "images",
    "imageTags",
    "kind",
    "labels",
    "metadata",
    "namePrefix",
    "namespace",
    "nameSuffix",
    "openapi",
    "patches",
    "patchesJson6902",
    "patchesStrategicMerge",
    "replacements",
    "replicas",
    "resources",
    "secretGenerator",
    "sortOptions",
    "transformers",
    "validators",
    "vars",
];

/// Fields that are known but not supported.
const UNSUPPORTED: &[&str] = &[
    "buildMetadata",
    "configurations",
    "crds",
    "generators",
    "helmChartInflationGenerator",
    "helmCharts",
    "helmGlobals",
    "openapi",
    "transformers",
    "validators",
    "vars",
];

const DEPRECATED_FIELDS: &[(&str, &str)] = &[
    ("bases", "resources"),
    ("imageTags", "images"),
    ("patchesJson6902", "patches"),
    ("patchesStrategicMerge", "patches"),
    ("commonLabels", "labels"),
];

impl Kustomization {
    /// Reads the kustomization file of a directory. `say` is called with deprecation warnings.
    pub(super) fn load(root: &Path, say: &mut dyn FnMut(&str)) -> Result<Self> {
        let there: Vec<PathBuf> =
            FILES.iter().map(|name| root.join(name)).filter(|path| path.is_file()).collect();
        let file = match &there[..] {
            [file] => file,
            [] => {
                return Err(CommandError::error(format!(
                    "unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in directory '{}'",
                    root.display()
                )));
            }
            _ => {
                return Err(CommandError::error(format!(
                    "Found multiple kustomization files under: {}\n",
                    root.display()
                )));
            }
        };
        let text = fs::read_to_string(file).map_err(|error| {
            CommandError::error(format!("open {}: {}", file.display(), go_io_error(&error)))
        })?;
        let tree = yaml::from_yaml(&text)
            .map_err(|error| CommandError::error(format!("invalid Kustomization: {error}")))?;
        let mut this = Self { root: root.to_path_buf(), tree };
        this.check(say)?;
        Ok(this)
    }

    fn check(&mut self, say: &mut dyn FnMut(&str)) -> Result {
        let wrong = |why: String| Err(CommandError::error(why));
        for (name, _) in self.tree.entries() {
            if !FIELDS.contains(&name) {
                return wrong(format!("invalid Kustomization: json: unknown field \"{name}\""));
            }
            if UNSUPPORTED.contains(&name) {
                return wrong(format!("the field {name} of a kustomization is not supported"));
            }
        }
        let about = |name: &str| matches!(name, "apiVersion" | "kind");
        if self.tree.entries().all(|(name, value)| about(name) || value.is_zero()) {
            return wrong("kustomization.yaml is empty".to_owned());
        }
        let text = |name: &str| self.tree[name].as_str().unwrap_or_default();
        let mut problems = Vec::new();
        let kind = text("kind");
        if !matches!(kind, "" | "Kustomization" | "Component") {
            problems.push("kind should be Kustomization or Component".to_owned());
        }
        let version = if kind == "Component" { "v1alpha1" } else { "v1beta1" };
        let version = format!("kustomize.config.k8s.io/{version}");
        if !text("apiVersion").is_empty() && text("apiVersion") != version {
            problems.push(format!("apiVersion for {kind} should be {version}"));
        }
        if !problems.is_empty() {
            return wrong(format!(
                "Failed to read kustomization file under {}:\n{}",
                self.root.display(),
                problems.join("\n")
            ));
        }
        for (old, new) in DEPRECATED_FIELDS {
            if !self.tree[*old].is_null() {
                say(&format!(
                    "# Warning: '{old}' is deprecated. Please use '{new}' instead. Run 'kustomize edit fix' to update your Kustomization automatically."
                ));
            }
        }
        for (old, new) in [("bases", "resources"), ("imageTags", "images")] {
            let more = self.tree[old].items().to_vec();
            for item in more {
                crate::workload::push(&mut self.tree[new], item);
            }
        }
        Ok(())
    }

    pub(super) fn component(&self) -> bool {
        self.tree["kind"].as_str() == Some("Component")
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.tree[name].as_str().unwrap_or_default()
    }

    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        self.tree[name].items().iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }
}

/// The canonical path of a directory.
pub(super) fn folder(path: &Path, given: &Path) -> std::result::Result<PathBuf, String> {
    let full = real(path).map_err(|why| {
        format!("not a valid directory: {}", why.replace('\0', &shown(path, given)))
    })?;
    if full.is_dir() { Ok(full) } else { Err(format!("'{}' doesn't exist", path.display())) }
}

/// A path for messages: as given, unless it was given relative to a kustomization.
fn shown(path: &Path, given: &Path) -> String {
    if path == given { given.display().to_string() } else { path.display().to_string() }
}

fn real(path: &Path) -> std::result::Result<PathBuf, String> {
    fs::canonicalize(path).map_err(|error| {
        let full = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        format!("evalsymlink failure on '\0' : lstat {}: {}", full.display(), go_io_error(&error))
    })
}

/// The text of a file at or below a directory.
pub(super) fn inside(root: &Path, path: &str) -> std::result::Result<String, String> {
    let full = root.join(path);
    let file = real(&full).map_err(|why| why.replace('\0', &full.display().to_string()))?;
    if !file.starts_with(root) {
        return Err(format!(
            "security; file '{}' is not in or below '{}'",
            file.display(),
            root.display()
        ));
    }
    let bytes = fs::read(&file).map_err(|error| go_io_error(&error))?;
    String::from_utf8(bytes).map_err(|_| format!("{path} is not text"))
}

/// The bytes of a file at or below a directory.
pub(super) fn bytes_inside(root: &Path, path: &str) -> std::result::Result<Vec<u8>, String> {
    let full = root.join(path);
    let file = real(&full).map_err(|why| why.replace('\0', &full.display().to_string()))?;
    if !file.starts_with(root) {
        return Err(format!(
            "security; file '{}' is not in or below '{}'",
            file.display(),
            root.display()
        ));
    }
    fs::read(&file).map_err(|error| go_io_error(&error))
}
