//! Error messages are limited in length where they leave the runtime: one of 120 KB closed the connection that all pods
//! share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use container::{
    CriClient,
    cri::{ExecSyncRequest, ImageFsInfoRequest, VersionRequest},
};
use http_body_util::Empty;
use hyper::{Request, Response, body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::UnixListener, task::JoinSet};

use crate::support::{Runtime, shell};

/// Another runtime may send long messages: only the call that failed is affected.
#[tokio::test]
async fn a_long_error_of_another_runtime_harms_no_other_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("other.sock");
    let listener = UnixListener::bind(&socket).expect("bound");
    let mut served = JoinSet::new();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    served.spawn(async move {
        let mut each = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let answer = service_fn(|request: Request<Incoming>| async move {
                // One call is answered late and successfully, the others at once with a long error.
                if request.uri().path().ends_with("ImageFsInfo") {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    let answer = Response::builder().header("grpc-status", "5");
                    return answer.body(Empty::<bytes::Bytes>::new());
                }
                let answer = Response::builder().header("grpc-status", "2");
                answer.header("grpc-message", "x".repeat(300_000)).body(Empty::new())
            });
            let http2 = http2::Builder::new(TokioExecutor::new());
            each.spawn(http2.serve_connection(TokioIo::new(stream), answer));
        }
    });
    let cri = CriClient::connect(&socket).await.expect("connected");
    let (mut bad, mut good) = (cri.clone(), cri.clone());
    let long = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        bad.runtime.version(VersionRequest::default()).await.expect_err("an error")
    };
    let (long, late) = tokio::join!(long, good.images.image_fs_info(ImageFsInfoRequest {}));
    assert_eq!((long.code(), long.message().len()), (tonic::Code::Unknown, 300_000));
    assert!(container::bounded(long).message().len() < 6000);
    assert_eq!(late.expect_err("as it was answered").code(), tonic::Code::NotFound);
    assert_eq!(connections.load(Ordering::Relaxed), 1, "no connection was lost");
}

#[tokio::test]
async fn a_long_error_harms_no_other_call() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let neighbour = runtime.sandbox("neighbour").await;
    let id = runtime.container(&sandbox, shell("a", "sleep 1000")).await;
    let other = runtime.container(&neighbour, shell("b", "sleep 1000")).await;
    let mut client = runtime.cri.runtime.clone();
    let probe = async {
        let cmd = ["sh", "-c", "sleep 3; echo fine"].map(str::to_owned).into();
        client.exec_sync(ExecSyncRequest { container_id: other, cmd, timeout: 10 }).await
    };
    let mut attacker = runtime.cri.runtime.clone();
    let attack = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut longest = 0;
        for command in ["x".repeat(120_000), "ü".repeat(60_000), "\0\x1b[31m".repeat(1000)] {
            let cmd = vec![command];
            let request = ExecSyncRequest { container_id: id.clone(), cmd, timeout: 10 };
            let error = attacker.exec_sync(request).await.expect_err("no such program");
            assert!(error.message().contains("exec"), "{error}");
            assert!(!error.message().contains('\x1b'));
            longest = longest.max(error.message().len());
        }
        longest
    };
    let (probed, longest) = tokio::join!(probe, attack);
    let answer = probed.expect("the neighbour is not concerned").into_inner();
    assert_eq!(answer.stdout, b"fine\n");
    assert!(longest < 6000, "{longest}");
    runtime.cri.runtime.version(VersionRequest::default()).await.expect("still connected");
    runtime.remove(&sandbox).await;
    runtime.remove(&neighbour).await;
    runtime.end().await;
}
