//! The layout of the data directory.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

pub(crate) const DEFAULT_DATA_DIR: &str = "/var/lib/tiphys";

/// The data directory of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    pub(crate) fn new(dir: &Path) -> Self {
        Self(dir.components().collect()) // drops a trailing slash
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.0
    }

    /// The path of a file or directory below it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates the data directory itself.
    pub(crate) fn make_folder(&self) -> Result<()> {
        fs::create_dir_all(&self.0).with_context(|| format!("cannot make {}", self.0.display()))
    }

    /// Creates all subdirectories. Those that `control` writes to are owned by its user.
    pub(crate) fn create(&self, control: u32) -> Result<()> {
        folder(&self.0, 0o711)?;
        for name in ["node", "run", "log", "bin", "manifests", "addons"] {
            folder(&self.path(name), 0o700)?;
        }
        for name in ["pki", "store", "kubeconfig", "policy", "audit"] {
            let path = self.path(name);
            folder(&path, 0o700)?;
            chown_dir(&path, control)?;
        }
        // earlier versions created it world-readable
        private(&self.path("config.yaml"))?;
        Ok(())
    }

    /// The executable to run: a copy in the data directory, so that a new build does not affect a running cluster.
    pub(crate) fn executable(&self) -> Result<PathBuf> {
        let own = fs::read("/proc/self/exe").context("cannot read our own executable")?;
        let digest = ring::digest::digest(&ring::digest::SHA256, &own);
        let name: String = digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let dir = self.path("bin").join(name);
        let path = dir.join("tiphys");
        if !path.exists() {
            folder(&self.path("bin"), 0o711)?;
            folder(&dir, 0o711)?;
            let temporary = dir.join(".tiphys");
            fs::write(&temporary, own)?;
            fs::set_permissions(&temporary, fs::Permissions::from_mode(0o755))?;
            fs::rename(&temporary, &path)?;
        }
        folder(&self.path("bin"), 0o711)?;
        Ok(path)
    }
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    let file = options.create(true).truncate(true).write(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(content))
        .with_context(|| format!("cannot write {}", path.display()))?;
    private(path)
}

/// Makes a file or socket accessible to its owner only.
pub(crate) fn private(path: &Path) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .with_context(|| format!("cannot change the mode of {}", path.display()))
}

fn folder(path: &Path, mode: u32) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(mode).create(path);
    made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .with_context(|| format!("cannot make {}", path.display()))
}

/// Changes the owner of a directory and of the files in it.
fn chown_dir(path: &Path, user: u32) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(user), Some(user))?;
    for entry in fs::read_dir(path)? {
        std::os::unix::fs::lchown(entry?.path(), Some(user), Some(user))?;
    }
    Ok(())
}
