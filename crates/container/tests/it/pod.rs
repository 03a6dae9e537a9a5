//! The life of a pod.

use container::cri::{
    ContainerState, ContainerStatusRequest, ExecSyncRequest, ExecSyncResponse, PodSandboxState,
    PodSandboxStatusRequest, RemoveContainerRequest, StopContainerRequest,
};

use crate::support::{Runtime, shell, shim_of, wait_for};

async fn exec(runtime: &mut Runtime, id: &str, script: &str) -> ExecSyncResponse {
    let request = ExecSyncRequest {
        container_id: id.into(),
        cmd: ["sh", "-c", script].map(str::to_owned).into(),
        timeout: 10,
    };
    runtime.cri.runtime.exec_sync(request).await.expect("exec").into_inner()
}

async fn status(runtime: &mut Runtime, id: &str) -> container::cri::ContainerStatus {
    let request = ContainerStatusRequest { container_id: id.into(), verbose: false };
    let answer = runtime.cri.runtime.container_status(request).await.expect("status");
    answer.into_inner().status.expect("a status")
}

#[tokio::test]
async fn runs_logs_execs_and_leaves_nothing() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let id = runtime
        .container(&sandbox, shell("a", "echo out; echo err >&2; hostname; sleep 1000"))
        .await;
    let log = wait_for(&runtime.logs().join("a.log"), "harbour").await;
    assert!(log.contains(" stdout F out\n") && log.contains(" stderr F err\n"), "{log}");

    let answer = exec(&mut runtime, &id, "echo hi; echo no >&2; exit 3").await;
    assert_eq!((answer.stdout.as_slice(), answer.stderr.as_slice()), (&b"hi\n"[..], &b"no\n"[..]));
    assert_eq!(answer.exit_code, 3);

    let stop = StopContainerRequest { container_id: id.clone(), timeout: 1 };
    runtime.cri.runtime.stop_container(stop).await.expect("stop");
    let ended = status(&mut runtime, &id).await;
    assert_eq!(ended.state(), ContainerState::ContainerExited);
    assert_eq!(ended.exit_code, 137); // a shell as pid 1 ignores SIGTERM
    let remove = RemoveContainerRequest { container_id: id };
    runtime.cri.runtime.remove_container(remove).await.expect("remove");
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn containers_outlive_the_server() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let lasting = runtime.container(&sandbox, shell("lasting", "sleep 1000")).await;
    let brief = runtime.container(&sandbox, shell("brief", "sleep 0.3; echo late; exit 7")).await;
    let mut runtime = runtime.restart().await;
    wait_for(&runtime.logs().join("brief.log"), "late").await;
    assert_eq!(exec(&mut runtime, &lasting, "exit 4").await.exit_code, 4);
    let mut ended = status(&mut runtime, &brief).await;
    for _ in 0..3000 {
        if ended.state() == ContainerState::ContainerExited {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        ended = status(&mut runtime, &brief).await;
    }
    assert_eq!(ended.exit_code, 7);
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn a_pod_whose_shim_is_killed_is_dead() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let id = runtime.container(&sandbox, shell("a", "sleep 1000")).await;
    sys::process::kill(shim_of(&sandbox), 9).expect("killed");
    let mut ended = status(&mut runtime, &id).await;
    for _ in 0..3000 {
        if ended.state() == ContainerState::ContainerExited {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        ended = status(&mut runtime, &id).await;
    }
    assert_eq!((ended.state(), ended.exit_code), (ContainerState::ContainerExited, 255));
    let request = PodSandboxStatusRequest { pod_sandbox_id: sandbox.clone(), verbose: false };
    let answer = runtime.cri.runtime.pod_sandbox_status(request).await.expect("status");
    let state = answer.into_inner().status.expect("a status").state();
    assert_eq!(state, PodSandboxState::SandboxNotready);
    runtime.remove(&sandbox).await;
    runtime.end().await; // fails if processes remain
}
