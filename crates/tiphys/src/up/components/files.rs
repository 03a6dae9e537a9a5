//! Copies of the files that flags of the API server, the controller manager and the scheduler name. These components
//! run as an unprivileged user that can read nothing outside the data directory, so the files are copied there.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use clap::CommandFactory;

use super::{
    DataDir,
    api_server::{AUDIT_LOG, audit_log},
    below, split,
};
use crate::{
    commands::{apiserver, controller_manager, scheduler},
    up::settings::ComponentArgs,
};

/// Directories below the data directory that only root can write to: the copies in use, and new copies until they are
/// validated.
pub(super) const COPIES: &str = "args";
const NEW_COPIES: &str = "args.new";
/// Maximum size in bytes of a copied file, such as a configuration, a policy or a certificate.
const LARGEST: u64 = 16 << 20;
/// Prefixes of the names of copies for the controller manager and the scheduler.
pub(super) const CONTROLLER_MANAGER: &str = "kube-controller-manager.";
pub(super) const SCHEDULER: &str = "kube-scheduler.";

/// Copies of the files that flags name.
pub(super) struct Files(Option<PathBuf>);

impl Files {
    /// Copies the files to a directory that no running process reads. The path of an audit log is replaced by one
    /// below the data directory.
    pub(super) fn collect(layout: &DataDir, args: &mut ComponentArgs) -> Result<Self> {
        let folder = layout.path(NEW_COPIES);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        for text in &mut args.api_server {
            if let (AUDIT_LOG, Some(path)) = split(text)
                && path != "-"
            {
                *text = format!("{AUDIT_LOG}={}", audit_log(layout, path)?);
            }
        }
        copy::<apiserver::Arguments>(&folder, "", "--kube-apiserver-arg", &mut args.api_server)?;
        copy::<controller_manager::Arguments>(
            &folder,
            CONTROLLER_MANAGER,
            "--kube-controller-manager-arg",
            &mut args.controller_manager,
        )?;
        copy::<scheduler::Arguments>(
            &folder,
            SCHEDULER,
            "--kube-scheduler-arg",
            &mut args.scheduler,
        )?;
        Ok(Self(folder.exists().then_some(folder)))
    }

    /// The directory of the new copies; `None` if no flag names a file.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// Moves the copies into place, and changes their owner to the user that reads them.
    pub(super) fn keep(self, layout: &DataDir, user: u32) -> Result<()> {
        let folder = layout.path(COPIES);
        let about = || folder.display().to_string();
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(about)?;
        }
        let Some(new) = self.0 else { return Ok(()) };
        for entry in fs::read_dir(&new).with_context(about)? {
            let path = entry?.path();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).with_context(about)?;
            std::os::unix::fs::lchown(&path, Some(user), Some(user)).with_context(about)?;
        }
        fs::set_permissions(&new, fs::Permissions::from_mode(0o711)).with_context(about)?;
        fs::rename(&new, &folder).with_context(about)
    }
}

/// The flags of a component with the paths of the copies. The names of the copies start with `prefix`.
pub(super) fn with_copies<C: CommandFactory>(
    given: &[String],
    prefix: &str,
    copies: &Path,
) -> Vec<String> {
    let place = |text: &String| match split(text) {
        (name, Some(_)) if is_file::<C>(name) => {
            format!("{name}={}", below(copies, &format!("{prefix}{name}")))
        }
        _ => text.clone(),
    };
    given.iter().map(place).collect()
}

fn copy<C: CommandFactory>(
    folder: &Path,
    prefix: &str,
    flag: &str,
    args: &mut [String],
) -> Result<()> {
    for text in args {
        let (name, Some(path)) = split(text) else { continue };
        if !is_file::<C>(name) {
            continue;
        }
        let wrong = || format!("{flag} {name}={path}");
        let path = std::path::absolute(path).with_context(wrong)?;
        let about = fs::metadata(&path).with_context(wrong)?;
        ensure!(about.is_file(), "{}: this is no file", wrong());
        ensure!(about.len() <= LARGEST, "{}: too large", wrong());
        fs::create_dir_all(folder).with_context(wrong)?;
        fs::copy(&path, folder.join(format!("{prefix}{name}"))).with_context(wrong)?;
        *text = format!("{name}={}", path.display());
    }
    Ok(())
}

/// Whether a flag names a file to read.
fn is_file<C: CommandFactory>(name: &str) -> bool {
    let command = C::command();
    let named = command.get_arguments().find(|flag| flag.get_long() == Some(name));
    let values = named.and_then(clap::Arg::get_value_names).unwrap_or_default();
    name != AUDIT_LOG && values.iter().any(|value| value.as_str() == "FILE")
}
