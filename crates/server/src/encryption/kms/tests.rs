//! Tests with a KMS plugin on a unix socket.

use std::{
    convert::Infallible,
    future::Ready,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;
use tonic::{Request, Response, Status, body::Body, server::UnaryService};
use tonic_prost::ProstCodec;

use super::{
    messages::{DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse},
    *,
};

/// A KMS that inverts every byte. Its key id is a number.
#[derive(Default)]
struct Toy {
    key: AtomicU32,
    ill: AtomicU32,
    decrypted: AtomicU32,
}

#[derive(Clone)]
struct Handler(Arc<Toy>);

fn turned(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}

impl UnaryService<StatusRequest> for Handler {
    type Response = StatusResponse;
    type Future = Ready<Result<Response<StatusResponse>, Status>>;

    fn call(&mut self, _: Request<StatusRequest>) -> Self::Future {
        let ill = self.0.ill.load(Ordering::SeqCst) != 0;
        std::future::ready(Ok(Response::new(StatusResponse {
            version: "v2".into(),
            healthz: if ill { "ill" } else { "ok" }.into(),
            key_id: self.0.key.load(Ordering::SeqCst).to_string(),
        })))
    }
}

impl UnaryService<EncryptRequest> for Handler {
    type Response = EncryptResponse;
    type Future = Ready<Result<Response<EncryptResponse>, Status>>;

    fn call(&mut self, request: Request<EncryptRequest>) -> Self::Future {
        std::future::ready(Ok(Response::new(EncryptResponse {
            ciphertext: turned(&request.into_inner().plaintext),
            key_id: self.0.key.load(Ordering::SeqCst).to_string(),
            annotations: [("toy.example".to_owned(), vec![7])].into(),
        })))
    }
}

impl UnaryService<DecryptRequest> for Handler {
    type Response = DecryptResponse;
    type Future = Ready<Result<Response<DecryptResponse>, Status>>;

    fn call(&mut self, request: Request<DecryptRequest>) -> Self::Future {
        let request = request.into_inner();
        self.0.decrypted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(if request.annotations["toy.example"] == [7] {
            Ok(Response::new(DecryptResponse { plaintext: turned(&request.ciphertext) }))
        } else {
            Err(Status::invalid_argument("not mine"))
        })
    }
}

async fn answer(
    toy: Arc<Toy>,
    request: http::Request<Incoming>,
) -> Result<http::Response<Body>, Infallible> {
    let handler = Handler(toy);
    Ok(match request.uri().path() {
        "/v2.KeyManagementService/Status" => {
            tonic::server::Grpc::new(ProstCodec::<StatusResponse, StatusRequest>::default())
                .unary(handler, request)
                .await
        }
        "/v2.KeyManagementService/Encrypt" => {
            tonic::server::Grpc::new(ProstCodec::<EncryptResponse, EncryptRequest>::default())
                .unary(handler, request)
                .await
        }
        _ => {
            tonic::server::Grpc::new(ProstCodec::<DecryptResponse, DecryptRequest>::default())
                .unary(handler, request)
                .await
        }
    })
}

/// Serves the KMS on a socket until the test ends.
fn serve(socket: &Path) -> Arc<Toy> {
    let toy = Arc::new(Toy::default());
    let (socket, served) = (socket.to_owned(), toy.clone());
    let (bound, ready) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async {
            let listener = UnixListener::bind(socket).unwrap();
            bound.send(()).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let toy = served.clone();
                tokio::task::spawn_local(async move {
                    let service = service_fn(move |request| answer(toy.clone(), request));
                    let builder = http2::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    });
    ready.recv().unwrap();
    toy
}

fn kms(socket: &Path) -> Kms {
    Kms::new(Config {
        name: "toy".into(),
        endpoint: format!("unix://{}", socket.display()),
        timeout: Duration::from_mins(1),
    })
}

const AT: &str = "/registry/secrets/a/x";

#[test]
fn values_are_bound_to_their_place_and_seeds_are_asked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let toy = serve(&socket);
    let one = kms(&socket);
    let sealed = one.seal(AT, b"a word that nobody must find").expect("it answers");
    assert!(sealed.starts_with(b"k8s:enc:kms:v2:toy:"));
    assert!(!sealed.windows(4).any(|part| part == b"word"));
    assert_ne!(Some(&sealed), one.seal(AT, b"a word that nobody must find").as_ref());
    assert_eq!(one.open(AT, &sealed).as_deref(), Some(&b"a word that nobody must find"[..]));
    assert_eq!(one.open("/registry/secrets/a/y", &sealed), None, "moved");
    assert_eq!(toy.decrypted.load(Ordering::SeqCst), 0, "its own seed is known");
    assert_eq!(one.health(), Ok(()));

    let another = kms(&socket); // after a restart
    for _ in 0..3 {
        assert!(another.open(AT, &sealed).is_some());
    }
    assert_eq!(toy.decrypted.load(Ordering::SeqCst), 1);
    for length in 0..sealed.len() {
        assert_eq!(another.open(AT, &sealed[..length]), None, "{length}"); // and no panic
    }
}

#[test]
fn the_key_of_older_releases_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    serve(&socket);
    let key = [9; 32];
    let object = EncryptedObject {
        encrypted_data: seal_gcm(&key, AT, b"text").unwrap(),
        key_id: "0".into(),
        encrypted_dek_source: turned(&key),
        annotations: [("toy.example".to_owned(), vec![7])].into(),
        encrypted_dek_source_type: 0,
    };
    let stored = [b"k8s:enc:kms:v2:toy:", &*object.encode_to_vec()].concat();
    assert_eq!(kms(&socket).open(AT, &stored).as_deref(), Some(&b"text"[..]));
    let odd = EncryptedObject { encrypted_dek_source_type: 2, ..object.clone() };
    assert!(odd.check().is_err());
    let odd = EncryptedObject { annotations: [("nodot".to_owned(), vec![])].into(), ..object };
    assert!(odd.check().is_err());
}

#[test]
fn one_that_is_ill_is_told_of_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let toy = serve(&socket);
    toy.ill.store(1, Ordering::SeqCst);
    let one = kms(&socket);
    assert_eq!(one.seal(AT, b"text"), None);
    assert!(one.health().unwrap_err().contains("\"ill\""), "{:?}", one.health());
    let nobody = Kms::new(Config {
        timeout: Duration::from_secs(2),
        ..kms(&folder.path().join("no")).config
    });
    assert_eq!(nobody.seal(AT, b"text"), None);
    assert!(nobody.health().is_err());
}

/// As Go's golang.org/x/crypto/hkdf expands (RFC 5869, test case 1, its first block).
#[test]
fn keys_are_derived_as_the_standard_says() {
    let seed = "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5";
    let bytes = |hex: &str| -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    };
    let key = derived(&bytes(seed), &bytes("f0f1f2f3f4f5f6f7f8f9"));
    assert_eq!(key, bytes("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"));
}
