//! Exec and attach over SPDY.

use httpstream::spdy::{Connection, Headers, Stream};
use serde_json::Value;
use tokio::io::AsyncWriteExt;

use super::*;

struct Client {
    connection: Connection,
    _tasks: JoinSet<()>,
}

impl Client {
    async fn connect(url: &str, protocol: &str) -> Self {
        let (answer, io, tasks) =
            upgrade(url, &[("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", protocol)]).await;
        assert_eq!(answer.headers()["x-stream-protocol-version"], protocol);
        Self { connection: Connection::client(io.expect("granted")), _tasks: tasks }
    }

    async fn open(&self, kind: &str) -> Stream {
        let headers: Headers = [("streamType", kind)].into_iter().collect();
        self.connection.opener().open(headers).await.expect("agreed")
    }
}

#[tokio::test]
async fn twenty_megabytes_arrive_intact() {
    let server = server().await;
    let url = server.url_for_exec(ExecRequest { stderr: true, ..exec("cat") }).expect("an address");
    let client = Client::connect(&url, "v4.channel.k8s.io").await;
    let error = client.open("error").await;
    let (mut stdin, stdout, stderr) =
        (client.open("stdin").await, client.open("stdout").await, client.open("stderr").await);
    let sent = pattern(20 << 20);
    let writing = async {
        stdin.write_all(&sent).await.expect("open");
        stdin.shutdown().await.expect("open");
    };
    let ((), received, errors, end) =
        soon(async { tokio::join!(writing, read_all(stdout), read_all(stderr), read_all(error)) })
            .await;
    assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
    assert_eq!(errors, b"done");
    let status: Value = serde_json::from_slice(&end).expect("a Status");
    assert_eq!(status["status"], "Success");
    soon(client.connection.close()).await;
}

#[tokio::test]
async fn ends_are_told_in_each_version() {
    let server = server().await;
    for (protocol, cmd, expected) in [
        ("v4.channel.k8s.io", "exit 7", r#""message":"7","reason":"ExitCode""#),
        (
            "v4.channel.k8s.io",
            "nonsense",
            "Internal error occurred: error executing command in container: no such command",
        ),
        ("v3.channel.k8s.io", "exit 7", "command terminated with non-zero exit code: 7"),
        ("v2.channel.k8s.io", "exit 0", ""),
        ("channel.k8s.io", "nonsense", "no such command"),
    ] {
        let request = ExecRequest { stdin: false, ..exec(cmd) };
        let client =
            Client::connect(&server.url_for_exec(request).expect("an address"), protocol).await;
        let (error, stdout) = (client.open("error").await, client.open("stdout").await);
        let (end, output) = soon(async { tokio::join!(read_all(error), read_all(stdout)) }).await;
        let end = String::from_utf8(end).expect("text");
        assert!(
            end.contains(expected) && (expected.is_empty() == end.is_empty()),
            "{protocol} {cmd}: {end}"
        );
        assert_eq!(output, b"");
    }
}

#[tokio::test]
async fn a_terminal_is_resized_and_attach_attaches() {
    let server = server().await;
    let request = ExecRequest { tty: true, ..exec("sizes 2") };
    let client =
        Client::connect(&server.url_for_exec(request).expect("an address"), "v4.channel.k8s.io")
            .await;
    let (_error, _stdin, stdout) =
        (client.open("error").await, client.open("stdin").await, client.open("stdout").await);
    let mut resize = client.open("resize").await;
    resize
        .write_all(b"{\"Width\":80,\"Height\":24}\n{\"Width\":100,\"Height\":30}\n")
        .await
        .expect("open");
    assert_eq!(soon(read_all(stdout)).await, b"80x24;100x30;");

    let request =
        AttachRequest { container_id: "c7".to_owned(), stdout: true, ..AttachRequest::default() };
    let client =
        Client::connect(&server.url_for_attach(request).expect("an address"), "v4.channel.k8s.io")
            .await;
    let (_error, stdout) = (client.open("error").await, client.open("stdout").await);
    assert_eq!(soon(read_all(stdout)).await, b"attached to c7");
}

#[tokio::test]
async fn streams_that_were_not_agreed_end_the_session() {
    let server = server().await;
    let url = server.url_for_exec(exec("cat")).expect("an address");
    let mut client = Client::connect(&url, "v4.channel.k8s.io").await;
    let _error = client.open("error").await;
    let _stderr = client.open("stderr").await;
    assert!(soon(client.connection.accept()).await.is_none(), "the server hangs up");
}
