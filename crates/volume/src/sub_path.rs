//! A part of a volume, mounted alone.

use std::{fs, os::fd::AsFd, path::Path};

use rustix::fs::{FileType, fstat};

use crate::{Error, mounts_below};

/// Mounts `sub` of `volume` at `target`; a missing one becomes a folder. Links inside the
/// volume are followed, but none leads out of it.
pub fn place_sub_path(volume: &Path, sub: &Path, target: &Path) -> Result<(), Error> {
    let what = volume.join(sub).display().to_string();
    let climbs = sub.components().any(|part| part == std::path::Component::ParentDir);
    if sub.is_absolute() || climbs {
        return Err(Error::Invalid(format!("{}: must stay in the volume", sub.display())));
    }
    let root = sys::descriptor::place(volume).map_err(Error::io(&what))?;
    let source = match sys::descriptor::place_in(&root, sub) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            sys::descriptor::make_folder(&root, sub)
        }
        found => found,
    };
    bind(source.map_err(Error::io(what))?, target)
}

/// Mounts what a descriptor stands for at `target`, which is made to fit.
pub fn bind(source: impl AsFd, target: &Path) -> Result<(), Error> {
    let what = target.display().to_string();
    for mount in mounts_below(target)? {
        sys::mount::detach(&mount).map_err(Error::io(&what))?;
    }
    let stat = fstat(&source).map_err(Error::io(&what))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        fs::create_dir_all(target).map_err(Error::io(&what))?;
    } else {
        let parent = target.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(Error::io(&what))?;
        fs::File::create(target).map_err(Error::io(&what))?;
    }
    let tree = sys::mount::copy(source, true).map_err(Error::io(&what))?;
    let target = sys::descriptor::place(target).map_err(Error::io(&what))?;
    sys::mount::attach(tree, target).map_err(Error::io(what))
}

#[test]
fn a_link_does_not_lead_out() {
    let root = tempfile::tempdir().unwrap();
    let (volume, target) = (root.path().join("volume"), root.path().join("target"));
    fs::create_dir_all(volume.join("etc")).unwrap();
    fs::write(volume.join("etc/hostname"), "inside").unwrap();
    std::os::unix::fs::symlink("/etc", volume.join("link")).unwrap();
    place_sub_path(&volume, Path::new("link/hostname"), &target).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "inside");
    assert!(place_sub_path(&volume, Path::new("../x"), &target).is_err());
    crate::remove(root.path()).unwrap();
}
