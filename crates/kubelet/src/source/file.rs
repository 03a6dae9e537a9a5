//! Pod source: static pod manifests in a directory, reread when they change.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use api::core::Pod;
use object::yaml::from_yaml;
use rustix::fs::inotify;
use sys::container_file;
use tokio::{net::unix::pipe::Receiver, sync::watch, time::sleep};
use tracing::warn;

use super::manifest::{self, StaticPods};
use crate::KubeletContext;

/// Maximum size of a manifest.
const LARGEST: usize = 4 << 20;
/// Delay after a change, because editors write in several steps.
const SETTLE: Duration = Duration::from_millis(50);
/// Polling interval for directories that cannot be watched with inotify.
const POLL: Duration = Duration::from_secs(20);

/// Watches the directory; the receiver turns true after the first read.
pub(crate) fn start(host: &Arc<KubeletContext>) -> watch::Receiver<bool> {
    let (done, on_read) = watch::channel(false);
    let Some(folder) = host.config.static_pod_path.clone() else {
        done.send_replace(true);
        return on_read;
    };
    let host = host.clone();
    let cx = host.cx.clone();
    cx.keep("static pods", move || {
        let (host, folder, done) = (host.clone(), folder.clone(), done.clone());
        async move {
            let watcher = watch_folder(&folder)
                .inspect_err(|error| warn!(%error, "cannot watch the static pod directory"))
                .ok();
            let mut named = StaticPods::default();
            loop {
                if let Some(found) = read(&host, &folder) {
                    named.replace(&host, found);
                }
                done.send_replace(true);
                host.mirror_pods_changed.notify_one();
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
        }
    });
    on_read
}

/// Every manifest file with the pod it describes, or the error; `None` if the directory cannot be read.
fn read(host: &KubeletContext, folder: &Path) -> Option<Vec<(String, Result<Pod, String>)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
        Err(error) => {
            warn!(%error, "cannot read the static pod directory");
            return None;
        }
    };
    let pod = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            return None;
        }
        let source = format!("file:{}", entry.path().display());
        let text = read_text(&entry.path()).map_err(|error| error.to_string());
        let tree = text.and_then(|text| from_yaml(&text).map_err(|error| error.to_string()));
        let parse = |tree| {
            let pod = panics::catch("static pods", || manifest::parse(host, &source, tree));
            pod.unwrap_or_else(|panicked| Err(panicked.to_string()))
        };
        Some((name, tree.and_then(parse)))
    };
    Some(entries.flatten().filter_map(pod).collect())
}

fn read_text(path: &Path) -> io::Result<String> {
    let content = container_file::read_head(&container_file::open(path)?, LARGEST + 1)?;
    if content.len() > LARGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    String::from_utf8(content).map_err(io::Error::other)
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
    // an inotify descriptor is readable and non-blocking like a pipe
    Receiver::from_owned_fd_unchecked(fd)
}

async fn changed(watcher: &Receiver) -> io::Result<()> {
    watcher.readable().await
}

fn drain(watcher: &Receiver) {
    let mut space = [0; 4096];
    while watcher.try_read(&mut space).is_ok_and(|got| got > 0) {}
}
