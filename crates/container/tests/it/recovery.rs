//! A restarted server recovers its pods, even if its records are damaged.

use std::{fs, path::Path, time::Duration};

use container::cri::{
    ContainerState, ContainerStatus, ContainerStatusRequest, CreateContainerRequest,
    ListContainersRequest, ListPodSandboxRequest, PodSandboxState, PodSandboxStatusRequest,
};

use crate::support::{Runtime, shell};

async fn status(runtime: &mut Runtime, id: &str) -> ContainerStatus {
    let request = ContainerStatusRequest { container_id: id.into(), verbose: false };
    let answer = runtime.cri.runtime.container_status(request).await.expect("status");
    answer.into_inner().status.expect("a status")
}

async fn ready(runtime: &mut Runtime, sandbox: &str) -> bool {
    let request = PodSandboxStatusRequest { pod_sandbox_id: sandbox.into(), verbose: false };
    let answer = runtime.cri.runtime.pod_sandbox_status(request).await.expect("status");
    answer.into_inner().status.expect("a status").state() == PodSandboxState::SandboxReady
}

/// Replaces a file by something damaged.
fn damage(path: &Path, how: &str) {
    let _ = fs::remove_file(path);
    let done = match how {
        "empty" => fs::write(path, ""),
        "torn" => fs::write(path, [0x0a, 0x40, b'x']),
        "garbage" => fs::write(path, [0xff; 5000]),
        "huge" => fs::File::create(path).and_then(|file| file.set_len(1 << 40)),
        "folder" => fs::create_dir_all(path.join("below")),
        "fifo" => {
            let made = std::process::Command::new("mkfifo").arg(path).status();
            made.map(|status| assert!(status.success()))
        }
        other => panic!("{other}"),
    };
    done.expect("damaged");
}

#[tokio::test]
async fn a_damaged_record_ends_neither_the_server_nor_the_pod() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let id = runtime.container(&sandbox, shell("a", "sleep 1000")).await;
    let before = status(&mut runtime, &id).await;
    for how in ["empty", "torn", "garbage", "huge", "folder", "fifo"] {
        let root = runtime.root();
        damage(&root.join("sandboxes").join(&sandbox).join("record"), how);
        damage(&root.join("containers").join(&id).join("record"), how);
        damage(&root.join("../images/holds").join(&id), how);
        damage(&root.join("containers/stranger"), how);
        // twice: a file that the first start moved aside does not mislead the second
        for _ in 0..2 {
            runtime = runtime.restart().await;
            assert!(ready(&mut runtime, &sandbox).await, "{how}");
            let now = status(&mut runtime, &id).await;
            assert_eq!(now.state(), ContainerState::ContainerRunning, "{how}");
            assert_eq!((now.started_at, &now.metadata), (before.started_at, &before.metadata));
        }
        let _ = fs::remove_dir_all(root.join("containers/stranger"));
        let _ = fs::remove_file(root.join("containers/stranger"));
    }
    let listed = runtime.cri.runtime.list_containers(ListContainersRequest::default()).await;
    assert_eq!(listed.expect("list").into_inner().containers.len(), 1);
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn a_pod_of_which_nothing_is_known_is_left_alone() {
    let mut runtime = Runtime::start().await;
    let lost = runtime.sandbox("lost").await;
    let kept = runtime.sandbox("kept").await;
    let folder = runtime.root().join("sandboxes").join(&lost);
    let (record, pending) = (folder.join("record"), folder.join("pending"));
    let whole = [&record, &pending].map(|path| fs::read(path).expect("a record"));
    for path in [&record, &pending] {
        damage(path, "garbage");
    }
    for _ in 0..2 {
        runtime = runtime.restart().await;
        let request = ListPodSandboxRequest::default();
        let listed = runtime.cri.runtime.list_pod_sandbox(request).await.expect("list");
        let ids: Vec<_> = listed.into_inner().items.into_iter().map(|one| one.id).collect();
        assert_eq!(ids, std::slice::from_ref(&kept));
        assert!(folder.join("shim.sock").exists(), "it lives");
    }
    // once its record is restored manually, it is as before
    for (path, bytes) in [&record, &pending].into_iter().zip(whole) {
        fs::write(path, bytes).expect("written");
    }
    runtime = runtime.restart().await;
    assert!(ready(&mut runtime, &lost).await);
    runtime.remove(&lost).await;
    runtime.remove(&kept).await;
    runtime.end().await;
}

#[tokio::test]
async fn a_start_that_was_not_recorded_is_learnt_from_the_shim() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let mut created = Vec::new();
    for (name, script) in [("lasting", "sleep 1000"), ("brief", "exit 7"), ("idle", "exit 0")] {
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.clone(),
            config: Some(shell(name, script)),
            sandbox_config: None,
        };
        let answer = Box::pin(runtime.cri.runtime.create_container(request)).await;
        let id = answer.expect("create").into_inner().container_id;
        let record = runtime.root().join("containers").join(&id).join("record");
        created.push((id, fs::read(&record).expect("a record"), record));
    }
    for (id, ..) in &created[..2] {
        runtime.start_container(id).await;
        let lasts = *id == created[0].0;
        while !lasts && status(&mut runtime, id).await.state() != ContainerState::ContainerExited {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let started_at = status(&mut runtime, &created[0].0).await.started_at;
    // the state after a crash between the start and its record
    let forget = || {
        for (_, before, record) in &created[..2] {
            fs::write(record, before).expect("written");
        }
    };
    runtime = runtime.restart_after(forget).await;
    let lasting = status(&mut runtime, &created[0].0).await;
    assert_eq!(lasting.state(), ContainerState::ContainerRunning);
    assert_eq!(lasting.started_at, started_at);
    let brief = status(&mut runtime, &created[1].0).await;
    assert_eq!((brief.state(), brief.exit_code), (ContainerState::ContainerExited, 7));
    let idle = status(&mut runtime, &created[2].0).await;
    assert_eq!(idle.state(), ContainerState::ContainerCreated);
    runtime.start_container(&created[2].0).await;
    runtime.remove(&sandbox).await;
    runtime.end().await;
}
