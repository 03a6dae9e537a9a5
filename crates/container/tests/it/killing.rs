//! All processes of a container end with it, whatever they do to survive.

use std::{fs, path::PathBuf, time::Duration};

use container::cri::{
    ContainerConfig, ContainerState, ContainerStatusRequest, NamespaceMode, NamespaceOption,
    RemoveContainerRequest, StopContainerRequest,
};
use sys::cgroup::Hierarchies;

use crate::support::{Runtime, shell, wait_for};

/// A container whose processes the kernel does not kill with the first one, because it shares the pod's PID namespace.
fn in_pod_namespace(mut config: ContainerConfig) -> ContainerConfig {
    let linux = config.linux.as_mut().expect("made by shell()");
    let security = linux.security_context.as_mut().expect("made by shell()");
    security.namespace_options =
        Some(NamespaceOption { pid: NamespaceMode::Pod.into(), ..NamespaceOption::default() });
    config
}

fn privileged(mut config: ContainerConfig) -> ContainerConfig {
    let linux = config.linux.as_mut().expect("made by shell()");
    linux.security_context.as_mut().expect("made by shell()").privileged = true;
    config
}

/// The container's cgroup directories in all hierarchies.
fn folders(runtime: &Runtime, id: &str) -> Vec<PathBuf> {
    let group = format!("{}/tiphys/{id}", runtime.cgroup());
    let group = Hierarchies::detect().and_then(|all| all.group(&group)).expect("a group");
    let files = group.procs_files().into_iter();
    files.filter_map(|file| Some(file.parent()?.to_owned())).collect()
}

/// The number of processes with this word in their command line.
fn processes(word: &str) -> usize {
    let all = fs::read_dir("/proc").expect("processes").flatten();
    let has = |line: Vec<u8>| line.split(|byte| *byte == 0).any(|part| part == word.as_bytes());
    all.filter(|one| fs::read(one.path().join("cmdline")).is_ok_and(has)).count()
}

async fn stop(runtime: &mut Runtime, id: &str) {
    let began = std::time::Instant::now();
    let stop = StopContainerRequest { container_id: id.into(), timeout: 0 };
    runtime.cri.runtime.stop_container(stop).await.expect("stop");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let request = ContainerStatusRequest { container_id: id.into(), verbose: false };
    let answer = runtime.cri.runtime.container_status(request).await.expect("status");
    let state = answer.into_inner().status.expect("a status").state();
    assert_eq!(state, ContainerState::ContainerExited);
}

async fn remove(runtime: &mut Runtime, id: &str) {
    let remove = RemoveContainerRequest { container_id: id.into() };
    runtime.cri.runtime.remove_container(remove).await.expect("remove");
}

#[tokio::test]
async fn daemons_and_sessions_end_with_the_container() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    // each sleeps for a unique time, by which it is found
    let script = "(setsid sleep 86001 &) ; ( (sleep 86002 &) & ) ; \
                  sh -c 'trap \"\" TERM HUP INT; sleep 86003' & echo ready; sleep 86004";
    let id = runtime.container(&sandbox, in_pod_namespace(shell("daemons", script))).await;
    wait_for(&runtime.logs().join("daemons.log"), "ready").await;
    let words = ["86001", "86002", "86003", "86004"];
    while words.iter().any(|word| processes(word) == 0) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop(&mut runtime, &id).await;
    assert_eq!(words.map(processes), [0; 4]);
    remove(&mut runtime, &id).await;
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn a_fork_bomb_in_child_groups_ends_with_the_container() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    // in every hierarchy a cgroup below its own, and another one below that; each process starts others as it exits, so
    // that there is always a new one
    let script = "cd /sys/fs/cgroup; for c in . *; do [ -f $c/cgroup.procs ] || continue; \
                  busybox mkdir -p $c/a/b/c; for f in cpuset.cpus cpuset.mems; do \
                  [ -f $c/$f ] && for d in a a/b a/b/c; do cat $c/$f > $c/$d/$f; done; done; \
                  echo $$ > $c/a/b/c/cgroup.procs; done; \
                  bomb() { sh -c 'sleep 0.01; true' 86011; bomb & bomb & wait; }; echo ready; \
                  while true; do bomb & sleep 0.05; done";
    let config = privileged(in_pod_namespace(shell("bomb", script)));
    let id = runtime.container(&sandbox, config).await;
    wait_for(&runtime.logs().join("bomb.log"), "ready").await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    stop(&mut runtime, &id).await;
    assert_eq!(processes("86011"), 0);
    let folders = folders(&runtime, &id);
    remove(&mut runtime, &id).await;
    for folder in folders {
        assert!(!folder.exists(), "{} remains", folder.display());
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn a_frozen_container_can_be_ended() {
    let mut runtime = Runtime::start().await;
    for own_namespace in [true, false] {
        let sandbox = runtime.sandbox("pod").await;
        let name = if own_namespace { "own" } else { "shared" };
        let mut config = shell(name, "sleep 86021 & echo ready; sleep 86022");
        if !own_namespace {
            config = in_pod_namespace(config);
        }
        let id = runtime.container(&sandbox, config).await;
        wait_for(&runtime.logs().join(format!("{name}.log")), "ready").await;
        for folder in folders(&runtime, &id) {
            for (file, frozen) in [("freezer.state", "FROZEN"), ("cgroup.freeze", "1")] {
                if folder.join(file).exists() {
                    fs::write(folder.join(file), frozen).expect("frozen");
                }
            }
        }
        stop(&mut runtime, &id).await;
        assert_eq!(["86021", "86022"].map(processes), [0; 2]);
        runtime.remove(&sandbox).await;
    }
    runtime.end().await;
}

#[tokio::test]
async fn a_pod_with_stopped_and_frozen_processes_can_be_removed() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let script = "sleep 86031 & kill -STOP $!; setsid sleep 86032 & echo ready; kill -STOP $$";
    let config = in_pod_namespace(shell("stopped", script));
    let id = runtime.container(&sandbox, config).await;
    wait_for(&runtime.logs().join("stopped.log"), "ready").await;
    let folders = folders(&runtime, &id);
    for folder in folders.iter().filter(|folder| folder.join("freezer.state").exists()) {
        fs::write(folder.join("freezer.state"), "FROZEN").expect("frozen");
    }
    runtime.remove(&sandbox).await;
    assert_eq!(["86031", "86032"].map(processes), [0; 2]);
    assert!(folders.iter().all(|folder| !folder.exists()));
    runtime.end().await;
}

#[tokio::test]
async fn containers_have_few_processes_by_default() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let script = "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max; \
                  cat /proc/self/oom_score_adj; echo end";
    runtime.container(&sandbox, shell("limits", script)).await;
    let log = wait_for(&runtime.logs().join("limits.log"), " end\n").await;
    assert!(log.contains(" stdout F 1000\n") && log.contains(" stdout F 0\n"), "{log}");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// Another container of the pod opens the pipe and writes to it without end: the exit does not take longer, and the log
/// does not grow.
#[tokio::test]
async fn a_container_ends_although_another_writes_to_its_output() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sharing_sandbox("pod").await;
    let first = in_pod_namespace(shell("first", "exec sleep 86041"));
    let first = runtime.container(&sandbox, first).await;
    let script = "for p in /proc/[0-9]*; do [ \"$(cat $p/comm)\" = sleep ] && \
                  (busybox yes > $p/fd/1) & done; echo ready; sleep 1000";
    let writer = runtime.container(&sandbox, in_pod_namespace(shell("writer", script))).await;
    wait_for(&runtime.logs().join("writer.log"), "ready").await;
    let log = runtime.logs().join("first.log");
    wait_for(&log, " y\n").await;
    tokio::time::timeout(Duration::from_secs(30), stop(&mut runtime, &first))
        .await
        .expect("it ends");
    let (_, said) = runtime.exec(&writer, "echo fine").await.expect("the shim answers");
    assert_eq!(said, "fine\n");
    let size = || fs::metadata(&log).expect("a log").len();
    let before = size();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(size(), before, "somebody still writes");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}
