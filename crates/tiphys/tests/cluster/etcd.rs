//! `tiphys etcd`: each flag has an effect, and unsupported values are errors.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use object::{Clock as _, SystemClock};
use pki::{CertKeyPair, CertificateAuthority, CertificateSpec};
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    programs::program,
    world::{output, run, said},
};

/// Timeout of a wait; reached only by a failing test.
const PATIENCE: Duration = Duration::from_mins(2);

/// An etcd server that is stopped with the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts a server on a free port.
    fn start(folder: &Path, flags: &[&str]) -> Self {
        let address = free();
        Self::start_at(folder, &address, &format!("http://{address}"), flags)
    }

    /// Starts a server on these URLs, one of which is http and has that address.
    fn start_at(folder: &Path, address: &str, urls: &str, flags: &[&str]) -> Self {
        let own = ["--data-dir", text(folder), "--listen-client-urls", urls];
        let log = fs::File::create(folder.with_extension("log")).expect("a file");
        let child = etcd(&[&own, flags].concat()).stderr(log).spawn();
        let child = child.expect("the executable starts");
        let this = Self { child, address: address.to_owned() };
        until("it listens", || TcpStream::connect(&this.address).is_ok());
        this
    }

    fn ask(&self, path: &str, body: &Value) -> (u16, String) {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        ask(stream, path, body).expect("an answer")
    }

    /// Sends a request and returns the response, which must be a success.
    fn well(&self, path: &str, body: &Value) -> Value {
        let (code, answer) = self.ask(path, body);
        assert_eq!(code, 200, "{path}: {answer}");
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{path}: {error}: {answer}"))
    }

    fn put(&self, value: &str) -> (u16, String) {
        self.ask("/v3/kv/put", &json!({ "key": "YQ==", "value": value }))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends one HTTP request over a stream, and returns status and body of the response.
fn ask(mut stream: impl Read + Write, path: &str, body: &Value) -> std::io::Result<(u16, String)> {
    let (method, body) = match body {
        Value::Null => ("GET", String::new()),
        body => ("POST", body.to_string()),
    };
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: etcd\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) => {
            let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
            Ok((code.expect("a code"), body.to_owned()))
        }
        None => Err(read.err().unwrap_or_else(|| std::io::ErrorKind::UnexpectedEof.into())),
    }
}

fn etcd(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiphys"));
    command.arg("etcd").args(flags).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").to_string()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        sleep(Duration::from_millis(50));
    }
}

/// Writes a certificate and its key to files; returns their paths.
fn files(folder: &Path, name: &str, pair: &CertKeyPair) -> [String; 2] {
    let [certificate, key] = ["crt", "key"].map(|end| folder.join(format!("{name}.{end}")));
    fs::write(&certificate, pair.certificate_pem()).expect("room");
    fs::write(&key, pair.key_pem()).expect("room");
    [certificate, key].map(|path| text(&path).to_owned())
}

#[test]
fn who_shows_no_certificate_is_refused() {
    let (folder, now) = (TempDir::new().expect("a folder"), SystemClock.now());
    let authority = CertificateAuthority::create("one", now).expect("a key");
    let stranger = CertificateAuthority::create("another", now).expect("a key");
    let names =
        CertificateSpec::server("etcd", vec!["localhost".to_owned()], vec![[127, 0, 0, 1].into()]);
    let own = authority.issue(&names, now).expect("a certificate");
    let client = CertificateSpec::client("somebody", &[]);
    let [known, unknown] =
        [&authority, &stranger].map(|from| from.issue(&client, now).expect("a certificate"));
    let [certificate, key] = files(folder.path(), "server", &own);
    let trusted = folder.path().join("ca.crt");
    fs::write(&trusted, authority.certificate_pem()).expect("room");
    let (plain, secure) = (free(), free());
    let https = format!("https://{secure}");
    let urls = format!("{https},http://{plain}");
    let tls = ["--cert-file", &certificate, "--key-file", &key];
    let with = |pair: Option<&CertKeyPair>| {
        let own = std::slice::from_ref(authority.certificate());
        let mut config = pki::client_config(own, pair).expect("a configuration");
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = "localhost".try_into().expect("a name");
        let session = ClientConnection::new(Arc::new(config), name).expect("a session");
        let stream = TcpStream::connect(&secure).expect("it listens");
        ask(StreamOwned::new(session, stream), "/v3/kv/range", &json!({ "key": "YQ==" }))
    };

    // http and https on one server; no client certificate is required
    let server = Server::start_at(&folder.path().join("open"), &plain, &urls, &tls);
    assert_eq!(server.put("Yg==").0, 200);
    for pair in [None, Some(&known)] {
        let (code, answer) = with(pair).expect("taken");
        assert!(code == 200 && answer.contains("\"Yg==\""), "{answer}");
    }
    drop(server);

    let authorities = ["--trusted-ca-file", text(&trusted)];
    for asked in [&["--client-cert-auth"][..], &[]] {
        let flags = [&tls[..], &authorities, asked].concat();
        let server = Server::start_at(&folder.path().join("asking"), &plain, &urls, &flags);
        assert_eq!(with(Some(&known)).expect("taken").0, 200);
        assert!(with(None).is_err(), "{asked:?}: without a certificate");
        assert!(with(Some(&unknown)).is_err(), "{asked:?}: of another authority");
        etcdctl(folder.path(), &https, &trusted, &known);
        drop(server);
    }

    for (flags, wrong) in [
        (vec!["--cert-file", &certificate], "--key-file"),
        (vec!["--client-cert-auth"], "need --cert-file and --key-file"),
        (authorities.to_vec(), "need --cert-file and --key-file"),
        ([&tls[..], &["--client-cert-auth"]].concat(), "needs --trusted-ca-file"),
        (vec!["--listen-client-urls", &https], "https needs --cert-file and --key-file"),
    ] {
        refused(&folder.path().join("wrong"), &flags, wrong);
    }
}

/// Tests the server with upstream's etcdctl, where it is installed.
fn etcdctl(folder: &Path, url: &str, trusted: &Path, pair: &CertKeyPair) {
    let Some(etcdctl) = program("etcdctl") else {
        return println!("left out: there is no etcdctl");
    };
    let [certificate, key] = files(folder, "client", pair);
    let call = |more: &[&str]| {
        let mut command = Command::new(&etcdctl);
        command.args(["--endpoints", url, "--cacert", text(trusted)]).args(more);
        command
    };
    let shown = ["--cert", &certificate, "--key", &key];
    run(&mut call(&[&shown[..], &["put", "told", "by etcdctl"]].concat()));
    assert_eq!(run(&mut call(&[&shown[..], &["get", "told"]].concat())), "told\nby etcdctl\n");
    let without = output(&mut call(&["--command-timeout=2s", "get", "told"]));
    assert!(!without.status.success(), "{}", said(&without));
}

#[test]
fn a_single_member_says_who_it_is() {
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    let peer = "http://192.0.2.7:2380";
    let flags = [
        ("--name", "seven"),
        ("--listen-peer-urls", "http://0.0.0.0:2380"),
        ("--initial-advertise-peer-urls", peer),
        ("--advertise-client-urls", "http://192.0.2.7:2379"),
        ("--initial-cluster", &format!("seven={peer}")),
        ("--initial-cluster-state", "existing"),
        ("--initial-cluster-token", "mine"),
        ("--snapshot-count", "5000"),
        ("--max-request-bytes", "3000"),
        ("--max-txn-ops", "1"),
        ("--watch-progress-notify-interval", "1s"),
    ];
    let flags: Vec<_> = flags.iter().flat_map(|(flag, value)| [*flag, *value]).collect();
    let server = Server::start(&data, &flags);
    let members = server.well("/v3/cluster/member/list", &json!({}));
    let member = &members["members"][0];
    assert_eq!(member["name"], "seven");
    assert_eq!(member["peerURLs"], json!([peer]));
    assert_eq!(member["clientURLs"], json!(["http://192.0.2.7:2379"]));
    assert_eq!(server.put("Yg==").0, 200);
    let (code, large) = server.put(&"YWFh".repeat(1_500));
    assert!(code != 200 && large.contains("request is too large"), "--max-request-bytes: {large}");
    let range = json!({ "requestRange": { "key": "YQ==" } });
    let (code, many) = server.ask("/v3/kv/txn", &json!({ "success": [range, range] }));
    assert!(code != 200 && many.contains("too many operations"), "--max-txn-ops: {many}");
    progress(&server);
    let cluster = members["header"]["cluster_id"].clone();
    drop(server);

    // the data is there for a member of another name too; another token makes it another cluster
    let server = Server::start(&data, &["--initial-cluster-token", "other", "--name", "eight"]);
    let range = server.well("/v3/kv/range", &json!({ "key": "YQ==" }));
    assert_eq!(range["kvs"][0]["value"], "Yg==", "--data-dir");
    assert_ne!(range["header"]["cluster_id"], cluster, "--initial-cluster-token");
    refused(&data, &[], "another process");
}

/// A watch without events gets progress notifications.
fn progress(server: &Server) {
    let mut stream = TcpStream::connect(&server.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let body = json!({ "create_request": { "key": "YQ==", "progress_notify": true } }).to_string();
    let length = body.len();
    write!(
        stream,
        "POST /v3/watch HTTP/1.1\r\nhost: etcd\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .expect("a socket");
    let (mut seen, mut part) = (String::new(), [0; 4_096]);
    while seen.matches("\"result\"").count() < 2 {
        let count = stream.read(&mut part).expect("--watch-progress-notify-interval");
        assert!(count > 0, "it has ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&part[..count]));
    }
}

#[test]
fn what_is_old_or_too_much_is_not_kept() {
    let folder = TempDir::new().expect("a folder");
    let quota = ["--quota-backend-bytes", "16384"];
    let server = Server::start(&folder.path().join("quota"), &quota);
    let mut answer = (200, String::new());
    for _ in 0..40 {
        answer = server.put(&"YWFh".repeat(300));
    }
    assert!(answer.0 != 200 && answer.1.contains("database space exceeded"), "{answer:?}");
    assert!(server.ask("/health", &Value::Null).1.contains("ALARM NOSPACE"));
    drop(server);

    let flags = ["--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1s"];
    let server = Server::start(&folder.path().join("old"), &flags);
    until("old revisions are forgotten", || {
        assert_eq!(server.put("Yg==").0, 200);
        let old = server.ask("/v3/kv/range", &json!({ "key": "YQ==", "revision": "2" }));
        old.0 != 200 && old.1.contains("has been compacted")
    });
    drop(server);
    let revision = ["--auto-compaction-mode", "revision", "--auto-compaction-retention"];
    refused(&folder.path().join("w"), &[&revision[..], &["1h"]].concat(), "wants a number");
}

#[test]
fn as_much_is_logged_as_was_asked_for() {
    let folder = TempDir::new().expect("a folder");
    for (level, told) in [("info", true), ("debug", true), ("error", false), ("panic", false)] {
        let data = folder.path().join(level);
        let server = Server::start(&data, &["--log-level", level]);
        assert_eq!(server.put("Yg==").0, 200);
        let log = fs::read_to_string(data.with_extension("log")).expect("a file");
        assert_eq!(log.contains("serving"), told, "{level}: {log}");
    }
}

#[test]
fn what_it_cannot_do_it_says() {
    let folder = TempDir::new().expect("a folder");
    let two = "default=http://localhost:2380,other=http://192.0.2.8:2380";
    for (flags, wrong) in [
        (&["--initial-cluster", two][..], "run etcd itself"),
        (&["--initial-cluster", two], "other=http://192.0.2.8:2380"),
        (&["--log-level", "loud"], "--log-level"),
        (&["--no-such-flag"], "--no-such-flag"),
        (&["--proxy", "on"], "--proxy"),
        (&["--snapshot-count", "0"], "--snapshot-count"),
        (&["--quota-backend-bytes", "much"], "--quota-backend-bytes"),
        (&["--auto-compaction-retention", "soon"], "--auto-compaction-retention"),
        (&["--listen-client-urls", "unix:///tmp/socket"], "no URL of http or https"),
        (&["--initial-cluster-state", "old"], "--initial-cluster-state"),
    ] {
        refused(&folder.path().join("data"), flags, wrong);
    }
}

/// Requires that the server exits at once with this error.
fn refused(data: &Path, flags: &[&str], why: &str) {
    let address = format!("http://{}", free());
    let listen = ["--data-dir", text(data), "--listen-client-urls", &address];
    let listen = if flags.contains(&"--listen-client-urls") { &listen[..2] } else { &listen };
    let out = output(&mut etcd(&[listen, flags].concat()));
    assert!(!out.status.success() && said(&out).contains(why), "{flags:?}: {}", said(&out));
}
