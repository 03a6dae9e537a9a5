//! `--audit-log-path`: the audit log file, with one line per event, and its rotation.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};
use flate2::{Compression, write::GzEncoder};
use object::{Value, to_json};
use tracing::error;

use super::AuditSink;

/// When the log file is rotated, and how many backups are kept for how long; 0 means no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rotation {
    pub(crate) megabytes: u64,
    pub(crate) backups: usize,
    pub(crate) days: u64,
    /// Whether backups are compressed.
    pub(crate) compress: bool,
}

/// The audit log file.
#[derive(Debug)]
pub(crate) struct LogFile {
    /// `-` means standard output.
    path: PathBuf,
    rotation: Rotation,
    /// Whether events are in the legacy text format instead of JSON.
    legacy: bool,
    open: Mutex<Option<(File, u64)>>,
}

impl LogFile {
    pub(crate) fn open(path: &Path, rotation: Rotation, legacy: bool) -> Result<Self> {
        let this = Self { path: path.to_owned(), rotation, legacy, open: Mutex::default() };
        if path != Path::new("-") {
            let file = append(path).with_context(|| format!("cannot open {}", path.display()))?;
            *this.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        }
        Ok(this)
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((file, size)) = open.as_mut() else {
            return io::stdout().write_all(line);
        };
        file.write_all(line)?;
        *size += line.len() as u64;
        let most = self.rotation.megabytes << 20;
        if most > 0 && *size >= most {
            let aside = self.backup_name();
            fs::rename(&self.path, &aside)?;
            if self.rotation.compress {
                compress(&aside)?;
            }
            *open = Some(append(&self.path)?);
            self.clean();
        }
        Ok(())
    }

    /// The name of a backup, such as `audit-2026-01-02T03-04-05.678.log`, which is lumberjack's
    /// format.
    fn backup_name(&self) -> PathBuf {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let now = object::MicroTime::format(object::Clock::now_micros(&object::SystemClock));
        let moment = now.replace(':', "-").replace('Z', "");
        let mut name = format!("{stem}-{moment}");
        if let Some(extension) = self.path.extension() {
            name = format!("{name}.{}", extension.to_string_lossy());
        }
        self.path.with_file_name(name)
    }

    /// Deletes backups that are too old or too many.
    fn clean(&self) {
        let Some(folder) = self.path.parent() else { return };
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(entries) = fs::read_dir(folder) else { return };
        let is = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            *path != self.path && name.starts_with(&format!("{stem}-"))
        };
        let mut old: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is).collect();
        old.sort_unstable_by(|a, b| b.cmp(a));
        let age = Duration::from_secs(self.rotation.days * 86_400);
        for (at, path) in old.iter().enumerate() {
            let modified = fs::metadata(path).and_then(|about| about.modified());
            let late = modified.is_ok_and(|moment: SystemTime| {
                moment.elapsed().is_ok_and(|elapsed| elapsed > age)
            });
            let many = self.rotation.backups > 0 && at >= self.rotation.backups;
            if many || (self.rotation.days > 0 && late) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Replaces a file by its gzip-compressed copy, with the suffix `.gz`.
fn compress(path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    let mut packed = GzEncoder::new(append(Path::new(&name))?.0, Compression::default());
    io::copy(&mut File::open(path)?, &mut packed)?;
    packed.finish()?.sync_all()?;
    fs::remove_file(path)
}

fn append(path: &Path) -> io::Result<(File, u64)> {
    use std::os::unix::fs::OpenOptionsExt;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

impl AuditSink for LogFile {
    fn name(&self) -> &'static str {
        "log"
    }

    fn write(&self, event: &Value) -> bool {
        let mut line = if self.legacy {
            super::legacy_format::line(event).into_bytes()
        } else {
            to_json(event)
        };
        line.push(b'\n');
        let written = self.write(&line);
        if let Err(error) = &written {
            error!(%error, "cannot write an audit event; dropping it");
        }
        written.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_put_aside() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("audit.log");
        let rotation = Rotation { megabytes: 1, backups: 1, ..Rotation::default() };
        let log = LogFile::open(&path, rotation, false).unwrap();
        let line = vec![b'x'; 600 << 10];
        for _ in 0..4 {
            log.write(&line).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(fs::metadata(&path).unwrap().len() < 1 << 20);
    }
}
