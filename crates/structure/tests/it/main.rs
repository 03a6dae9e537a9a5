//! The structure of the project as tests: what crates may use, how long files and functions are, and whether the
//! files, functions and sections that documents name exist.

mod documents;
mod figures;
mod layers;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder of the repository.
fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    folder.canonicalize().expect("the repository is there")
}

/// Calls `visit` with every file below a folder whose name ends like this, and with its text.
fn files(folder: &Path, ending: &str, visit: &mut impl FnMut(&Path, &str)) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("readable").path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_symlink() || name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            files(&path, ending, visit);
        } else if name.ends_with(ending) {
            let text = fs::read_to_string(&path);
            visit(&path, &text.unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        }
    }
}
