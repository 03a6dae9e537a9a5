//! Log rotation: a container log that has grown too large is renamed, older ones are compressed, and only a limited
//! number is kept.
//!
//! ```text
//!  0.log                          the current log
//!  0.log.20261116-080000          the last rotated log, which readers may still follow
//!  0.log.20261116-070000.gz       older ones, compressed
//! ```

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use object::Time;
use tokio::{task::spawn_blocking, time::sleep};
use tracing::warn;

use crate::{KubeletContext, pod_logs, runtime::labels};

/// Maximum size of a log, and number of log files per container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRotationPolicy {
    /// Maximum size in bytes.
    pub size: u64,
    /// Number of files including the current one; at least two.
    pub files: usize,
}

const LOOK: Duration = Duration::from_secs(10);

impl Default for LogRotationPolicy {
    fn default() -> Self {
        Self { size: 10 << 20, files: 5 }
    }
}

impl LogRotationPolicy {
    /// Compresses the rotated files of a log and deletes the oldest ones, to make room for one more.
    pub fn clean_up(self, path: &Path) -> io::Result<()> {
        let mut old = rotated_logs(path)?;
        // leaves room for the current log and the one that is rotated next
        let excess = old.len().saturating_sub(self.files.saturating_sub(2));
        for gone in old.drain(..excess) {
            fs::remove_file(gone)?;
        }
        for plain in old.iter().filter(|path| path.extension().is_none_or(|kind| kind != "gz")) {
            compress(plain)?;
        }
        Ok(())
    }
}

pub(crate) fn start(host: &Arc<KubeletContext>) {
    let host = host.clone();
    let cx = host.cx.clone();
    cx.spawn("log rotation", async move {
        loop {
            sleep(LOOK).await;
            if let Err(error) = panics::catch("log rotation", || remove_unknown(&host)) {
                warn!(%error, "cannot remove the logs of deleted pods");
            }
            let (folder, size) = (&host.config.pod_logs_dir, host.config.log_limits.size);
            let found = panics::catch("log rotation", || logs_to_rotate(folder, size));
            for log in found.unwrap_or_default() {
                let done = panics::contain("log rotation", rotate(&host, &log)).await;
                if let Err(why) = done.unwrap_or_else(|why| Err(why.to_string())) {
                    warn!(log = %log.path.display(), why, "cannot rotate a container log");
                }
            }
        }
    });
}

/// Removes the logs of pods that were deleted while no kubelet ran, once all pods are known.
fn remove_unknown(host: &KubeletContext) {
    let synced = host.api_pods.as_ref().is_none_or(|pods| *pods.cache().synced().borrow());
    if !synced || !*host.sources_read().borrow() {
        return;
    }
    for (uid, logs) in pod_logs::made_by(&host.config) {
        if !host.pods.has(&uid)
            && let Err(error) = logs.remove()
        {
            warn!(folder = %logs.folder().display(), %error, "cannot remove the logs of a pod");
        }
    }
}

/// A log: `FOLDER/NAMESPACE_POD_UID/CONTAINER/RESTARTS.log`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Log {
    path: PathBuf,
    uid: String,
    container: String,
    restarts: String,
}

/// The logs that are larger than `size`.
fn logs_to_rotate(folder: &Path, size: u64) -> Vec<Log> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for pod in entries(folder) {
        let pod = pod.path();
        let Some(uid) = name(&pod).rsplit('_').next().map(str::to_owned) else { continue };
        for container in entries(&pod) {
            for log in entries(&container.path()) {
                let path = log.path();
                let restarts = name(&path).strip_suffix(".log").map(str::to_owned);
                let is_large = log.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > size);
                if let (Some(restarts), true) = (restarts, is_large) {
                    let container = name(&container.path());
                    found.push(Log { path, uid: uid.clone(), container, restarts });
                }
            }
        }
    }
    found
}

/// Rotates the log of a running container.
async fn rotate(host: &Arc<KubeletContext>, log: &Log) -> Result<(), String> {
    let selector: HashMap<_, _> = [
        (labels::UID.to_owned(), log.uid.clone()),
        (labels::CONTAINER.to_owned(), log.container.clone()),
    ]
    .into();
    let found = host.runtime.containers(selector).await.map_err(|error| error.to_string())?;
    let running = found.into_iter().find(|one| {
        one.state() == container::cri::ContainerState::ContainerRunning
            && one.annotations.get(labels::RESTARTS) == Some(&log.restarts)
    });
    let Some(running) = running else { return Ok(()) }; // the log of an exited container does not grow
    let (path, limits) = (log.path.clone(), host.config.log_limits);
    let tidied = spawn_blocking(move || limits.clean_up(&path)).await;
    tidied.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let aside = rotated_path(&log.path, host.now());
    fs::rename(&log.path, &aside).map_err(|error| error.to_string())?;
    if let Err(error) = host.runtime.reopen_log(&running.id).await {
        // the container still writes to the renamed file, so the renaming is undone
        fs::rename(&aside, &log.path).map_err(|error| error.to_string())?;
        return Err(error.message().to_owned());
    }
    Ok(())
}

fn rotated_path(path: &Path, now: i64) -> PathBuf {
    let digits: String = Time::format(now).chars().filter(char::is_ascii_digit).collect();
    let (day, time) = digits.split_at(8.min(digits.len()));
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{day}-{time}"));
    name.into()
}

/// The rotated files of a log, oldest first. Deletes files that a crash left half compressed.
fn rotated_logs(path: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let stem = format!("{}.", path.file_name().unwrap_or_default().to_string_lossy());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(&stem) {
            continue;
        }
        if entry.path().extension().is_some_and(|kind| kind == "tmp") {
            fs::remove_file(entry.path())?;
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn compress(path: &Path) -> io::Result<()> {
    let with = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let (half, whole) = (with(".tmp"), with(".gz"));
    let mut packed = GzEncoder::new(File::create(&half)?, Compression::default());
    io::copy(&mut File::open(path)?, &mut packed)?;
    packed.finish()?;
    fs::rename(half, whole)?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_oldest_goes_and_the_rest_is_packed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, text) in [
            ("0.log", "now"),
            ("0.log.20260101-000000.gz", "oldest"),
            ("0.log.20260102-000000.gz", "old"),
            ("0.log.20260103-000000", "last"),
            ("0.log.20260103-000000.tmp", "half"),
            ("1.log", "another"),
        ] {
            fs::write(at(name), text).unwrap();
        }
        LogRotationPolicy { files: 4, ..LogRotationPolicy::default() }
            .clean_up(&at("0.log"))
            .unwrap();
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let want = ["0.log", "0.log.20260102-000000.gz", "0.log.20260103-000000.gz", "1.log"];
        assert_eq!(left, want);
        let mut text = String::new();
        let packed = File::open(at("0.log.20260103-000000.gz")).unwrap();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        assert_eq!(text, "last");
        let aside = rotated_path(Path::new("/x/0.log"), 0);
        assert_eq!(aside, Path::new("/x/0.log.19700101-000000"));
    }

    #[test]
    fn only_large_logs_of_containers_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("default_web_u-1/app");
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join("2.log"), "0123456789").unwrap();
        fs::write(logs.join("2.log.20260101-000000"), "0123456789").unwrap();
        let found = logs_to_rotate(folder.path(), 9);
        let log = Log {
            path: logs.join("2.log"),
            uid: "u-1".into(),
            container: "app".into(),
            restarts: "2".into(),
        };
        assert_eq!(found, [log]);
        assert!(logs_to_rotate(folder.path(), 10).is_empty());
    }
}
