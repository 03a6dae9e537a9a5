//! Folders that begin empty: on disk, or in memory.

use std::{os::unix::fs::PermissionsExt, path::Path};

use crate::{Error, mounts_below};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Empty {
    /// In memory instead of on disk.
    pub memory: bool,
    /// Bytes, for those in memory; absent: half of the machine's.
    pub size: Option<u64>,
    pub mode: u32,
}

/// Makes the folder if it is not there yet; what it holds already stays.
pub fn empty(folder: &Path, wanted: &Empty) -> Result<(), Error> {
    let what = folder.display().to_string();
    let is_new = !folder.exists();
    std::fs::create_dir_all(folder).map_err(Error::io(&what))?;
    if wanted.memory {
        if mounts_below(folder)?.iter().any(|mount| mount == folder) {
            return Ok(());
        }
        let size = wanted.size.map(|size| size.to_string());
        let mut options = vec![("mode", Some("0777"))];
        options.extend(size.as_deref().map(|size| ("size", Some(size))));
        let tree = sys::mount::new("tmpfs", &options, sys::mount::NO_SUID | sys::mount::NO_DEV)
            .map_err(Error::io("tmpfs"))?;
        let target = sys::descriptor::place(folder).map_err(Error::io(&what))?;
        sys::mount::attach(&tree, target).map_err(Error::io(&what))?;
    }
    if is_new || wanted.memory {
        let mode = std::fs::Permissions::from_mode(wanted.mode);
        std::fs::set_permissions(folder, mode).map_err(Error::io(&what))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_mounted_once_and_leaves_without_a_trace() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("cache");
        let wanted = Empty { memory: true, size: Some(1 << 20), mode: 0o777 };
        empty(&folder, &wanted).unwrap();
        std::fs::write(folder.join("kept"), "x").unwrap();
        empty(&folder, &wanted).unwrap();
        assert_eq!(mounts_below(root.path()).unwrap(), std::slice::from_ref(&folder));
        assert!(folder.join("kept").exists());
        assert!(std::fs::write(folder.join("large"), vec![0; 2 << 20]).is_err(), "has a limit");
        crate::remove(&folder).unwrap();
        assert!(mounts_below(root.path()).unwrap().is_empty() && !folder.exists());
    }
}
