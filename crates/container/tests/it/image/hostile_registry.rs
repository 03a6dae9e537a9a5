//! Malicious registries: a pull fails in time, uses little memory and leaves nothing behind.

use std::{fs, net::SocketAddr, sync::Arc, time::Duration};

use container::image::RegistryConfig;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep},
};

use super::*;

/// Timeout of the test itself.
const LONGEST: Duration = Duration::from_mins(3);
/// The error for a slow registry.
const SLOW: [&str; 2] = ["no response in time", "too slowly"];

/// The reply to a request for a path. `None`: no reply, and the connection stays open.
type Answer = dyn Fn(&str, SocketAddr) -> Option<Reply> + Send + Sync;

struct Reply {
    head: String,
    body: Body,
}

enum Body {
    Whole(Vec<u8>),
    /// The same chunk without end.
    Endless(Vec<u8>),
    /// A byte now and then.
    Drops(Vec<u8>),
}

struct Hostile {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Hostile {
    async fn start(answer: Arc<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, address, answer.clone()));
            }
        });
        Self { address, _tasks: tasks }
    }
}

async fn serve(mut stream: TcpStream, address: SocketAddr, answer: Arc<Answer>) {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).await.is_ok() {
        request.push(byte[0]);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default();
    let Some(reply) = answer(path, address) else { return sleep(LONGEST).await };
    // the write fails if the client has disconnected
    let _ = stream.write_all(reply.head.as_bytes()).await;
    match reply.body {
        Body::Whole(bytes) => drop(stream.write_all(&bytes).await),
        Body::Endless(bytes) => while stream.write_all(&bytes).await.is_ok() {},
        Body::Drops(bytes) => {
            for byte in bytes {
                if stream.write_all(&[byte]).await.is_err() {
                    return;
                }
                sleep(Duration::from_millis(300)).await;
            }
        }
    }
}

fn ok(bytes: &[u8]) -> Reply {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
    Reply { head, body: Body::Whole(bytes.to_vec()) }
}

/// A reply without a length, which ends with the connection.
fn open(body: Body) -> Reply {
    Reply { head: "HTTP/1.1 200 OK\r\n\r\n".to_owned(), body }
}

/// Pulls from such a registry; the pull must fail with this error, in time, and leave nothing behind.
async fn refused(
    what: &str,
    why: &str,
    answer: impl Fn(&str, SocketAddr) -> Option<Reply> + Send + Sync + 'static,
) {
    let registry = Hostile::start(Arc::new(answer)).await;
    let patience = Duration::from_secs(if SLOW.contains(&why) { 2 } else { 60 });
    let registries = RegistryConfig { patience: Some(patience), ..RegistryConfig::default() };
    let (dir, store) = store(registries);
    let began = Instant::now();
    let name = format!("{}/image:1", registry.address);
    let pulled = tokio::time::timeout(LONGEST, store.pull(&name, None)).await;
    let error = pulled.unwrap_or_else(|_| panic!("{what}: not in time")).expect_err(what);
    let error = error.to_string();
    // a slow host receives fewer of the single bytes
    let stopped = SLOW.contains(&why) && error.contains("stopped sending");
    assert!(error.contains(why) || stopped, "{what}: {error}");
    println!("{what}: {:?}: {}", began.elapsed(), &error[..error.len().min(120)]);
    assert_eq!(store.list(), [], "{what}");
    assert_eq!(fs::read_dir(dir.path().join("layers")).expect("a folder").count(), 0, "{what}");
    drop(store);
    // leftovers of a failed pull are removed by the next start at the latest
    let store = ImageStore::open(dir.path(), RegistryConfig::default()).expect("opened again");
    let left = fs::read_dir(dir.path().join("ingest")).expect("a folder").count();
    assert_eq!((left, store.list().len()), (0, 0), "{what}");
}

#[tokio::test]
async fn answers_that_never_end() {
    refused("no answer", "no response in time", |_, _| None).await;
    refused("endless manifest", "larger than", |_, _| {
        Some(open(Body::Endless(vec![b' '; 64 << 10])))
    })
    .await;
    refused("drops", "too slowly", |_, _| Some(open(Body::Drops(vec![b'{'; 1000])))).await;
    refused("endless head", "failed to do request", |_, _| {
        let head = "HTTP/1.1 200 OK\r\n".to_owned();
        Some(Reply { head, body: Body::Endless(b"X-Header: and so on\r\n".to_vec()) })
    })
    .await;
    let layer = tar(|archive| file(archive, "file", b"1"));
    let parts = Arc::new(Parts::new(vec![(layer.clone(), layer)]));
    let with_blob = |body: fn() -> Body| {
        let parts = parts.clone();
        move |path: &str, _: SocketAddr| {
            if path.contains("/manifests/") {
                Some(ok(&parts.manifest))
            } else {
                Some(open(body()))
            }
        }
    };
    // the size of layers is known in advance
    refused("endless layer", "more than", with_blob(|| Body::Endless(vec![0; 64 << 10]))).await;
    refused("a layer in drops", "too slowly", with_blob(|| Body::Drops(vec![0; 1000]))).await;
}

#[tokio::test]
async fn redirects_lead_nowhere_else() {
    let to = |location: &'static str| {
        move |_: &str, address: SocketAddr| {
            let location = location.replace("SELF", &address.to_string());
            let head = format!(
                "HTTP/1.1 307 Elsewhere\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
            );
            Some(Reply { head, body: Body::Whole(Vec::new()) })
        }
    };
    refused("in a circle", "more than 5 redirects", to("http://SELF/v2/image/manifests/1")).await;
    refused("to a file", "redirect", to("file:///etc/passwd")).await;
    refused("to nothing", "redirect", to("")).await;
    refused("to a scheme", "unsupported address", to("gopher://SELF/x")).await;
}

#[tokio::test]
async fn manifests_made_to_harm() {
    let config = json!({"mediaType": "x", "digest": Digest::of(b"x").to_string(), "size": 1});
    let layer = |size: u64| json!({"digest": Digest::of(b"y").to_string(), "size": size});
    let manifest = |layers: Vec<Value>| {
        json!({"schemaVersion": 2, "config": config.clone(), "layers": layers}).to_string()
    };
    let index = json!({"schemaVersion": 2, "manifests": [describe(b"z")]}).to_string();
    let cases = [
        ("many layers", "layers", manifest(vec![layer(1); 501])),
        ("not JSON", "", "<html>".to_owned()),
        ("deep", "", "[".repeat(1 << 20)),
        ("nothing in it", "", "{}".to_owned()),
        ("numbers", "", manifest(vec![json!({"digest": "sha256:0", "size": -1})])),
        (
            "a digest that is a path",
            "",
            manifest(vec![json!({"digest": "sha256:../../x", "size": 1})]),
        ),
        ("an index of nothing", "", index),
        (
            "a large configuration",
            "oversized configuration",
            json!({"schemaVersion": 2, "layers": [], "config":
                {"mediaType": "x", "digest": Digest::of(b"x").to_string(), "size": 1_u64 << 40}})
            .to_string(),
        ),
    ];
    for (what, why, body) in cases {
        refused(what, why, move |path, _| {
            let known = path.contains("/manifests/1");
            Some(if known { ok(body.as_bytes()) } else { ok(b"z") })
        })
        .await;
    }
}

/// Entries that claim to be larger than they are, or lead out of the layer. (`hostile` has those that expand.)
#[tokio::test]
async fn layers_made_to_harm() {
    let mut huge = Header::new_gnu();
    huge.set_path("huge").expect("short");
    huge.set_mode(0o644);
    huge.set_size(1 << 45);
    huge.set_cksum();
    let mut sparse = huge.clone();
    sparse.set_entry_type(EntryType::GNUSparse);
    sparse.set_size(512);
    sparse.set_cksum();
    let headed = |header: &Header| [&header.as_bytes()[..], &[0; 4096]].concat();
    let cases = [
        ("a header of 32 TiB", "", headed(&huge)),
        ("a sparse file", "sparse", headed(&sparse)),
        ("a whiteout of the parent", "", tar(|a| entry(a, ".wh...", EntryType::Regular, ""))),
        ("a whiteout outside", "", tar(|a| entry(a, "../.wh.etc", EntryType::Regular, ""))),
        ("a whiteout of itself", "", tar(|a| entry(a, ".wh..", EntryType::Regular, ""))),
        ("an opaque parent", "", tar(|a| entry(a, "../.wh..wh..opq", EntryType::Regular, ""))),
    ];
    for (what, why, layer) in cases {
        let parts = Parts::of_diffs(vec![(Digest::of(&layer).to_string(), layer)]);
        refused(what, why, move |path, _| {
            let of = |bytes: &Vec<u8>| path.ends_with(&Digest::of(bytes).to_string());
            match parts.blobs().find(|blob| of(blob)) {
                Some(blob) => Some(ok(blob)),
                None => Some(ok(&parts.manifest)),
            }
        })
        .await;
    }
}
