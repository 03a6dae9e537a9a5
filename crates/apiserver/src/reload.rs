//! Configuration files that may change while the server runs. They are polled, because replaced
//! symbolic links and mounts cause no inotify event.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

/// A background task that runs as long as the server.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Interval at which files are polled.
pub(crate) const PERIOD: Duration = Duration::from_secs(2);
/// Maximum size of a configuration file, in bytes.
const LARGEST: u64 = 8 << 20;

/// Files, and directories with all their files, that are watched for changes.
#[derive(Debug)]
pub(crate) struct WatchedFiles {
    files: Vec<PathBuf>,
    seen: Vec<Option<FileStamp>>,
}

/// The attributes of a file that change with its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl WatchedFiles {
    pub(crate) fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let files: Vec<_> = files.into_iter().collect();
        let seen = marks(&files);
        Self { files, seen }
    }

    /// Calls `change` whenever one of the files has changed, for ever; without files, returns at
    /// once. An error is logged, and the previous configuration stays in effect.
    pub(crate) async fn watch(mut self, mut change: impl FnMut() -> Result<()> + Send) {
        while !self.files.is_empty() {
            tokio::time::sleep(PERIOD).await;
            if !self.changed() {
                continue;
            }
            let names: Vec<_> = self.files.iter().map(|file| file.display().to_string()).collect();
            let files = names.join(", ");
            let changed = panics::catch("reload", &mut change);
            match changed.unwrap_or_else(|why| Err(why.into())) {
                Ok(()) => tracing::info!(files, "reloaded changed files"),
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(
                        files,
                        error,
                        "invalid content of changed files; keeping the previous one"
                    );
                }
            }
        }
    }

    /// Whether one of the files has changed since the last call.
    pub(crate) fn changed(&mut self) -> bool {
        let now = marks(&self.files);
        let changed = now != self.seen;
        self.seen = now;
        changed
    }
}

/// Reads a configuration file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let shown = || format!("cannot read {}", path.display());
    ensure!(
        fs::metadata(path).with_context(shown)?.len() <= LARGEST,
        "{}: too large",
        path.display()
    );
    fs::read(path).with_context(shown)
}

/// Reads a configuration file as text.
pub(crate) fn text(path: &Path) -> Result<String> {
    String::from_utf8(read(path)?).with_context(|| format!("{} is no text", path.display()))
}

/// The stamps of the files; of a directory, its own and those of its entries.
fn marks(paths: &[PathBuf]) -> Vec<Option<FileStamp>> {
    let mut all = Vec::new();
    for path in paths {
        all.push(mark(path).ok());
        if let Ok(listed) = fs::read_dir(path) {
            let mut files: Vec<_> = listed.flatten().map(|entry| entry.path()).collect();
            files.sort();
            all.extend(files.iter().map(|file| mark(file).ok()));
        }
    }
    all
}

fn mark(path: &Path) -> io::Result<FileStamp> {
    let about = fs::metadata(path)?;
    Ok(FileStamp {
        inode: about.ino(),
        size: about.len(),
        modified: (about.mtime(), about.mtime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_once() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "one").unwrap();
        let mut followed = WatchedFiles::new([path.clone()]);
        assert!(!followed.changed());
        fs::write(&path, "three").unwrap();
        assert!(followed.changed());
        assert!(!followed.changed());
        let other = folder.path().join("g");
        fs::write(&other, "three").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(followed.changed(), "as long as before, and another file");
        fs::remove_file(&path).unwrap();
        assert!(followed.changed());
        assert!(read(&path).is_err());
        let mut within = WatchedFiles::new([folder.path().to_owned()]);
        assert!(!within.changed());
        fs::write(&path, "one").unwrap();
        assert!(within.changed(), "a folder has another file");
        fs::write(&path, "three").unwrap();
        assert!(within.changed(), "the file in the folder is another");
    }
}
