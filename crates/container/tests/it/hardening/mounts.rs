//! Mount targets stay in the container's root, however its volumes and symlinks change meanwhile (CVE-2021-30465,
//! -2019-19921, -2023-27561, -2024-45310).

use std::{fs, os::unix::fs::symlink};

use container::cri::{ImageSpec, RemoveContainerRequest};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{mount, races};
use crate::support::{Runtime, entry, shell, wait_for};

#[tokio::test]
async fn a_volume_that_is_swapped_leads_nowhere() {
    let shared = tempfile::tempdir().expect("a folder");
    let (data, escape) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let outside = escape.path().join("outside");
    fs::create_dir(&outside).expect("made");
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    // A directory, a symlink to the host, a FIFO and nothing, in turn.
    let script = format!(
        "echo begun; cd /vol; while :; do mkdir a; mv a x; mkdir -p x/y; mv x old; ln -s {0} x; rm -rf x old; \
         ln -s ../../../../../..{0} x; rm x; mkfifo x; rm x; done 2>/dev/null",
        outside.display()
    );
    let mut config = shell("swapper", &script);
    config.mounts.push(mount(shared.path(), "/vol"));
    runtime.container(&sandbox, config).await;
    wait_for(&runtime.logs().join("swapper.log"), "begun").await;
    let mut started = 0;
    for number in 0..races() {
        let mut config = shell("victim", "sleep 1000");
        config.metadata.as_mut().expect("made by shell()").attempt =
            u32::try_from(number).expect("small");
        config.mounts.push(mount(shared.path(), "/vol"));
        config.mounts.push(mount(data.path(), "/vol/x/y/z"));
        config.working_dir = "/vol/x/w".into();
        // Whether it starts depends on what it finds; where it is mounted must not.
        if let Ok(id) = runtime.try_container(&sandbox, config).await {
            started += 1;
            let remove = RemoveContainerRequest { container_id: id };
            runtime.cri.runtime.remove_container(remove).await.expect("remove");
        }
    }
    println!("{started} of {} started", races());
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 0, "made on the host");
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains(&*outside.to_string_lossy()), "mounted on the host");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// Images contain symlinks to files that exist only at run time: `/etc/resolv.conf` leads to `/run`.
#[tokio::test]
async fn links_that_lead_to_nothing_yet_are_followed_inside() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let image = "example.test/dangling:1";
    let fill = |layer: &mut tar::Builder<Vec<u8>>| {
        entry(layer, "etc/", tar::EntryType::Directory, "");
        entry(layer, "etc/hostname", tar::EntryType::Symlink, "../../../run/names/hostname");
    };
    runtime.import(image, "{}", fill).await;
    let mut config = shell("a", "cat /run/names/hostname; echo end");
    config.image = Some(ImageSpec { image: image.into(), ..ImageSpec::default() });
    runtime.container(&sandbox, config).await;
    let log = wait_for(&runtime.logs().join("a.log"), " end\n").await;
    assert!(log.contains(" harbour\n"), "{log}");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn no_mount_blocks_or_leaves_the_root() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let shared = tempfile::tempdir().expect("a folder");
    let fifo = shared.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a FIFO");
    symlink("/../../../../etc", shared.path().join("link")).expect("a link");
    let file = shared.path().join("file");
    fs::write(&file, "content").expect("written");
    let mut config = shell("a", "cat /vol/fifo; cat /etc/added; echo end");
    config.mounts.push(mount(shared.path(), "/vol"));
    config.mounts.push(mount(&file, "/vol/fifo"));
    config.mounts.push(mount(&file, "/vol/link/added"));
    runtime.container(&sandbox, config).await;
    let log = wait_for(&runtime.logs().join("a.log"), "end").await;
    assert_eq!(log.matches("content").count(), 2, "{log}");
    assert!(!std::path::Path::new("/etc/added").exists());
    for target in ["/", "/proc", "/proc/self/attr", "/tmp/../proc/sys", "relative"] {
        let mut config = shell("b", "sleep 1000");
        config.mounts.push(mount(shared.path(), target));
        runtime.try_container(&sandbox, config).await.expect_err(target);
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// Which files of /proc may be covered is decided by name; a symlink gives them another name (CVE-2019-19921).
#[tokio::test]
async fn no_link_leads_a_mount_into_proc() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let shared = tempfile::tempdir().expect("a folder");
    symlink("/proc", shared.path().join("link")).expect("a link");
    let image = "example.test/proc-link:1";
    let fill = |layer: &mut tar::Builder<Vec<u8>>| {
        entry(layer, "p", tar::EntryType::Symlink, "/proc");
        entry(layer, "s", tar::EntryType::Symlink, "/proc/self");
    };
    runtime.import(image, "{}", fill).await;
    let targets =
        ["/vol/link/self/attr", "/vol/link/sys", "/vol/link", "/p", "/s/attr", "/proc/../p/sys"];
    for target in targets {
        let mut config = shell("a", "sleep 1000");
        config.image = Some(ImageSpec { image: image.into(), ..ImageSpec::default() });
        config.mounts.push(mount(shared.path(), "/vol"));
        config.mounts.push(mount(shared.path(), target));
        let refused = runtime.try_container(&sandbox, config).await.expect_err(target);
        assert!(refused.message().contains("/proc"), "{target}: {refused}");
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}
