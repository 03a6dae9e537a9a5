//! emptyDir volumes, on disk or in memory.

use std::{os::unix::fs::PermissionsExt, path::Path};

use crate::{Error, mount_points_under};

/// Options of an emptyDir volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmptyDir {
    /// Whether to mount a tmpfs (`medium: Memory`).
    pub tmpfs: bool,
    /// Size of the tmpfs in bytes; `None` means half of the host's memory.
    pub size_limit: Option<u64>,
    pub mode: u32,
}

/// Creates the directory if it does not exist; existing content stays.
pub fn set_up_empty_dir(folder: &Path, wanted: &EmptyDir) -> Result<(), Error> {
    let what = folder.display().to_string();
    let is_new = !folder.exists();
    std::fs::create_dir_all(folder).map_err(Error::io(&what))?;
    if wanted.tmpfs {
        if mount_points_under(folder)?.iter().any(|mount| mount == folder) {
            return Ok(());
        }
        let size = wanted.size_limit.map(|size| size.to_string());
        let mut options = vec![("mode", Some("0777"))];
        options.extend(size.as_deref().map(|size| ("size", Some(size))));
        let tree =
            sys::mount::new_filesystem("tmpfs", &options, sys::mount::NO_SUID | sys::mount::NO_DEV)
                .map_err(Error::io("tmpfs"))?;
        let target = sys::descriptor::open_path(folder).map_err(Error::io(&what))?;
        sys::mount::attach_tree(&tree, target).map_err(Error::io(&what))?;
    }
    if is_new || wanted.tmpfs {
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
        let wanted = EmptyDir { tmpfs: true, size_limit: Some(1 << 20), mode: 0o777 };
        set_up_empty_dir(&folder, &wanted).unwrap();
        std::fs::write(folder.join("kept"), "x").unwrap();
        set_up_empty_dir(&folder, &wanted).unwrap();
        assert_eq!(mount_points_under(root.path()).unwrap(), std::slice::from_ref(&folder));
        assert!(folder.join("kept").exists());
        assert!(std::fs::write(folder.join("large"), vec![0; 2 << 20]).is_err(), "has a limit");
        crate::unmount_and_remove(&folder).unwrap();
        assert!(mount_points_under(root.path()).unwrap().is_empty() && !folder.exists());
    }
}
