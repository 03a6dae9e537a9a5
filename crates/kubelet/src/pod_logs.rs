//! Paths of container logs, as log collectors expect them:
//!
//! ```text
//!  /var/log/pods/NAMESPACE_POD_UID/CONTAINER/RESTARTS.log      the log
//!  /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log          a link to it
//! ```
//!
//! Several kubelets may share these directories. Each kubelet records the pods whose logs it created in a directory of
//! its own, one file per pod with the name of the pod's log directory, and removes no others.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::Config;

/// NAME_MAX: maximum length of a file name.
const LONGEST_NAME: usize = 255;

/// The log directory of a pod.
#[derive(Clone, Debug)]
pub(crate) struct PodLogs {
    logs: PathBuf,
    records: PathBuf,
    /// `NAMESPACE_POD_UID`.
    name: String,
}

/// Identifies the log of a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogOf<'a> {
    pub(crate) container: &'a str,
    pub(crate) id: &'a str,
    pub(crate) restarts: i32,
}

impl PodLogs {
    pub(crate) fn of(config: &Config, pod: &api::core::Pod) -> Self {
        let meta = pod.metadata();
        let name = folder_name(meta.namespace(), meta.name(), meta.uid());
        Self { logs: config.pod_logs_dir.clone(), records: records(&config.root_dir), name }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.logs.join(&self.name)
    }

    /// Creates the record, then the pod's log directory.
    pub(crate) fn create(&self) -> io::Result<()> {
        fs::create_dir_all(&self.records)?;
        fs::write(self.records.join(&self.name), "")?;
        fs::create_dir_all(self.folder())
    }

    /// Creates the symlink for log collectors to a container's log.
    pub(crate) fn link(&self, of: LogOf<'_>) -> io::Result<()> {
        let Some(folder) = links(&self.logs) else { return Ok(()) };
        fs::create_dir_all(&folder)?;
        let (link, target) = (folder.join(self.link_name(of)), self.target(of));
        if fs::read_link(&link).is_ok_and(|found| found == target) {
            return Ok(());
        }
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => symlink(target, link),
        }
    }

    /// Removes the logs of one container, including rotated ones.
    pub(crate) fn remove_container(&self, of: LogOf<'_>) -> io::Result<()> {
        if let Some(folder) = links(&self.logs) {
            gone_is_fine(fs::remove_file(folder.join(self.link_name(of))))?;
        }
        let folder = self.folder().join(of.container);
        let (plain, aside) = (format!("{}.log", of.restarts), format!("{}.log.", of.restarts));
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == plain || name.starts_with(&aside) {
                gone_is_fine(fs::remove_file(entry.path()))?;
            }
        }
        Ok(())
    }

    /// Removes all logs of the pod, and the record last.
    pub(crate) fn remove(&self) -> io::Result<()> {
        if let Some(folder) = links(&self.logs) {
            let below = Path::new("..").join("pods").join(&self.name);
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if fs::read_link(&path).is_ok_and(|target| target.starts_with(&below)) {
                    gone_is_fine(fs::remove_file(path))?;
                }
            }
        }
        sys::tree::remove(&self.folder())?;
        gone_is_fine(fs::remove_file(self.records.join(&self.name)))
    }

    fn target(&self, of: LogOf<'_>) -> PathBuf {
        let file = format!("{}.log", of.restarts);
        Path::new("..").join("pods").join(&self.name).join(of.container).join(file)
    }

    fn link_name(&self, of: LogOf<'_>) -> String {
        let mut parts = self.name.splitn(3, '_');
        let (namespace, pod) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let mut name = format!("{pod}_{namespace}_{}-{}", of.container, of.id);
        name.truncate(name.floor_char_boundary(LONGEST_NAME - ".log".len()));
        name + ".log"
    }
}

/// `NAMESPACE_POD_UID`. A pod's name may be as long as a file name: then it is truncated, and the uid still makes the
/// directory unique.
pub(crate) fn folder_name(namespace: &str, pod: &str, uid: &str) -> String {
    let others = namespace.len() + uid.len() + "__".len();
    let (pod, _) = pod.split_at(pod.floor_char_boundary(LONGEST_NAME.saturating_sub(others)));
    format!("{namespace}_{pod}_{uid}")
}

/// Removes the logs of all pods that a kubelet with this root directory created below `logs`.
pub fn remove_all(root: &Path, logs: &Path) -> io::Result<()> {
    for pod in made(root, logs) {
        pod.remove()?;
    }
    Ok(())
}

/// The log directories that this kubelet created, with the uids of their pods.
pub(crate) fn made_by(config: &Config) -> Vec<(String, PodLogs)> {
    let uid = |pod: &PodLogs| pod.name.rsplit('_').next().unwrap_or_default().to_owned();
    made(&config.root_dir, &config.pod_logs_dir).into_iter().map(|pod| (uid(&pod), pod)).collect()
}

fn made(root: &Path, logs: &Path) -> Vec<PodLogs> {
    let records = records(root);
    let entries = fs::read_dir(&records).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.split('_').count() == 3)
        .map(|name| PodLogs { logs: logs.to_owned(), records: records.clone(), name })
        .collect()
}

fn records(root: &Path) -> PathBuf {
    root.join("pod-logs")
}

/// The directory of the symlinks; `None` unless the log directory has its usual name, `pods`.
fn links(logs: &Path) -> Option<PathBuf> {
    let parent = logs.parent().filter(|_| logs.file_name().is_some_and(|name| name == "pods"))?;
    Some(parent.join("containers"))
}

fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::*;

    fn logs(root: &Path, kubelet: &str, uid: &str) -> PodLogs {
        let mut config = Config::new("n", "/nowhere");
        config.root_dir = root.join(kubelet);
        config.pod_logs_dir = root.join("log/pods");
        let text = format!("metadata: {{name: web, namespace: ns, uid: {uid}}}");
        PodLogs::of(&config, &api::core::Pod::from(from_yaml(&text).unwrap()))
    }

    fn names(folder: PathBuf) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn collectors_find_logs_and_only_ones_own_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let (own, other) = (logs(root, "a", "u1"), logs(root, "b", "u2"));
        let of = |id: &'static str, restarts| LogOf { container: "c", id, restarts };
        for pod in [&own, &other] {
            pod.create().unwrap();
            fs::create_dir_all(pod.folder().join("c")).unwrap();
            for file in ["0.log", "0.log.20260101-000000.gz", "1.log", "10.log"] {
                fs::write(pod.folder().join("c").join(file), file).unwrap();
            }
        }
        own.link(of("one", 0)).unwrap();
        own.link(of("two", 1)).unwrap();
        own.link(of("two", 1)).unwrap();
        other.link(of("three", 0)).unwrap();
        let link = root.join("log/containers/web_ns_c-two.log");
        assert_eq!(fs::read_to_string(&link).unwrap(), "1.log");
        assert!(fs::read_link(&link).unwrap().is_relative());

        own.remove_container(of("one", 0)).unwrap();
        assert_eq!(names(own.folder().join("c")), ["1.log", "10.log"]);
        assert_eq!(names(root.join("log/containers")), ["web_ns_c-three.log", "web_ns_c-two.log"]);

        remove_all(&root.join("a"), &root.join("log/pods")).unwrap();
        assert_eq!(names(root.join("log/pods")), ["ns_web_u2"]);
        assert_eq!(names(root.join("log/containers")), ["web_ns_c-three.log"]);
        assert_eq!(names(root.join("a/pod-logs")), Vec::<String>::new());
        remove_all(&root.join("a"), &root.join("log/pods")).unwrap();
    }

    #[test]
    fn a_long_name_is_cut() {
        let root = tempfile::tempdir().unwrap();
        let pod = logs(root.path(), "a", "u1");
        let container = "c".repeat(300);
        let name = pod.link_name(LogOf { container: &container, id: "x", restarts: 0 });
        assert!(name.len() == 255 && name.ends_with("c.log"), "{name}");
        let (namespace, pod, uid) = ("n".repeat(63), "p".repeat(253), "u".repeat(36));
        let folder = folder_name(&namespace, &pod, &uid);
        assert!(folder.len() == 255 && folder.ends_with(&format!("p_{uid}")), "{folder}");
        assert_eq!(folder.split('_').count(), 3);
        assert_eq!(folder_name("ns", "web", "u1"), "ns_web_u1");
    }
}
