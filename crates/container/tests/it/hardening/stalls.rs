//! What blocks in one container does not block its pod or the node.

use std::{fs, time::Duration};

use container::cri::{ExecSyncRequest, ImageSpec, Int64Value};
use tokio::time::timeout;

use super::security;
use crate::support::{Runtime, entry, shell, shim_of, wait_for};

/// Less than the start timeout of one minute.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_fifo_in_place_of_the_users_file_is_no_file() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let image = "example.test/fifo:1";
    runtime
        .import(image, "{}", |layer| {
            entry(layer, "etc/passwd", tar::EntryType::Fifo, "");
            entry(layer, "etc/group", tar::EntryType::Symlink, "/proc/self/fd/0");
        })
        .await;
    let mut config = shell("a", "sleep 1000");
    config.image = Some(ImageSpec { image: image.into(), ..ImageSpec::default() });
    security(&mut config).run_as_user = Some(Int64Value { value: 7 });
    let id = timeout(SOON, runtime.container(&sandbox, config)).await.expect("no stall");
    let done = timeout(SOON, runtime.exec(&id, "grep Uid: /proc/self/status")).await;
    let (_, said) = done.expect("no stall").expect("exec");
    assert_eq!(said.split_whitespace().nth(1), Some("7"), "{said}");
    // Also if the container creates it later.
    let later = runtime.container(
        &sandbox,
        shell("b", "rm /etc/passwd; mkfifo /etc/passwd; echo done; sleep 1000"),
    );
    let later = later.await;
    wait_for(&runtime.logs().join("b.log"), "done").await;
    let (code, _) =
        timeout(SOON, runtime.exec(&later, "true")).await.expect("no stall").expect("exec");
    assert_eq!(code, 0);
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// The set-up of a process hangs, here because its cgroup is frozen: the pod's other containers go on.
#[tokio::test]
async fn a_start_that_hangs_does_not_stop_the_pod() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let frozen = runtime.container(&sandbox, shell("a", "sleep 1000")).await;
    let busy = runtime.container(&sandbox, shell("b", "while sleep 0.1; do echo tick; done")).await;
    let v1 = runtime.cgroup_file("freezer", &frozen, "freezer.state");
    let freeze = |on: bool| match v1.exists() {
        true => fs::write(&v1, if on { "FROZEN" } else { "THAWED" }),
        false => fs::write(v1.with_file_name("cgroup.freeze"), if on { "1" } else { "0" }),
    };
    freeze(true).expect("frozen");
    let mut stuck = runtime.cri.runtime.clone();
    let request = ExecSyncRequest { container_id: frozen, cmd: vec!["true".into()], timeout: 5 };
    let hanging = async { stuck.exec_sync(request).await };
    let others = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let log = runtime.logs().join("b.log");
        let before = fs::metadata(&log).expect("a log").len();
        let other = timeout(Duration::from_secs(3), runtime.exec(&busy, "echo fine")).await;
        let grows = async {
            while fs::metadata(&log).expect("a log").len() == before {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        (other, timeout(Duration::from_secs(3), grows).await.is_ok())
    };
    let (hung, (other, ticked)) = tokio::join!(hanging, others);
    freeze(false).expect("thawed");
    assert_eq!(other.expect("no stall").expect("exec").1, "fine\n");
    assert!(ticked, "no output meanwhile");
    assert_eq!(hung.expect_err("a deadline").code(), tonic::Code::DeadlineExceeded);
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// A shim that does not respond blocks no thread that others need.
#[test]
fn a_stalled_shim_takes_no_threads_away() {
    let pool = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(2)
        .enable_all()
        .build()
        .expect("a pool");
    pool.block_on(async {
        let mut runtime = Runtime::start().await;
        let stalled = runtime.sandbox("stalled").await;
        let neighbour = runtime.sandbox("neighbour").await;
        let hung = runtime.container(&stalled, shell("a", "sleep 1000")).await;
        let fine = runtime.container(&neighbour, shell("b", "sleep 1000")).await;
        let shim = shim_of(&stalled);
        sys::process::kill(shim, 19).expect("stopped");
        let mut hanging = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let mut client = runtime.cri.runtime.clone();
            let cmd = vec!["true".to_owned()];
            let request = ExecSyncRequest { container_id: hung.clone(), cmd, timeout: 60 };
            hanging.spawn(async move { client.exec_sync(request).await.is_ok() });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let pooled = timeout(SOON, tokio::task::spawn_blocking(|| ())).await;
        let other = timeout(SOON, runtime.exec(&fine, "echo fine")).await;
        sys::process::kill(shim, 18).expect("continued");
        pooled.expect("the pool has threads").expect("no panic");
        assert_eq!(other.expect("no stall").expect("exec").1, "fine\n");
        while let Some(done) = hanging.join_next().await {
            assert!(done.expect("no panic"), "what was asked meanwhile is done");
        }
        runtime.remove(&stalled).await;
        runtime.remove(&neighbour).await;
        runtime.end().await;
    });
}

/// The container replaces /etc/passwd by something that takes long to read, or never ends.
#[tokio::test]
async fn no_users_file_takes_long_to_read() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let mut config = shell("a", "sleep 1000");
    security(&mut config).run_as_user = Some(Int64Value { value: 0 });
    let id = runtime.container(&sandbox, config).await;
    for made in [
        "busybox truncate -s 8T /etc/passwd",
        "mknod /etc/passwd c 1 5",
        "mkdir /etc/passwd",
        "ln -s /dev/zero /etc/passwd",
        "ln -s /proc/self/fd/0 /etc/passwd",
        "ln -s passwd /etc/passwd",
        "ln -s ../../../../../../../../etc/passwd /etc/passwd",
    ] {
        // Both files in turn; the second for the supplemental groups.
        let script =
            format!("cd /; rm -rf /etc/passwd; {made}; rm -rf /etc/group; ln -s passwd /etc/group");
        timeout(SOON, runtime.exec(&id, &script)).await.expect("no stall").expect(made);
    }
    let done = timeout(SOON, runtime.exec(&id, "id -u")).await.expect("no stall").expect("exec");
    assert_eq!(done, (0, "0\n".to_owned()));
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// On a busy node the server is interrupted between its connect and its request: no exec may fail for that.
#[tokio::test]
async fn a_server_that_is_slow_is_waited_for() {
    use std::io::{Read, Write};
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let folder = runtime.root().join("sandboxes").join(&sandbox);
    let folder = std::fs::File::open(folder).expect("a folder"); // its path is too long for a socket
    let socket = format!("/proc/self/fd/{}/shim.sock", std::os::fd::AsRawFd::as_raw_fd(&folder));
    let mut shim = std::os::unix::net::UnixStream::connect(socket).expect("it listens");
    tokio::time::sleep(Duration::from_secs(4)).await;
    let request = b"\"State\"";
    let length = u32::try_from(request.len()).expect("short").to_le_bytes();
    shim.write_all(&[&length[..], request].concat()).expect("it still listens");
    let mut head = [0; 4];
    shim.read_exact(&mut head).expect("an answer");
    let mut body = vec![0; u32::from_le_bytes(head) as usize];
    shim.read_exact(&mut body).expect("an answer");
    let body = String::from_utf8_lossy(&body).into_owned();
    assert!(body.contains("\"sandbox\":"), "{body}");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

/// Commands that never end, print nothing, print without end, or leave a child behind that keeps their output open.
#[tokio::test]
async fn no_command_is_waited_for_longer_than_its_time() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let id = runtime.container(&sandbox, shell("a", "sleep 1000")).await;
    for script in [
        "sleep 1000",
        "exec 1>&- 2>&-; sleep 1000",
        "busybox yes",
        "trap '' TERM HUP INT; while :; do sleep 1; done",
        "kill -STOP $$",
    ] {
        let cmd = ["sh", "-c", script].map(str::to_owned).into();
        let request = ExecSyncRequest { container_id: id.clone(), cmd, timeout: 2 };
        let answer = timeout(SOON, runtime.cri.runtime.exec_sync(request)).await;
        let error = answer.expect("no stall").expect_err(script);
        assert_eq!(error.code(), tonic::Code::DeadlineExceeded, "{script}: {error}");
    }
    for script in ["sleep 1000 & echo said", "busybox yes >&2 & echo said"] {
        let done = timeout(SOON, runtime.exec(&id, script)).await.expect("no stall");
        let (code, said) = done.expect("exec");
        assert!(code == 0 && said.starts_with("said\n"), "{script}");
    }
    // A container that is removed while a command runs in it.
    let mut client = runtime.cri.runtime.clone();
    let cmd = ["sleep", "1000"].map(str::to_owned).into();
    let request = ExecSyncRequest { container_id: id.clone(), cmd, timeout: 60 };
    let running = async { client.exec_sync(request).await };
    let gone = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        runtime.remove(&sandbox).await;
    };
    let (answer, ()) =
        timeout(SOON, async { tokio::join!(running, gone) }).await.expect("no stall");
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.into_inner().exit_code != 0));
    runtime.end().await;
}
