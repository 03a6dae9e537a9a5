//! Open descriptors of container processes: their own three, and none of the host's.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::support::{Runtime, shell, wait_for};

#[tokio::test]
async fn a_process_has_three_descriptors() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    // The fourth is the directory that ls reads.
    let id = runtime.container(&sandbox, shell("a", "ls /proc/self/fd | wc -l; sleep 1000")).await;
    let log = wait_for(&runtime.logs().join("a.log"), "\n").await;
    assert!(log.trim_end().ends_with(" 4"), "{log}");
    let (_, said) = runtime.exec(&id, "ls /proc/self/fd | wc -l").await.expect("exec");
    assert_eq!(said.trim(), "4");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// The empty stdin is a device of the host: the container must not be able to change it.
#[tokio::test]
async fn the_hosts_null_device_cannot_be_changed() {
    let null = std::path::Path::new("/dev/null");
    let before = std::fs::metadata(null).expect("a device");
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let attack = "chmod 0640 /proc/self/fd/0; chown 7:7 /proc/self/fd/0; echo tried";
    let id = runtime.container(&sandbox, shell("a", &format!("{attack}; sleep 1000"))).await;
    wait_for(&runtime.logs().join("a.log"), "tried").await;
    runtime.exec(&id, attack).await.expect("exec");
    let after = std::fs::metadata(null).expect("a device");
    // Restored first, because everything on this host uses it.
    std::fs::set_permissions(null, before.permissions()).expect("restored");
    std::os::unix::fs::chown(null, Some(before.uid()), Some(before.gid())).expect("restored");
    let shown = |meta: &std::fs::Metadata| (meta.permissions().mode(), meta.uid(), meta.gid());
    assert_eq!(shown(&after), shown(&before));
    // And it is still a device that can be written to.
    let (code, said) = runtime.exec(&id, "echo x > /dev/null && cat <&0").await.expect("exec");
    assert_eq!((code, said.as_str()), (0, ""));
    runtime.remove(&sandbox).await;
    runtime.end().await;
}
