//! Static pods: files in a folder, read again when they change.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use api::core::Pod;
use object::yaml::from_yaml;
use rustix::fs::inotify;
use tokio::{net::unix::pipe::Receiver, sync::watch, time::sleep};
use tracing::warn;

use super::manifest::{self, Named};
use crate::Host;

/// Larger files are no pods.
const LARGEST: u64 = 4 << 20;
/// Editors write in several steps.
const SETTLE: Duration = Duration::from_millis(50);
/// For folders that cannot be watched.
const POLL: Duration = Duration::from_secs(20);

/// Follows the folder; turns true after the first look.
pub(crate) fn start(host: &Arc<Host>) -> watch::Receiver<bool> {
    let (done, on_read) = watch::channel(false);
    let Some(folder) = host.config.static_pods.clone() else {
        done.send_replace(true);
        return on_read;
    };
    let host = host.clone();
    let cx = host.cx.clone();
    cx.spawn("static pods", async move {
        let watcher = watch_folder(&folder)
            .inspect_err(|error| warn!(%error, "the folder of static pods is not watched"))
            .ok();
        let mut named = Named::default();
        loop {
            if let Some(found) = read(&host, &folder) {
                named.replace(&host, found);
            }
            done.send_replace(true);
            host.mirrors.notify_one();
            match &watcher {
                Some(watcher) => {
                    if changed(watcher).await.is_err() {
                        sleep(POLL).await;
                    }
                    sleep(SETTLE).await;
                    drain(watcher);
                }
                None => sleep(POLL).await,
            }
        }
    });
    on_read
}

/// Every file with what it says; `None` where the folder cannot be read.
fn read(host: &Host, folder: &Path) -> Option<Vec<(String, Result<Pod, String>)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
        Err(error) => {
            warn!(%error, "static pods cannot be read");
            return None;
        }
    };
    let pod = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let plain = entry.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
        if name.starts_with('.') || !plain {
            return None;
        }
        let source = format!("file:{}", entry.path().display());
        let text = fs::read_to_string(entry.path()).map_err(|error| error.to_string());
        let tree = text.and_then(|text| from_yaml(&text).map_err(|error| error.to_string()));
        Some((name, tree.and_then(|tree| manifest::parse(host, &source, tree))))
    };
    Some(entries.flatten().filter_map(pod).collect())
}

fn watch_folder(folder: &Path) -> io::Result<Receiver> {
    fs::create_dir_all(folder)?;
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let fd = inotify::init(flags)?;
    let what = inotify::WatchFlags::CLOSE_WRITE
        | inotify::WatchFlags::MOVED_TO
        | inotify::WatchFlags::MOVED_FROM
        | inotify::WatchFlags::DELETE;
    inotify::add_watch(&fd, folder, what)?;
    // readable and non-blocking, as a pipe is
    Receiver::from_owned_fd_unchecked(fd)
}

async fn changed(watcher: &Receiver) -> io::Result<()> {
    watcher.readable().await
}

fn drain(watcher: &Receiver) {
    let mut space = [0; 4096];
    while watcher.try_read(&mut space).is_ok_and(|got| got > 0) {}
}
