//! Termination message of a container: from its `terminationMessagePath`, or from the end of its log.
//!
//! The container may have replaced the file by anything, so it is read through `sys::container_file`.

use std::path::Path;

use api::core::Pod;
use sys::container_file;

use super::observe::RuntimeContainer;
use crate::server::logs;

/// Maximum length in bytes of one container's message; the end of the file is kept.
const LONGEST: usize = 4096;
/// Maximum length in bytes of the messages of all containers of a pod.
const LONGEST_OF_POD: usize = 12 << 10;

/// Sets the message of an exited container from `file`. If the file is empty, the container failed and its policy is
/// `FallbackToLogsOnError`, uses the end of its log.
pub(crate) fn read(pod: &Pod, container: &mut RuntimeContainer, file: &Path) {
    let open = container_file::open(file);
    let mut said =
        open.and_then(|file| container_file::read_tail(&file, LONGEST)).unwrap_or_default();
    let spec = pod.spec();
    let of_spec = spec.all_containers().find(|one| one.name() == container.name);
    let falls_back =
        of_spec.is_some_and(|spec| spec.termination_message_policy() == "FallbackToLogsOnError");
    if said.is_empty() && falls_back && container.exit_code != 0 {
        said = logs::tail_for_termination_message(container.log.as_ref());
    }
    if !said.is_empty() {
        container.message = String::from_utf8_lossy(&said).into_owned();
    }
    let containers = spec.all_containers().count() + spec.ephemeral_containers().iter().count();
    let most = LONGEST_OF_POD / containers.max(1);
    container.message.truncate(container.message.floor_char_boundary(most));
}

#[cfg(test)]
mod tests {
    use std::fs;

    use object::yaml::from_yaml;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn said(containers: usize, file: &Path, log: &Path) -> String {
        let one = |at| format!("{{name: c{at}, terminationMessagePolicy: FallbackToLogsOnError}}");
        let all: Vec<_> = (0..containers).map(one).collect();
        let text = format!("spec: {{containers: [{}]}}", all.join(", "));
        let pod = Pod::from(from_yaml(&text).unwrap());
        let log = log.to_string_lossy().into_owned();
        let mut container = RuntimeContainer {
            name: "c0".into(),
            exit_code: 1,
            log,
            ..RuntimeContainer::default()
        };
        read(&pod, &mut container, file);
        container.message
    }

    #[test]
    fn whatever_the_container_made_of_the_file_little_is_read_and_nothing_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let (file, log) = (folder.path().join("file"), folder.path().join("log"));
        fs::write(&log, "2026-11-16T00:00:00Z stderr F failed\n").unwrap();
        assert_eq!(said(1, &file, &log), "failed\n");
        fs::write(&file, "done").unwrap();
        assert_eq!(said(1, &file, &log), "done");
        fs::write(&file, format!("{}end", "x".repeat(10_000))).unwrap();
        let message = said(1, &file, &log);
        assert!(message.len() == LONGEST && message.ends_with("end"));
        assert_eq!(said(12, &file, &log).len(), 1024, "its part of what the pod may say");
        fs::File::create(&file).unwrap().set_len(8 << 40).unwrap();
        assert_eq!(said(1, &file, &log).len(), LONGEST);
        fs::File::create(&log).unwrap().set_len(8 << 40).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(said(1, &file, &log), "");
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        assert_eq!(said(1, &file, &log), "");
        fs::remove_file(&file).unwrap();
        mknodat(CWD, &file, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        assert_eq!(said(1, &file, &log), "");
        fs::write(&log, "\u{fffd}".repeat(100)).unwrap();
        assert_eq!(said(1, &file, &log), "");
    }
}
