//! Containers that write without end: their logs are rate-limited, and no output is lost.

use std::{
    fs,
    time::{Duration, Instant},
};

use container::cri::{ContainerState, ContainerStatusRequest};

use crate::support::{Runtime, shell, wait_for};

#[tokio::test]
async fn a_flood_of_output_is_slowed_down() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let began = Instant::now();
    let id = runtime.container(&sandbox, shell("flood", "busybox yes flood")).await;
    let log = runtime.logs().join("flood.log");
    let size = || fs::metadata(&log).map_or(0, |data| data.len());
    while size() < 20 << 20 {
        assert!(began.elapsed() < Duration::from_mins(2), "a burst is not held back: {}", size());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (size, took) = (size(), began.elapsed());
    // a burst of 16 MiB, then 4 MiB per second
    let most = (17 << 20) + u64::try_from(took.as_millis()).expect("small") * (4 << 20) / 1000;
    assert!(size <= most, "{size} bytes in {took:?}");
    // other containers of the pod and of the node are not affected
    runtime.container(&sandbox, shell("calm", "echo heard; sleep 1000")).await;
    wait_for(&runtime.logs().join("calm.log"), "heard").await;
    assert_eq!(runtime.exec(&id, "echo 1").await.expect("exec"), (0, "1\n".to_owned()));
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn nothing_of_a_slowed_log_is_lost() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    // 20 MiB in lines of 1 KiB: more than the burst
    let script = "busybox yes $(busybox printf %01023d 7) | head -c 20971520; exit 3";
    let id = runtime.container(&sandbox, shell("long", script)).await;
    let began = Instant::now();
    loop {
        let request = ContainerStatusRequest { container_id: id.clone(), verbose: false };
        let status = runtime.cri.runtime.container_status(request).await.expect("a status");
        let status = status.into_inner().status.expect("a status");
        if status.state() == ContainerState::ContainerExited {
            assert_eq!(status.exit_code, 3);
            break;
        }
        let size = fs::metadata(runtime.logs().join("long.log")).map_or(0, |data| data.len());
        let late = began.elapsed() > Duration::from_mins(2);
        assert!(!late, "it does not end: {size} bytes, {status:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let text = fs::read_to_string(runtime.logs().join("long.log")).expect("a log");
    assert_eq!(text.lines().filter(|line| line.ends_with('7')).count(), 20 << 10);
    runtime.remove(&sandbox).await;
    runtime.end().await;
}
