//! Static pods: files in a folder, read again when they change.

use std::{collections::BTreeMap, fs, io, path::Path, sync::Arc, time::Duration};

use api::core::Pod;
use object::{Time, Value, to_json, yaml::from_yaml};
use rustix::fs::inotify;
use schema::Kind;
use tokio::{net::unix::pipe::Receiver, sync::watch, time::sleep};
use tracing::{info, warn};

use crate::Host;

/// Larger files are no pods.
const LARGEST: u64 = 4 << 20;
/// Editors write in several steps.
const SETTLE: Duration = Duration::from_millis(50);
/// For folders that cannot be watched.
const POLL: Duration = Duration::from_secs(20);

/// Follows the folder; turns true after the first look.
pub(crate) fn start(host: &Arc<Host>) -> watch::Receiver<bool> {
    let (read, on_read) = watch::channel(false);
    let Some(folder) = host.config.static_pods.clone() else {
        read.send_replace(true);
        return on_read;
    };
    let host = host.clone();
    let cx = host.cx.clone();
    cx.spawn("static pods", async move {
        let watcher = watch_folder(&folder)
            .inspect_err(|error| warn!(%error, "the folder of static pods is not watched"))
            .ok();
        let mut known = BTreeMap::new();
        loop {
            known = apply(&host, &folder, known);
            read.send_replace(true);
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

/// A pod as a file describes it, with the names that this node gives it.
pub(crate) fn parse(host: &Host, source: &str, content: &[u8]) -> Result<Pod, String> {
    let text = std::str::from_utf8(content).map_err(|error| error.to_string())?;
    let mut tree = from_yaml(text).map_err(|error| error.to_string())?;
    if tree["kind"].as_str() != Some("Pod") || tree["apiVersion"].as_str() != Some("v1") {
        return Err("it is not a v1 Pod".into());
    }
    let mut unknown = schema::Unknown::default();
    schema::conform(<Pod as object::Lens>::SHAPE, &mut tree, &mut unknown)?;
    let node = &host.config.node_name;
    let hash = fingerprint(&[to_json(&tree).as_slice(), node.as_bytes(), source.as_bytes()]);
    let meta = &mut tree["metadata"];
    let name = meta["name"].as_str().ok_or("it has no name")?.to_owned();
    meta["name"] = format!("{name}-{}", node.to_lowercase()).into();
    if meta["namespace"].is_null() {
        meta["namespace"] = "default".into();
    }
    if meta["uid"].is_null() {
        meta["uid"] = (&*hash).into();
    }
    let uid = meta["uid"].as_str().unwrap_or_default().to_owned();
    let notes = &mut meta["annotations"];
    notes["kubernetes.io/config.hash"] = uid.into();
    notes["kubernetes.io/config.source"] = source.split(':').next().unwrap_or_default().into();
    notes["kubernetes.io/config.seen"] = Time::text(host.now()).into();
    tree["spec"]["nodeName"] = (&**node).into();
    let mut toleration = Value::object();
    (toleration["operator"], toleration["effect"]) = ("Exists".into(), "NoExecute".into());
    let old = tree["spec"]["tolerations"].items().to_vec();
    tree["spec"]["tolerations"] = old.into_iter().chain([toleration]).collect();
    tree.remove("status");
    schema::normalize(<Pod as object::Lens>::SHAPE, &mut tree);
    let mut pod = Pod::from(tree);
    pod.default_fields();
    if pod.spec().containers().is_empty() {
        return Err("it has no containers".into());
    }
    Ok(pod)
}

/// Starts what is new and ends what has gone; gives what there is, by file.
fn apply(
    host: &Arc<Host>,
    folder: &Path,
    known: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return end(host, known, &found),
        Err(error) => {
            warn!(%error, "static pods cannot be read");
            return known;
        }
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let plain = entry.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
        if name.starts_with('.') || !plain {
            continue;
        }
        let source = format!("file:{}", entry.path().display());
        let read = fs::read(entry.path()).map_err(|error| error.to_string());
        match read.and_then(|content| parse(host, &source, &content)) {
            Ok(pod) => {
                let uid = pod.metadata().uid().to_owned();
                found.insert(name, uid.clone());
                if !host.pods.has(&uid) {
                    info!(pod = pod.metadata().name(), "a static pod");
                    host.pods.want(host, pod, None, true);
                }
            }
            Err(error) => {
                warn!(file = name, %error, "not a static pod");
                // half-written: what runs stays until the file reads again or has gone
                found.extend(known.get(&name).map(|uid| (name, uid.clone())));
            }
        }
    }
    end(host, known, &found)
}

fn end(
    host: &Arc<Host>,
    known: BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    for uid in known.values().filter(|uid| !found.values().any(|other| other == *uid)) {
        host.pods.unwant(host, uid);
    }
    found.clone()
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

/// 32 hexadecimal digits that stand for the content.
fn fingerprint(parts: &[&[u8]]) -> String {
    let mut hashes = [0xcbf2_9ce4_8422_2325_u64, 0x6c62_272e_07bb_0142];
    for (at, byte) in parts.iter().flat_map(|part| part.iter()).enumerate() {
        for (which, hash) in hashes.iter_mut().enumerate() {
            let salt = u64::try_from(at * which).unwrap_or_default();
            *hash = (*hash ^ u64::from(*byte) ^ salt).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hashes.map(|hash| format!("{hash:016x}")).concat()
}
