//! Process attributes that come from the runtime, not from whoever started the node: limits, umask, keyring, working
//! directory, terminal.

use container::cri::{
    Capability, ExecRequest, ImageSpec, Int64Value, SecurityProfile, security_profile::ProfileType,
};

use super::security;
use crate::{
    stream::Session,
    support::{Runtime, SHIM, shell, wait_for},
};

const SHOWN: &str = "umask; ulimit -n; ulimit -Hn; ulimit -c; ulimit -v; ulimit -f; \
    grep Cpus_allowed: /proc/self/status; busybox cut -d ' ' -f 19 /proc/self/stat; \
    busybox ionice -p $$; cat /proc/self/personality; echo end";

#[tokio::test]
async fn limits_and_umask_are_not_the_nodes() {
    let strange = "umask 077; ulimit -Sn 333; ulimit -Sc 77; ulimit -Sv 9000000; ulimit -Sf 99999; \
        exec taskset 1 nice -n 3 ionice -c 3 setarch -R \"$0\" \"$@\"";
    let mut runtime = Runtime::start_with("/bin/sh", &["-c", strange, SHIM]).await;
    let sandbox = runtime.sandbox("pod").await;
    let id = runtime.container(&sandbox, shell("a", &format!("{SHOWN}; sleep 1000"))).await;
    let log = wait_for(&runtime.logs().join("a.log"), " end\n").await;
    let lines =
        |text: &str| -> Vec<String> { text.lines().map(|line| line.trim().to_owned()).collect() };
    let started: Vec<_> = log
        .lines()
        .map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().trim().to_owned())
        .collect();
    let (_, said) = runtime.exec(&id, SHOWN).await.expect("exec");
    let own = std::fs::read_to_string("/proc/self/limits").expect("proc");
    let open = own.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    let hard: u64 = open.split_whitespace().nth(4).and_then(|n| n.parse().ok()).unwrap_or(u64::MAX);
    let files = hard.min(1 << 20).to_string();
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let processors = status.lines().find(|line| line.starts_with("Cpus_allowed:")).expect("a line");
    let expected = [
        "0022",
        &files,
        &files,
        "0",
        "unlimited",
        "unlimited",
        processors,
        "0", // nice
        "none: prio 0",
        "00000000", // personality
        "end",
    ]
    .map(str::to_owned);
    assert_eq!(started, expected);
    assert_eq!(lines(&said), expected);
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn every_process_has_a_session_keyring_of_its_own() {
    let sessions = |text: &str| -> Vec<String> {
        let ours = text.lines().filter(|line| line.contains("keyring") && line.contains("_ses"));
        let numbers = ours.filter_map(|line| line.split_whitespace().find(|word| word.len() == 8));
        numbers.map(str::to_owned).collect()
    };
    let mut known = sessions(&std::fs::read_to_string("/proc/keys").expect("keys"));
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let id = runtime.container(&sandbox, shell("a", "cat /proc/keys; echo end; sleep 1000")).await;
    let log = wait_for(&runtime.logs().join("a.log"), " end\n").await;
    let (_, said) = runtime.exec(&id, "cat /proc/keys").await.expect("exec");
    // Root sees the keyrings of all processes that run as root; one of them is new each time.
    for seen in [sessions(&log), sessions(&said)] {
        assert!(seen.iter().any(|key| !known.contains(key)), "{seen:?} {known:?}");
        known.extend(seen);
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// The kernel has a few thousand terminals for all containers together.
#[tokio::test]
async fn a_container_does_not_take_all_terminals() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let take = "i=0; while [ $i -lt 300 ]; do sleep 1000 </dev/ptmx & i=$((i+1)); done; sleep 2; \
                echo \"have $(ls /dev/pts | grep -c '[0-9]')\"; echo end; sleep 1000";
    runtime.container(&sandbox, shell("a", take)).await;
    let log = wait_for(&runtime.logs().join("a.log"), " end\n").await;
    assert!(log.contains("have 256\n"), "{log}");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// Descriptors of the runtime as a working directory (CVE-2024-21626), by the image, the pod and for exec.
#[tokio::test]
async fn a_working_directory_is_in_the_root() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    for number in 3..20 {
        let image = format!("example.test/cwd-{number}:1");
        let folder = format!("/proc/self/fd/{number}");
        runtime.import(&image, &format!(r#"{{"WorkingDir":"{folder}"}}"#), |_| ()).await;
        let mut config = shell(&format!("image-{number}"), "ls ../../..; sleep 1000");
        config.image = Some(ImageSpec { image, ..ImageSpec::default() });
        runtime.try_container(&sandbox, config).await.expect_err("no folder of the container");
        let mut config = shell(&format!("pod-{number}"), "ls ../../..; sleep 1000");
        config.working_dir = folder;
        runtime.try_container(&sandbox, config).await.expect_err("no folder of the container");
    }
    let mut config = shell("later", "sleep 1000");
    config.working_dir = "/work".into();
    let id = runtime.container(&sandbox, config).await;
    assert_eq!(runtime.exec(&id, "echo $PWD").await.expect("exec").1, "/work\n");
    let swap = |to: &str| format!("cd /; rm -r /work; ln -s {to} /work");
    for target in ["/proc/self/fd/6", "/proc/1/cwd", "/proc/self/root/etc"] {
        // As the container's first process would leave it; the directory is created again for the next exec.
        runtime.exec(&id, &swap(target)).await.expect("exec");
        runtime.exec(&id, "echo $PWD").await.expect_err(target);
        let first = format!("/proc/{}/root/work", runtime.init(&id));
        std::fs::remove_file(&first).expect("the link");
        std::fs::create_dir(&first).expect("a folder");
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// The names in /dev belong to the container; its terminals come from devpts.
#[tokio::test]
async fn a_terminal_needs_no_name_that_a_container_can_change() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let id = runtime
        .container(&sandbox, shell("a", "rm /dev/ptmx; mkfifo /dev/ptmx; echo done; sleep 1000"))
        .await;
    wait_for(&runtime.logs().join("a.log"), "done").await;
    let cmd = ["sh", "-c", "tty; echo seen"].map(str::to_owned).into();
    let request =
        ExecRequest { container_id: id, cmd, tty: true, stdin: true, stdout: true, stderr: false };
    let url = runtime.cri.runtime.exec(request).await.expect("exec").into_inner().url;
    let said = Session::open(&url).await.read(1, "seen").await;
    assert!(said.contains("/dev/pts/0"), "{said}");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// A terminal belongs to its user, and the working directory may be accessible to that user only.
#[tokio::test]
async fn a_user_has_its_terminal_and_its_folder() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let home = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::chown(home.path(), Some(7), Some(7)).expect("given away"); // with mode 0700
    let mut config = shell("a", "echo $PWD; stat -c 'owner %u' /dev/pts/0; echo end; sleep 1000");
    config.tty = true;
    config.working_dir = "/home/seven".into();
    config.mounts.push(super::mount(home.path(), "/home/seven"));
    security(&mut config).run_as_user = Some(Int64Value { value: 7 });
    security(&mut config).capabilities =
        Some(Capability { drop_capabilities: vec!["ALL".into()], ..Capability::default() });
    let id = runtime.container(&sandbox, config).await;
    let log = wait_for(&runtime.logs().join("a.log"), " end").await;
    assert!(log.contains(" /home/seven") && log.contains(" owner 7"), "{log}");
    let (_, said) = runtime.exec(&id, "echo x > mine; echo $PWD").await.expect("exec");
    assert_eq!(said, "/home/seven\n");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// A volume mounted over /dev/pts (CVE-2025-52565): its files are not accepted as terminals.
#[tokio::test]
async fn a_terminal_is_not_a_file_of_a_volume() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let shared = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink("/proc/self/fd/3", shared.path().join("ptmx")).expect("a link");
    let mut config = shell("a", "sleep 1000");
    config.mounts.push(super::mount(shared.path(), "/dev/pts"));
    let id = runtime.container(&sandbox, config).await;
    let cmd = ["sh", "-c", "tty; echo seen"].map(str::to_owned).into();
    let request =
        ExecRequest { container_id: id, cmd, tty: true, stdin: true, stdout: true, stderr: false };
    let url = runtime.cri.runtime.exec(request).await.expect("exec").into_inner().url;
    let said = Session::open(&url).await.read(3, "}").await;
    assert!(said.contains("/dev/pts is no file system of terminals"), "{said}");
    let mut config = shell("b", "sleep 1000");
    config.tty = true;
    config.mounts.push(super::mount(shared.path(), "/dev/pts"));
    runtime.try_container(&sandbox, config).await.expect_err("no terminal");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// A missing profile name must not mean Unconfined (CVE-2023-2431).
#[tokio::test]
async fn a_profile_without_a_name_is_refused() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let mut config = shell("a", "sleep 1000");
    security(&mut config).seccomp =
        Some(SecurityProfile { profile_type: ProfileType::Localhost.into(), ..Default::default() });
    runtime.try_container(&sandbox, config).await.expect_err("no profile");
    for path in ["localhost/", "localhost/no-such-profile.json", "unknown"] {
        let mut config = shell("b", "sleep 1000");
        security(&mut config).seccomp_profile_path = path.into();
        runtime.try_container(&sandbox, config).await.expect_err(path);
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}
