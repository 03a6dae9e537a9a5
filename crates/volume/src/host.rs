//! hostPath volumes.

use std::{fs, os::unix::fs::FileTypeExt, path::Path};

use rustix::fs::{Mode, OFlags, fchmod, open};

use crate::Error;

/// Checks that `path` is of the hostPath type `kind`; the `…OrCreate` types create it.
pub fn check_host_path(path: &Path, kind: &str) -> Result<(), Error> {
    let shown = path.display();
    if path.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(Error::Invalid(format!("{shown}: must not contain '..'")));
    }
    let found = fs::metadata(path).ok();
    let is = |what: &dyn Fn(&fs::Metadata) -> bool| found.as_ref().is_some_and(what);
    let wrong = |what: &str| {
        Err(Error::Invalid(format!("hostPath type check failed: {shown} is not a {what}")))
    };
    match kind {
        "" => Ok(()),
        "DirectoryOrCreate" if found.is_none() => {
            fs::create_dir_all(path).map_err(Error::io(shown.to_string()))?;
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = open(path, flags, Mode::empty()).map_err(Error::io(shown.to_string()))?;
            fchmod(made, Mode::from_raw_mode(0o755)).map_err(Error::io(shown.to_string()))
        }
        "FileOrCreate" if found.is_none() => {
            let made = fs::OpenOptions::new().create_new(true).write(true).open(path);
            let made = made.map_err(Error::io(shown.to_string()))?;
            fchmod(made, Mode::from_raw_mode(0o644)).map_err(Error::io(shown.to_string()))
        }
        "Directory" | "DirectoryOrCreate" if is(&fs::Metadata::is_dir) => Ok(()),
        "File" | "FileOrCreate" if is(&fs::Metadata::is_file) => Ok(()),
        "Socket" if is(&|m| m.file_type().is_socket()) => Ok(()),
        "CharDevice" if is(&|m| m.file_type().is_char_device()) => Ok(()),
        "BlockDevice" if is(&|m| m.file_type().is_block_device()) => Ok(()),
        "Directory" | "DirectoryOrCreate" => wrong("directory"),
        "File" | "FileOrCreate" => wrong("file"),
        "Socket" => wrong("socket file"),
        "CharDevice" => wrong("character device"),
        "BlockDevice" => wrong("block device"),
        other => Err(Error::Invalid(format!("hostPath type {other:?} is not known"))),
    }
}

#[test]
fn kinds_are_checked_and_made() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().join("x");
    for kind in ["Directory", "File", "Socket", "CharDevice", "BlockDevice", "Nonsense"] {
        assert!(check_host_path(&at, kind).is_err(), "{kind}");
    }
    check_host_path(&at, "").unwrap();
    check_host_path(&at, "DirectoryOrCreate").unwrap();
    check_host_path(&at, "Directory").unwrap();
    assert!(check_host_path(&at, "FileOrCreate").is_err());
    check_host_path(Path::new("/dev/null"), "CharDevice").unwrap();
}
