//! Masked and read-only paths, which hold however pod and image try to circumvent them (CVE-2025-31133 and similar).

use std::os::unix::fs::symlink;

use container::cri::ImageSpec;

use super::{mount, security};
use crate::support::{Runtime, entry, shell, wait_for};

const MASKED: &str = "/proc/timer_list";

#[tokio::test]
async fn masks_are_not_of_the_containers_making() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let host = tempfile::tempdir().expect("a folder");
    std::fs::write(host.path().join("file"), "not a device").expect("written");
    let dev = host.path().join("dev");
    std::fs::create_dir(&dev).expect("made");
    symlink("/proc/sys/kernel/hostname", dev.join("null")).expect("a link");
    for (name, hostile) in
        [("file", mount(&host.path().join("file"), "/dev/null")), ("folder", mount(&dev, "/dev"))]
    {
        let script = format!(
            "cat {MASKED}; echo changed > {MASKED}; stat -c %t:%T {MASKED}; hostname; echo end"
        );
        let mut config = shell(name, &script);
        config.mounts.push(hostile);
        security(&mut config).masked_paths = vec![MASKED.into()];
        runtime.container(&sandbox, config).await;
        let log = wait_for(&runtime.logs().join(format!("{name}.log")), " end\n").await;
        assert!(!log.contains("not a device") && log.contains(" 1:3\n"), "{name}: {log}");
        assert!(log.contains(" harbour\n"), "{name}: {log}");
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// The device that masks a file is the host's, and must not be changed through the mask.
#[tokio::test]
async fn masks_cannot_be_changed() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let script = format!("chmod 600 {MASKED}; echo end");
    let mut config = shell("a", &script);
    security(&mut config).masked_paths = vec![MASKED.into(), "/proc/scsi".into(), MASKED.into()];
    runtime.container(&sandbox, config).await;
    let log = wait_for(&runtime.logs().join("a.log"), " end\n").await;
    assert!(log.contains("Read-only file system"), "{log}");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn the_runtimes_own_file_systems_stand_on_ordinary_directories() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    for name in ["proc", "sys", "dev"] {
        let image = format!("example.test/linked-{name}:1");
        let fill = |layer: &mut tar::Builder<Vec<u8>>| {
            entry(layer, "elsewhere/", tar::EntryType::Directory, "");
            entry(layer, name, tar::EntryType::Symlink, "/elsewhere");
        };
        runtime.import(&image, "{}", fill).await;
        let mut config = shell(name, "echo ran");
        config.image = Some(ImageSpec { image, ..ImageSpec::default() });
        security(&mut config).masked_paths = vec![MASKED.into()];
        let error = runtime.try_container(&sandbox, config).await.expect_err("a link");
        assert!(
            error.message().contains("must be mounted on ordinary directory"),
            "{name}: {error}"
        );
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}
