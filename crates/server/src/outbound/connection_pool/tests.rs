//! Tests with a target that closes connections at chosen requests.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::*;

/// What a target does after a request, by the number of the connection and of the request on it.
type Manner = fn(connection: usize, request: usize) -> After;

#[derive(Clone, Copy, PartialEq)]
enum After {
    Answer,
    AnswerAndClose,
    SayThatAndClose,
    Close,
}

struct Target {
    to: TcpConnector,
    opened: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Target {
    async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (opened, closed) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (count, ended) = (opened.clone(), closed.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (nth, ended) = (count.fetch_add(1, SeqCst), ended.clone());
                open.spawn(async move {
                    serve(stream, nth, manner).await;
                    ended.fetch_add(1, SeqCst);
                });
            }
        });
        Self { to: TcpConnector::new("127.0.0.1", port, None), opened, closed, _task: task }
    }

    fn opened(&self) -> usize {
        self.opened.load(SeqCst)
    }

    async fn ask(&self, lines: &ConnectionPool) -> Result<Response<Bytes>, String> {
        let request = Request::post("/").header("host", "t").body(Full::from("body"));
        lines.ask(&self.to, request.unwrap()).await
    }
}

async fn serve(mut stream: TcpStream, connection: usize, manner: Manner) {
    for nth in 0.. {
        let mut seen = Vec::new();
        while !seen.ends_with(b"body") {
            let mut some = [0; 1024];
            match stream.read(&mut some).await {
                Ok(0) | Err(_) => return,
                Ok(n) => seen.extend_from_slice(&some[..n]),
            }
        }
        let after = manner(connection, nth);
        let more = if after == After::SayThatAndClose { "connection: close\r\n" } else { "" };
        let answer = format!("HTTP/1.1 200 OK\r\n{more}content-length: 2\r\n\r\nok");
        if after != After::Close {
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        if after != After::Answer {
            return;
        }
    }
}

/// Waits until a condition holds.
async fn until(so: impl Fn() -> bool) {
    while !so() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let target = Target::start(|_, _| After::Answer).await;
    let lines = ConnectionPool::default();
    for _ in 0..20 {
        assert_eq!(target.ask(&lines).await.unwrap().body(), "ok");
    }
    assert_eq!(target.opened(), 1);
}

#[tokio::test]
async fn a_target_may_close_after_each_answer() {
    for manner in [|_, _| After::AnswerAndClose, |_, _| After::SayThatAndClose] as [Manner; 2] {
        let target = Target::start(manner).await;
        let lines = ConnectionPool::default();
        for nth in 1..=20 {
            assert_eq!(target.ask(&lines).await.unwrap().body(), "ok");
            assert_eq!(target.opened(), nth);
            until(|| target.closed.load(SeqCst) == nth).await;
        }
    }
}

#[tokio::test]
async fn what_may_have_arrived_is_not_sent_again() {
    // The first connection accepts one request, and closes at the second.
    let target = Target::start(|connection, nth| match (connection, nth) {
        (0, 1) => After::Close,
        _ => After::Answer,
    })
    .await;
    let lines = ConnectionPool::default();
    assert!(target.ask(&lines).await.is_ok());
    assert!(target.ask(&lines).await.is_err());
    assert_eq!(target.opened(), 1, "it came once");
    assert!(target.ask(&lines).await.is_ok());
}

#[tokio::test]
async fn what_only_reads_is_sent_once_more() {
    let target = Target::start(|connection, nth| match (connection, nth) {
        (0 | 1, 0) => After::Answer,
        _ => After::Close,
    })
    .await;
    let lines = ConnectionPool::default();
    let get = async || {
        let request = Request::get("/").header("host", "t").body(Full::from("body"));
        lines.ask(&target.to, request.unwrap()).await
    };
    assert!(get().await.is_ok());
    assert!(get().await.is_ok());
    assert_eq!(target.opened(), 2);
    assert_eq!(get().await.unwrap_err(), "EOF");
    assert_eq!(target.opened(), 3);
}

#[tokio::test]
async fn only_some_are_kept() {
    let target = Target::start(|_, _| After::Answer).await;
    let lines = ConnectionPool::default();
    let all = futures_util::future::join_all((0..40).map(|_| target.ask(&lines))).await;
    assert!(all.iter().all(Result::is_ok));
    assert!(lines.kept().idle.len() <= MOST, "{}", lines.kept().idle.len());
    drop(lines);
    until(|| target.closed.load(SeqCst) == target.opened()).await;
}

#[tokio::test]
async fn those_that_wait_too_long_are_closed() {
    let target = Target::start(|_, _| After::Answer).await;
    let lines = ConnectionPool::default();
    target.ask(&lines).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(IDLE_TIMEOUT / 2).await;
    target.ask(&lines).await.unwrap();
    tokio::time::advance(IDLE_TIMEOUT / 2 + Duration::from_secs(1)).await;
    assert_eq!((target.opened(), target.closed.load(SeqCst)), (1, 0));
    tokio::time::advance(IDLE_TIMEOUT / 2).await;
    until(|| target.closed.load(SeqCst) == 1).await;
    assert!(!lines.kept().swept);
}

#[tokio::test]
async fn an_old_one_is_not_kept() {
    let target = Target::start(|_, _| After::Answer).await;
    let lines = ConnectionPool::default();
    target.ask(&lines).await.unwrap();
    lines.kept().idle[0].line.opened = Instant::now().checked_sub(MAX_CONNECTION_AGE).unwrap();
    target.ask(&lines).await.unwrap();
    assert_eq!((target.opened(), lines.kept().idle.len()), (1, 0));
}

#[tokio::test]
async fn another_way_is_another_connection() {
    let target = Target::start(|_, _| After::Answer).await;
    let lines = ConnectionPool::default();
    target.ask(&lines).await.unwrap();
    let tls =
        |name: &str| client::TlsOptions { server_name: Some(name.into()), ..Default::default() };
    let other = |tls| TcpConnector::new("127.0.0.1", target.to.port, Some(Arc::new(tls)));
    assert!(lines.take(&other(tls("a"))).is_none());
    assert_eq!(other(tls("a")), other(tls("a")));
    assert_ne!(other(tls("a")), other(tls("b")));
    assert_ne!(target.to, TcpConnector::new("127.0.0.2", target.to.port, None));
    assert!(lines.take(&target.to).is_some());
}
