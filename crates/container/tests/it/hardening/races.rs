//! Processes that are being started, observed from inside a container and from outside: at no moment do they expose the
//! host's files, or hold the shim's descriptors.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use container::cri::{
    ContainerConfig, ExecSyncRequest, NamespaceMode, RemoveContainerRequest, SecurityProfile,
    security_profile::ProfileType,
};

use super::{allow_tracing, races, security};
use crate::support::{Runtime, shell, wait_for};

/// Searches for a file of the host through the root of every process, in a loop.
fn watcher(canary: &Path) -> ContainerConfig {
    let script = format!(
        "echo begun; while :; do for p in /proc/[0-9]*; do [ -e $p/root{0} ] && echo ESCAPED $p; \
         [ -e $p/cwd{0} ] && echo ESCAPED $p; done; done",
        canary.display()
    );
    let mut config = shell("watcher", &script);
    allow_tracing(&mut config);
    config
}

fn canary() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("canary");
    fs::write(&path, "of the host").expect("written");
    (folder, path)
}

#[tokio::test]
async fn an_exec_never_shows_the_hosts_files() {
    let (_folder, canary) = canary();
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let id = runtime.container(&sandbox, watcher(&canary)).await;
    let log = runtime.logs().join("watcher.log");
    wait_for(&log, "begun").await;
    for _ in 0..races() {
        assert_eq!(runtime.exec(&id, "true").await.expect("exec").0, 0);
    }
    let said = fs::read_to_string(&log).expect("a log");
    assert!(!said.contains("ESCAPED"), "{}", said.lines().take(5).collect::<Vec<_>>().join("\n"));
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// The pod's pause process is among the observed ones.
#[tokio::test]
async fn a_start_in_a_shared_namespace_never_shows_the_hosts_files() {
    let (_folder, canary) = canary();
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sharing_sandbox("pod").await;
    let share = |mut config: ContainerConfig| {
        let options = security(&mut config).namespace_options.as_mut().expect("made by shell()");
        options.pid = NamespaceMode::Pod.into();
        config
    };
    runtime.container(&sandbox, share(watcher(&canary))).await;
    let log = runtime.logs().join("watcher.log");
    wait_for(&log, "begun").await;
    for number in 0..races() / 4 {
        let mut config = share(shell("brief", "ps | grep -c pause"));
        config.metadata.as_mut().expect("made by shell()").attempt =
            u32::try_from(number).expect("small");
        let id = runtime.container(&sandbox, config).await;
        let remove = RemoveContainerRequest { container_id: id };
        runtime.cri.runtime.remove_container(remove).await.expect("remove");
    }
    let said = fs::read_to_string(&log).expect("a log");
    assert!(!said.contains("ESCAPED"), "{}", said.lines().take(5).collect::<Vec<_>>().join("\n"));
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// What is wrong with a process of a container that still executes the runtime's program.
fn faults(pid: &str, init: i32, folder: &Path) -> Option<String> {
    let link = |pid: &str, name: &str| fs::read_link(format!("/proc/{pid}/{name}")).ok();
    let (init, own) = (init.to_string(), link(pid, "ns/pid")?);
    let program = link(pid, "exe")?;
    if pid == init || Some(own) != link(&init, "ns/pid") || !program.ends_with("container-shim") {
        return None;
    }
    let mut faults = Vec::new();
    if link(pid, "ns/mnt")? != link(&init, "ns/mnt")? {
        faults.push("another mount namespace".to_owned());
    }
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let open: Vec<_> = open.filter_map(|fd| fs::read_link(fd.path()).ok()).collect();
    faults.extend(
        open.iter().filter(|fd| fd.starts_with(folder)).map(|fd| format!("{}", fd.display())),
    );
    if open.len() > 6 {
        faults.push(format!("{} descriptors", open.len()));
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let set = |status: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:\t"))?;
        u64::from_str_radix(line, 16).ok()
    };
    let of_init = set(&fs::read_to_string(format!("/proc/{init}/status")).ok()?)?;
    if set(&status)? & !of_init != 0 {
        faults.push("more capabilities".to_owned());
    }
    if !status.contains("Seccomp:\t2\n") {
        faults.push("no filter".to_owned()); // whoever traces it now has none either
    }
    // It may have executed the container's program in between.
    (link(pid, "exe")? == program).then(|| faults.join(", "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exec_has_the_containers_rights_and_filter_when_it_appears() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let mut config = shell("a", "sleep 100000"); // 10,000 take a while
    // Processes of the container may trace: then even a non-dumpable process is not safe.
    allow_tracing(&mut config);
    security(&mut config).seccomp = Some(SecurityProfile {
        profile_type: ProfileType::RuntimeDefault.into(),
        ..SecurityProfile::default()
    });
    let id = runtime.container(&sandbox, config).await;
    let (init, folder) = (runtime.init(&id), runtime.folder().to_owned());
    let (over, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (stop, count) = (over.clone(), seen.clone());
    let looking = std::thread::spawn(move || {
        let mut found = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            for entry in fs::read_dir("/proc").expect("processes").flatten() {
                let name = entry.file_name();
                let pid =
                    name.to_str().filter(|name| name.starts_with(|c: char| c.is_ascii_digit()));
                if let Some(faults) = pid.and_then(|pid| faults(pid, init, &folder)) {
                    count.fetch_add(1, Ordering::Relaxed);
                    found.extend(Some(faults).filter(|faults| !faults.is_empty()));
                }
            }
        }
        found
    });
    for number in 0..races() {
        let done = runtime.exec(&id, "true").await;
        assert_eq!(done.unwrap_or_else(|error| panic!("exec {number}: {error}")).0, 0);
    }
    over.store(true, Ordering::Relaxed);
    let found = looking.join().expect("no panic");
    println!("seen {} processes on their way", seen.load(Ordering::Relaxed));
    assert!(found.is_empty(), "{} times: {:?}", found.len(), found.first());
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// The container exchanges what an exec depends on: its working directory, /etc/passwd, /dev/pts and the program. The
/// exec runs in the container's root or not at all, and replies either way.
#[tokio::test]
async fn an_exec_stays_in_the_root_however_that_changes() {
    let (folder, canary) = canary();
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let script = format!(
        "echo begun; cd /; mv /bin/sh /bin/kept; while :; do \
         mkdir work; rmdir work; for to in /proc/self/fd/3 /proc/self/fd/5 /proc/1/root /proc/1/cwd {0}; do \
         ln -s $to work; rm work; done; mkfifo work; rm work; mkdir work; mv work gone; rmdir gone; \
         mkfifo etc/passwd; rm etc/passwd; ln -s /proc/self/fd/0 etc/passwd; rm etc/passwd; \
         ln -s /proc/self/exe bin/sh; rm bin/sh; ln -s busybox bin/sh; \
         [ -e {0} ] && echo ESCAPED; rm bin/sh; done 2>/dev/null",
        folder.path().display()
    );
    let mut config = shell("swapper", &script);
    config.working_dir = "/work".into();
    let id = runtime.container(&sandbox, config).await;
    wait_for(&runtime.logs().join("swapper.log"), "begun").await;
    let look = format!("ls -a . .. ../.. ../../..{0}", folder.path().display());
    let (mut ran, mut refused) = (0, 0);
    for number in 0..races() {
        let program = if number % 2 == 0 { "/bin/sh" } else { "/bin/busybox" };
        let tail =
            if number % 2 == 0 { vec!["-c", look.as_str()] } else { vec!["sh", "-c", &look] };
        let cmd = std::iter::once(program).chain(tail).map(str::to_owned).collect();
        let request = ExecSyncRequest { container_id: id.clone(), cmd, timeout: 20 };
        match runtime.cri.runtime.exec_sync(request).await {
            Ok(answer) => {
                ran += 1;
                let answer = answer.into_inner();
                let said = String::from_utf8_lossy(&answer.stdout).into_owned();
                assert!(!said.contains("canary"), "{said}");
            }
            Err(error) => {
                assert_ne!(error.code(), tonic::Code::DeadlineExceeded, "{error}");
                refused += 1;
            }
        }
    }
    println!("{ran} ran, {refused} were refused");
    assert!(ran > 0, "no exec ran");
    let said = fs::read_to_string(runtime.logs().join("swapper.log")).expect("a log");
    assert!(!said.contains("ESCAPED"), "{said}");
    assert!(canary.exists());
    runtime.remove(&sandbox).await;
    runtime.end().await;
}
