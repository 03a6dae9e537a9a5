//! subPath mounts.

use std::{
    fs,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::fs::{FileType, Mode, fstat};

use crate::{Error, mount_points_under};

/// Bind-mounts `sub` of `volume` at `target`; a missing subPath is created as a directory with the volume's mode.
/// Symlinks within the volume are followed; one that leads out of it is an error.
pub fn bind_mount_sub_path(volume: &Path, sub: &Path, target: &Path) -> Result<(), Error> {
    let what = volume.join(sub).display().to_string();
    bind_mount(resolve(volume, sub).map_err(Error::io(what))?, target)
}

/// Resolves the path with one `openat2` call, so that a container cannot redirect it by exchanging directories and
/// symlinks meanwhile. From then on only the descriptor is used.
fn resolve(volume: &Path, sub: &Path) -> std::io::Result<OwnedFd> {
    let root = sys::descriptor::open_path(volume)?;
    match sys::descriptor::place_beneath(&root, sub) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mode = Mode::from_raw_mode(fstat(&root)?.st_mode & 0o7777);
            sys::descriptor::make_folder_beneath(&root, sub, mode)
        }
        found => found,
    }
}

/// Bind-mounts a descriptor at `target`, which is created to match.
pub fn bind_mount(source: impl AsFd, target: &Path) -> Result<(), Error> {
    let what = target.display().to_string();
    for mount in mount_points_under(target)? {
        sys::mount::lazy_unmount(&mount).map_err(Error::io(&what))?;
    }
    let stat = fstat(&source).map_err(Error::io(&what))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        fs::create_dir_all(target).map_err(Error::io(&what))?;
    } else {
        let parent = target.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(Error::io(&what))?;
        fs::File::create(target).map_err(Error::io(&what))?;
    }
    let tree = sys::mount::clone_tree(source, true).map_err(Error::io(&what))?;
    let target = sys::descriptor::open_path(target).map_err(Error::io(&what))?;
    sys::mount::attach_tree(tree, target).map_err(Error::io(what))
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{MetadataExt, symlink},
        sync::atomic::{AtomicBool, Ordering},
    };

    use rustix::fs::CWD;

    use super::*;

    #[test]
    fn a_link_does_not_lead_out() {
        let root = tempfile::tempdir().unwrap();
        let (volume, target) = (root.path().join("volume"), root.path().join("target"));
        fs::create_dir_all(volume.join("etc")).unwrap();
        fs::write(volume.join("etc/hostname"), "inside").unwrap();
        symlink("etc", volume.join("inside")).unwrap();
        bind_mount_sub_path(&volume, Path::new("inside/hostname"), &target).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "inside");
        symlink("/etc", volume.join("absolute")).unwrap();
        symlink("../outside", volume.join("up")).unwrap();
        symlink("/proc/self/root", volume.join("magic")).unwrap();
        for sub in ["absolute/hostname", "absolute/new", "up/new", "up", "magic", "../x", "/etc"] {
            assert!(bind_mount_sub_path(&volume, Path::new(sub), &target).is_err(), "{sub}");
        }
        assert!(!Path::new("/etc/new").exists() && !root.path().join("outside").exists());
        crate::unmount_and_remove(root.path()).unwrap();
    }

    #[test]
    fn names_are_only_names_and_folders_get_the_mode_of_the_volume() {
        let root = tempfile::tempdir().unwrap();
        let (volume, target) = (root.path().join("volume"), root.path().join("target"));
        fs::create_dir(&volume).unwrap();
        fs::set_permissions(&volume, std::os::unix::fs::PermissionsExt::from_mode(0o2777)).unwrap();
        for sub in ["a;touch b", "$(touch b)", "`touch b`", "a\nb", "a && b | c", "'\"", "%2e%2e"] {
            let made = volume.join(sub).join("deep");
            bind_mount_sub_path(&volume, &Path::new(sub).join("deep"), &target).unwrap();
            assert_eq!(fs::metadata(made).unwrap().mode() & 0o7777, 0o2777, "{sub}");
        }
        assert!(!Path::new("b").exists() && !volume.join("b").exists());
        crate::unmount_and_remove(root.path()).unwrap();
    }

    /// CVE-2017-1002101, CVE-2021-25741: directories and symlinks are exchanged while they are opened.
    #[test]
    fn a_race_does_not_lead_out() {
        let root = tempfile::tempdir().unwrap();
        let (volume, outside) = (root.path().join("volume"), root.path().join("outside"));
        fs::create_dir_all(volume.join("a/b")).unwrap();
        fs::create_dir_all(outside.join("b")).unwrap();
        let inside = |place: &OwnedFd| {
            let stat = fstat(place).unwrap();
            let known =
                |path: &Path| fs::metadata(path).is_ok_and(|meta| meta.ino() == stat.st_ino);
            !known(&outside) && !known(&outside.join("b")) && !known(&outside.join("b/new"))
        };
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                // Exchanged atomically: a directory that is missing for a moment would be created, and stay.
                let (folder, link) = (volume.join("a"), volume.join("l"));
                symlink(&outside, &link).unwrap();
                while !done.load(Ordering::Relaxed) {
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(CWD, &folder, CWD, &link, exchange).unwrap();
                }
            });
            let (mut good, mut refused, mut escaped) = (0_u32, 0_u32, 0_u32);
            let began = std::time::Instant::now();
            let mut rounds = 0..100_000;
            // On a busy host the other thread may run late.
            let goes_on = |good: u32, refused: u32| {
                (good == 0 || refused == 0) && began.elapsed() < std::time::Duration::from_mins(1)
            };
            while rounds.next().is_some() || goes_on(good, refused) {
                for sub in ["a/b", "a/b/new"] {
                    match resolve(&volume, Path::new(sub)) {
                        Ok(place) if inside(&place) => good += 1,
                        Ok(_) => escaped += 1,
                        Err(_) => refused += 1,
                    }
                }
            }
            done.store(true, Ordering::Relaxed);
            assert!(good > 0 && refused > 0, "{good} {refused}: there was no race");
            assert_eq!(escaped, 0, "paths led out of the volume");
        });
        assert!(!outside.join("b/new").exists(), "nothing was made outside");
    }
}
