//! An external signer signs the service account tokens, and provides the keys that verify them.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use api::core::ServiceAccount;
use apiserver::{Config, Flags, ListenerSource, ServerEnvironment, StorageBackend, start_with};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use client::Auth;
use object::{NamespacedName, SystemClock};
use prost::Message as _;
use tempfile::TempDir;

use crate::{
    default_account,
    flags::{get, refused, with},
    grpc::Grpc,
    message, of, tree,
};

#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(string, tag = "1")]
    first: String,
    #[prost(string, tag = "2")]
    second: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Keys {
    #[prost(message, repeated, tag = "1")]
    keys: Vec<OneKey>,
    #[prost(message, optional, tag = "2")]
    moment: Option<Number>,
    #[prost(int64, tag = "3")]
    refresh: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OneKey {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
    #[prost(bool, tag = "3")]
    hidden: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Number {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// An external signer that signs with its last key; every key has an id.
struct Toy {
    keys: Mutex<Vec<(String, pki::PrivateKey, bool)>>,
    longest: i64,
    fetched: AtomicUsize,
}

impl Toy {
    fn start(path: &Path, longest: i64) -> (Arc<Self>, Grpc) {
        let key = ("one".to_owned(), pki::PrivateKey::generate().unwrap(), false);
        let keys = Mutex::new(vec![key]);
        let toy = Arc::new(Self { keys, longest, fetched: AtomicUsize::new(0) });
        let answers = toy.clone();
        (toy, Grpc::start(path, move |method, asked| answers.answer(method, asked)))
    }

    fn answer(&self, method: &str, asked: &[u8]) -> Vec<u8> {
        match method {
            "Sign" => {
                let claims = Text::decode(asked).unwrap().first;
                let keys = self.keys.lock().unwrap();
                let (id, key, _) = keys.last().unwrap();
                let header = format!(r#"{{"alg":"ES256","kid":"{id}","typ":"JWT"}}"#);
                let header = URL_SAFE_NO_PAD.encode(header);
                let signature = key.sign_jose(format!("{header}.{claims}").as_bytes()).unwrap();
                Text { first: header, second: URL_SAFE_NO_PAD.encode(signature) }.encode_to_vec()
            }
            "FetchKeys" => {
                self.fetched.fetch_add(1, Ordering::SeqCst);
                let keys = self.keys.lock().unwrap();
                let keys = keys.iter().map(|(id, key, hidden)| OneKey {
                    id: id.clone(),
                    key: key.public().to_der(),
                    hidden: *hidden,
                });
                let moment = Some(Number { seconds: 1_700_000_000 });
                Keys { keys: keys.collect(), moment, refresh: 3600 }.encode_to_vec()
            }
            _ => Number { seconds: self.longest }.encode_to_vec(),
        }
    }
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("signer.sock")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_signed_elsewhere() {
    let folder = TempDir::new().unwrap();
    let (toy, _grpc) = Toy::start(&socket(&folder), 7200);
    let cluster = with(|flags| {
        flags.accounts.service_account_signing_endpoint =
            Some(socket(&folder).display().to_string());
    })
    .await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let accounts = of::<ServiceAccount>(&admin);
    let asks = tree(
        r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":99999}}"#,
    );
    let key = NamespacedName::new("default", "default");
    let token = async || {
        let given = accounts.create_subresource(&key, "token", &asks).await.unwrap();
        let seconds = given["spec"]["expirationSeconds"].as_i64();
        assert_eq!(seconds, Some(7200), "no longer than the signer can");
        given["status"]["token"].as_str().unwrap().to_owned()
    };
    let enters =
        async |token: String| get(&cluster.client_with_auth(Auth::Token(token)), "/api").await.0;
    let first = token().await;
    assert_eq!(enters(first.clone()).await, 200);
    let fetched = toy.fetched.load(Ordering::SeqCst);
    let new = ("two".to_owned(), pki::PrivateKey::generate().unwrap(), false);
    toy.keys.lock().unwrap().push(new);
    assert_eq!(enters(token().await).await, 200, "a key that is new is asked for");
    assert_eq!(enters(first).await, 200);
    assert_eq!(toy.fetched.load(Ordering::SeqCst), fetched + 1);
    let (_, keys) = get(&admin, "/openid/v1/jwks").await;
    let ids: Vec<_> = keys["keys"].items().iter().map(|key| key["kid"].as_str()).collect();
    assert_eq!(ids, [Some("one"), Some("two")]);
    let hidden = ("three".to_owned(), pki::PrivateKey::generate().unwrap(), true);
    toy.keys.lock().unwrap().push(hidden);
    assert_eq!(
        message(accounts.create_subresource(&key, "token", &asks).await),
        "Internal error occurred: failed to generate token: while validating header: key used for \
         signing JWT (kid: three) is excluded from OIDC discovery docs"
    );
    let forged = pki::TokenSigner::new(
        pki::PrivateKey::generate().unwrap(),
        "https://kubernetes.default.svc.cluster.local",
    );
    let forged = forged.sign(pki::ServiceAccountClaims::default()).unwrap();
    assert_eq!(enters(forged).await, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_together_is_refused() {
    let said = refused(|flags| {
        flags.accounts.service_account_signing_endpoint = Some("/s".to_owned());
        flags.service_account_signing_key_file = Some("/k".into());
    });
    assert!(said.contains("They are mutually exclusive"), "{said}");
    let said = refused(|flags| {
        flags.accounts.service_account_signing_endpoint = Some("@a..b".to_owned());
    });
    assert!(said.contains("must be a valid abstract socket name"), "{said}");
    for (longest, why) in [
        (
            60,
            "max token life supported by external-jwt-signer (60s) is less than acceptable (min 600s)",
        ),
        (3600, "expiration supported by service-account-signing-endpoint: 2h0m0s > 1h0m0s"),
    ] {
        let folder = TempDir::new().unwrap();
        let (_toy, _grpc) = Toy::start(&socket(&folder), longest);
        let mut flags = Flags::new(folder.path());
        flags.accounts.service_account_signing_endpoint =
            Some(socket(&folder).display().to_string());
        flags.accounts.service_account_max_token_expiration = "2h".to_owned();
        let (storage, clock) = (StorageBackend::Memory, Arc::new(SystemClock));
        let ground = ServerEnvironment { storage, entry: ListenerSource::Pipes, clock };
        let said = start_with(Config::new(flags).unwrap(), ground).await.map(drop).unwrap_err();
        assert!(format!("{said:#}").contains(why), "{said:#}");
    }
}
