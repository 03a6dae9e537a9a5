//! Finds the data directory of the cluster that a command is about, among several on this host.

use std::{ffi::OsString, fs, path::PathBuf};

use anyhow::{Result, bail, ensure};
use clap::Args;

use super::{DataDir, clusters, layout::DEFAULT_DATA_DIR};

/// Environment variable with the data directory, used where no flag names it.
const VARIABLE: &str = "TIPHYS_DATA_DIR";

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Place {
    /// The folder with everything of the cluster. Without it: $TIPHYS_DATA_DIR, else
    /// /var/lib/tiphys.
    #[arg(long, value_name = "DIR", conflicts_with = "name", global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// The name of one of several clusters on this machine: its folder is /var/lib/tiphys-NAME.
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) name: Option<String>,
}

impl Place {
    /// The location of the cluster with this data directory.
    #[cfg(test)]
    pub(crate) fn at(dir: &std::path::Path) -> Self {
        Self { data_dir: Some(dir.to_owned()), name: None }
    }

    /// The cluster's data directory, which need not exist.
    pub(crate) fn layout(&self) -> Result<DataDir> {
        self.layout_with(std::env::var_os(VARIABLE))
    }

    fn layout_with(&self, variable: Option<OsString>) -> Result<DataDir> {
        let variable = variable.filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = match (&self.data_dir, &self.name, variable) {
            (Some(dir), ..) => dir.clone(),
            (None, Some(name), _) => {
                ensure!(
                    object::names::dns1123_label(name).is_empty(),
                    "--name {name:?}: a name has lower case letters, digits and '-', and at most 63"
                );
                PathBuf::from(format!("{DEFAULT_DATA_DIR}-{name}"))
            }
            (None, None, Some(dir)) => dir,
            (None, None, None) => PathBuf::from(DEFAULT_DATA_DIR),
        };
        Ok(DataDir::new(&std::path::absolute(dir)?))
    }

    /// The flags with which a command finds the same cluster.
    pub(crate) fn flags(&self) -> Result<String> {
        Ok(flags(&self.layout()?))
    }

    /// The data directory of an existing cluster. If there is none, the error names the clusters that exist.
    pub(crate) fn existing(&self) -> Result<DataDir> {
        let layout = self.layout()?;
        let config = layout.path("config.yaml");
        match fs::File::open(&config) {
            Ok(_) => Ok(layout),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => bail!(
                "only root can access the cluster in {}: run this as root",
                layout.dir().display()
            ),
            Err(_) => {
                let others = clusters::all();
                let others: Vec<_> = others.iter().map(|dir| dir.display().to_string()).collect();
                let hint = match others.is_empty() {
                    true => "start one with `tiphys up`".to_owned(),
                    false => format!("there is one in {}: use --data-dir", others.join(" and ")),
                };
                bail!("there is no cluster in {}; {hint}", layout.dir().display())
            }
        }
    }
}

/// The flags with which a command finds this data directory; empty for the default one.
pub(super) fn flags(layout: &DataDir) -> String {
    let dir = layout.dir().to_string_lossy();
    match dir.strip_prefix(DEFAULT_DATA_DIR) {
        Some("") => String::new(),
        Some(rest) if rest.starts_with('-') && !rest.contains('/') => {
            format!(" --name {}", &rest[1..])
        }
        _ => format!(" --data-dir {dir}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn dir(place: &Place, variable: Option<&str>) -> String {
        let layout = place.layout_with(variable.map(OsString::from)).unwrap();
        layout.dir().display().to_string()
    }

    #[test]
    fn flags_come_before_the_variable_before_the_usual_folder() {
        let usual = Place::default();
        assert_eq!(dir(&usual, None), "/var/lib/tiphys");
        assert_eq!(dir(&usual, Some("")), "/var/lib/tiphys");
        assert_eq!(dir(&usual, Some("/mine")), "/mine");
        let named = Place { name: Some("blue".into()), ..Place::default() };
        assert_eq!(dir(&named, Some("/mine")), "/var/lib/tiphys-blue");
        assert_eq!(dir(&Place::at(Path::new("/other")), Some("/mine")), "/other");
        let wrong = Place { name: Some("../etc".into()), ..Place::default() };
        assert!(wrong.layout_with(None).is_err());
    }

    #[test]
    fn a_command_is_printed_so_that_it_finds_the_same_cluster() {
        let flags = |dir: &str| flags(&DataDir::new(Path::new(dir)));
        assert_eq!(flags("/var/lib/tiphys"), "");
        assert_eq!(flags("/var/lib/tiphys-blue"), " --name blue");
        assert_eq!(flags("/var/lib/tiphys-x/y"), " --data-dir /var/lib/tiphys-x/y");
        assert_eq!(flags("/data"), " --data-dir /data");
    }
}
