//! The user's kubeconfig files: read as one, and written one by one.

use std::{
    fs,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use object::{Value, quote::quote, yaml};

use crate::{
    error::{CommandError, Result},
    select::go_io_error,
};

/// The kubeconfig files, in order of precedence.
#[derive(Clone, Debug, Default)]
pub(crate) struct KubeconfigFiles {
    pub(crate) files: Vec<(PathBuf, Value)>,
    /// The file that is created if none exists.
    pub(crate) default: PathBuf,
}

/// The paths of the files: from the flag, the environment, or the home directory.
pub(crate) fn paths(flag: &str, variable: &str, home: &str) -> Vec<PathBuf> {
    if !flag.is_empty() {
        return vec![flag.into()];
    }
    let listed: Vec<PathBuf> =
        variable.split(':').filter(|path| !path.is_empty()).map(PathBuf::from).collect();
    if listed.is_empty() { vec![Path::new(home).join(".kube/config")] } else { listed }
}

impl KubeconfigFiles {
    /// Reads the files. `must`: the file was named by a flag and must exist.
    pub(crate) fn load(paths: &[PathBuf], must: bool) -> Result<Self> {
        let mut this =
            Self { files: Vec::new(), default: paths.last().cloned().unwrap_or_default() };
        for path in paths {
            let shown = path.display();
            match fs::read_to_string(path) {
                Ok(text) => {
                    let tree = yaml::from_yaml(&text).map_err(|error| {
                        CommandError::error(format!(
                            "error loading config file {}: {error}",
                            quote(&shown.to_string())
                        ))
                    })?;
                    this.files.push((path.clone(), tree));
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(CommandError::error(format!(
                        "stat {shown}: {}",
                        go_io_error(&error)
                    )));
                }
                Err(error) => {
                    return Err(CommandError::error(format!(
                        "open {shown}: {}",
                        go_io_error(&error)
                    )));
                }
            }
        }
        Ok(this)
    }

    /// Merges all files: of entries with the same name the first wins. `resolve`: makes paths in it absolute.
    pub(crate) fn merged(&self, resolve: bool) -> Value {
        let mut all = Value::object();
        let mut extensions = Value::Null;
        for (path, tree) in &self.files {
            let folder = path.parent().unwrap_or(Path::new(""));
            for (list, of) in LISTS {
                let mut entries = all[*list].items().to_vec();
                for entry in tree[*list].items() {
                    if !entries.iter().any(|other| other["name"] == entry["name"]) {
                        let mut entry = entry.clone();
                        if resolve {
                            absolute(&mut entry[*of], folder);
                        }
                        entries.push(entry);
                    }
                }
                all[*list] = Value::List(entries.into());
            }
            if all["current-context"].as_str().unwrap_or_default().is_empty() {
                all["current-context"] = tree["current-context"].clone();
            }
            if !tree["extensions"].is_null() {
                extensions = tree["extensions"].clone();
            }
        }
        for (list, _) in LISTS {
            let mut entries = all[*list].items().to_vec();
            entries.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
            all[*list] = Value::List(entries.into());
        }
        if all["current-context"].is_null() {
            all["current-context"] = "".into();
        }
        if !extensions.is_null() {
            all["extensions"] = extensions;
        }
        all["apiVersion"] = "v1".into();
        all["kind"] = "Config".into();
        all
    }

    /// Writes one file.
    pub(crate) fn save(path: &Path, mut tree: Value) -> Result {
        for (list, _) in LISTS {
            if tree[*list].is_null() {
                tree[*list] = Value::List(<_>::default());
            }
        }
        if tree["current-context"].is_null() {
            tree["current-context"] = "".into();
        }
        tree["apiVersion"] = "v1".into();
        tree["kind"] = "Config".into();
        let failed = |error: std::io::Error| {
            CommandError::error(format!("open {}: {}", path.display(), go_io_error(&error)))
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        std::io::Write::write_all(&mut file, yaml::to_yaml(&tree).as_bytes()).map_err(failed)
    }

    /// The file that contains the entry `name`, otherwise the one for new entries.
    pub(crate) fn file_of_entry(&self, list: &str, name: &str) -> (PathBuf, Value) {
        let has = |tree: &Value| {
            tree[list].items().iter().any(|entry| entry["name"].as_str() == Some(name))
        };
        let found = self.files.iter().find(|file| has(&file.1)).or(self.files.first());
        found.cloned().unwrap_or((self.default.clone(), Value::object()))
    }
}

/// The lists of a kubeconfig, and the field with the content of each entry.
pub(crate) const LISTS: &[(&str, &str)] =
    &[("clusters", "cluster"), ("contexts", "context"), ("users", "user")];

/// The content of the entry `name` of a list.
pub(crate) fn entry<'a>(tree: &'a Value, list: &str, of: &str, name: &str) -> Option<&'a Value> {
    tree[list]
        .items()
        .iter()
        .find(|entry| entry["name"].as_str() == Some(name))
        .map(|entry| &entry[of])
}

/// Replaces or adds the entry `name`.
pub(crate) fn put_entry(tree: &mut Value, list: &str, of: &str, name: &str, value: Value) {
    let mut entries = tree[list].items().to_vec();
    let mut made = Value::object();
    made[of] = value;
    made["name"] = name.into();
    match entries.iter_mut().find(|entry| entry["name"].as_str() == Some(name)) {
        Some(entry) => *entry = made,
        None => entries.push(made),
    }
    entries.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    tree[list] = Value::List(entries.into());
}

fn absolute(tree: &mut Value, folder: &Path) {
    for name in ["certificate-authority", "client-certificate", "client-key", "tokenFile"] {
        let file = tree[name].as_str().unwrap_or_default();
        if !file.is_empty() && !Path::new(file).is_absolute() {
            let full = std::path::absolute(folder.join(file)).unwrap_or_else(|_| folder.join(file));
            let full = full.display().to_string();
            tree[name] = full.as_str().into();
        }
    }
}
