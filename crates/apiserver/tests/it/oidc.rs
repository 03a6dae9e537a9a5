//! JWT authentication: an OpenID issuer on the loopback, configured by flags or a file.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use apiserver::Flags;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use client::{Auth, Client};
use http::{HeaderMap, Method};
use object::{Clock, SystemClock, Value, from_json};
use pki::PrivateKey;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use tempfile::TempDir;
use testkit::TestCluster;

use crate::{backend::Backend, tree};

/// An issuer whose key can be replaced.
struct Provider {
    backend: Backend,
    key: Arc<Mutex<PrivateKey>>,
    /// The response at `/groups`: another token.
    groups: Arc<Mutex<String>>,
    /// While this is set, requests for its keys get no response.
    slow: Arc<AtomicBool>,
    /// How often its keys were requested.
    asked: Arc<AtomicUsize>,
}

impl Provider {
    async fn start() -> Self {
        let key = Arc::new(Mutex::new(PrivateKey::generate().unwrap()));
        let (shown, url) = (key.clone(), Arc::new(Mutex::new(String::new())));
        let (own, groups) = (url.clone(), Arc::new(Mutex::new(String::new())));
        let told = groups.clone();
        let (slow, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (late, count) = (slow.clone(), asked.clone());
        let backend = Backend::start(move |path, _| {
            if path == "/keys" {
                count.fetch_add(1, SeqCst);
                // Other tasks of this worker must not be blocked.
                tokio::task::block_in_place(|| {
                    let deadline = Instant::now() + Duration::from_secs(30);
                    while late.load(SeqCst) && Instant::now() < deadline {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                });
            }
            let key = shown.lock().unwrap();
            let (keys, own) = (std::slice::from_ref(key.public()), own.lock().unwrap());
            let text = match path {
                "/.well-known/openid-configuration" => {
                    pki::openid_configuration(&own, &format!("{own}/keys"), keys)
                }
                "/keys" => pki::key_set(keys),
                "/groups" => return Value::Raw(told.lock().unwrap().as_str().into()),
                _ => "{}".to_owned(),
            };
            from_json(text.as_bytes()).unwrap()
        })
        .await;
        *url.lock().unwrap() = backend.url("");
        Self { backend, key, groups, slow, asked }
    }

    fn url(&self) -> String {
        self.backend.url("")
    }

    /// A token for an hour with these further claims.
    fn token(&self, claims: &str) -> String {
        let mut all = tree(claims);
        let now = SystemClock.now();
        all["iss"] = self.url().into();
        if all.get("exp").is_null() {
            all["exp"] = (now + 3600).into();
        }
        let key = self.key.lock().unwrap();
        let header = format!(r#"{{"alg":"ES256","kid":"{}"}}"#, key.public().id());
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let message = format!("{}.{}", part(header.as_bytes()), part(&object::to_json(&all)));
        let random = SystemRandom::new();
        let der = key.to_der();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_der(), &random);
        let signature = pair.unwrap().sign(&random, message.as_bytes()).unwrap();
        format!("{message}.{}", part(signature.as_ref()))
    }

    /// Sets the flags that are needed to reach it.
    fn flags(&self, folder: &TempDir, flags: &mut Flags) {
        let authority = folder.path().join("issuer.pem");
        fs::write(&authority, &self.backend.authority).unwrap();
        flags.oidc.issuer_url = Some(self.url());
        flags.oidc.client_id = Some("me".to_owned());
        flags.oidc.ca_file = Some(authority);
        flags.oidc.signing_algs = vec!["ES256".to_owned()];
    }
}

async fn with(change: impl FnOnce(&mut Flags)) -> TestCluster {
    TestCluster::start_with_flags(Arc::new(SystemClock), change).await
}

/// The user of a token according to the server; `None` if it is rejected.
async fn who(cluster: &TestCluster, token: &str) -> Option<Value> {
    let client = cluster.client_with_auth(Auth::Token(token.to_owned()));
    let answer = review(&client).await;
    answer.map(|answer| answer["status"]["userInfo"].clone())
}

async fn review(client: &Client) -> Option<Value> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/json".parse().unwrap());
    let body = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = client.request(Method::POST, path, headers, Bytes::from(body)).await.unwrap();
    match answer.status.as_u16() {
        201 => Some(from_json(&answer.bytes().await.unwrap()).unwrap()),
        code => {
            assert_eq!(code, 401);
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_may_be_told_elsewhere() {
    let (provider, folder) = (Provider::start().await, TempDir::new().unwrap());
    let cluster = with(|flags| {
        provider.flags(&folder, flags);
        flags.oidc.groups_claim = Some("groups".to_owned());
    })
    .await;
    let claims = format!(
        r#"{{"sub":"jane","aud":"me","_claim_names":{{"groups":"s"}},
        "_claim_sources":{{"s":{{"endpoint":"{}/groups","access_token":"t"}}}}}}"#,
        provider.url()
    );
    let token = provider.token(&claims);
    assert_eq!(who(&cluster, &token).await, None, "what is told there is no token");
    *provider.groups.lock().unwrap() = provider.token(r#"{"aud":"me","groups":["a","b"]}"#);
    let jane = who(&cluster, &token).await.expect("she is known");
    let groups: Vec<_> = jane["groups"].items().iter().filter_map(Value::as_str).collect();
    assert_eq!(groups, ["a", "b", "system:authenticated"]);
    *provider.groups.lock().unwrap() = provider.token(r#"{"aud":"you","groups":["a"]}"#);
    assert_eq!(who(&cluster, &token).await, None, "that is meant for somebody else");
}

fn username(user: Option<&Value>) -> &str {
    user.and_then(|user| user.get("username").as_str()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_is_believed_about_its_own() {
    let (provider, folder) = (Provider::start().await, TempDir::new().unwrap());
    let cluster = with(|flags| provider.flags(&folder, flags)).await;
    let token = provider.token(r#"{"sub":"jane","aud":"me","jti":"7"}"#);
    let jane = who(&cluster, &token).await;
    assert_eq!(username(jane.as_ref()), format!("{}#jane", provider.url()));
    let id = &jane.unwrap()["extra"]["authentication.kubernetes.io/credential-id"];
    assert_eq!(id.items()[0].as_str(), Some("JTI=7"));
    let other = provider.token(r#"{"sub":"jane","aud":["you"]}"#);
    assert_eq!(who(&cluster, &other).await, None, "meant for somebody else");
    let late = provider.token(r#"{"sub":"jane","aud":"me","exp":1700000000}"#);
    assert_eq!(who(&cluster, &late).await, None, "it has ended");
    let early = provider.token(r#"{"sub":"jane","aud":"me","nbf":99999999999}"#);
    assert_eq!(who(&cluster, &early).await, None, "it has not begun");
    let mut forged = token.clone();
    forged.replace_range(token.len() - 8..token.len() - 4, "AAAA");
    assert_eq!(who(&cluster, &forged).await, None, "nobody signed it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_key_of_the_issuer_is_found() {
    let (provider, folder) = (Provider::start().await, TempDir::new().unwrap());
    let cluster = with(|flags| provider.flags(&folder, flags)).await;
    let claims = r#"{"sub":"jane","aud":"me"}"#;
    let old = provider.token(claims);
    assert!(who(&cluster, &old).await.is_some());
    *provider.key.lock().unwrap() = PrivateKey::generate().unwrap();
    let new = provider.token(claims);
    until(async || who(&cluster, &new).await.is_some()).await;
    assert_eq!(who(&cluster, &old).await, None, "its key is no longer published");
}

/// Forged tokens make the server fetch the keys from the issuer, which is slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn who_is_known_does_not_wait_for_the_issuer() {
    let (provider, folder) = (Provider::start().await, TempDir::new().unwrap());
    let cluster = Arc::new(with(|flags| provider.flags(&folder, flags)).await);
    let known = provider.token(r#"{"sub":"jane","aud":"me"}"#);
    assert!(who(&cluster, &known).await.is_some());
    *provider.key.lock().unwrap() = PrivateKey::generate().unwrap();
    let forged = provider.token(r#"{"sub":"jane","aud":"me"}"#);
    *provider.key.lock().unwrap() = PrivateKey::generate().unwrap();
    provider.slow.store(true, SeqCst);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = provider.asked.load(SeqCst);
    let mut forgers = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (cluster, forged) = (cluster.clone(), forged.clone());
        forgers.spawn(async move { who(&cluster, &forged).await });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = Instant::now();
    assert!(who(&cluster, &known).await.is_some());
    assert!(before.elapsed() < Duration::from_secs(8), "{:?}", before.elapsed());
    provider.slow.store(false, SeqCst);
    while let Some(forger) = forgers.join_next().await {
        assert_eq!(forger.unwrap(), None);
    }
    let requests = provider.asked.load(SeqCst) - asked;
    assert!((1..=3).contains(&requests), "20 callers share an answer: {requests} requests");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flags_say_who_the_bearer_is() {
    let (provider, folder) = (Provider::start().await, TempDir::new().unwrap());
    let cluster = with(|flags| {
        provider.flags(&folder, flags);
        flags.oidc.username_claim = "email".to_owned();
        flags.oidc.groups_claim = Some("teams".to_owned());
        flags.oidc.groups_prefix = Some("oidc:".to_owned());
        flags.oidc.required_claim = vec!["hd=example.com".to_owned()];
    })
    .await;
    let good = r#"{"aud":"me","email":"j@example.com","teams":["a","b"],"hd":"example.com"}"#;
    let jane = who(&cluster, &provider.token(good)).await.unwrap();
    assert_eq!(username(Some(&jane)), "j@example.com", "addresses have no prefix");
    let groups: Vec<_> = jane["groups"].items().iter().filter_map(Value::as_str).collect();
    assert_eq!(groups, ["oidc:a", "oidc:b", "system:authenticated"]);
    for bad in [
        r#"{"aud":"me","email":"j@example.com","hd":"other.com"}"#,
        r#"{"aud":"me","email":"j@example.com"}"#,
        r#"{"aud":"me","email":"j@example.com","hd":"example.com","email_verified":false}"#,
        r#"{"aud":"me","hd":"example.com"}"#,
    ] {
        assert_eq!(who(&cluster, &provider.token(bad)).await, None, "{bad}");
    }
    let prefixed = with(|flags| {
        provider.flags(&folder, flags);
        flags.oidc.username_prefix = Some("oidc/".to_owned());
    })
    .await;
    let token = provider.token(r#"{"sub":"jane","aud":"me"}"#);
    assert_eq!(username(who(&prefixed, &token).await.as_ref()), "oidc/jane");
    let bare = with(|flags| {
        provider.flags(&folder, flags);
        flags.oidc.username_prefix = Some("-".to_owned());
    })
    .await;
    assert_eq!(username(who(&bare, &token).await.as_ref()), "jane");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_algorithms_that_are_named_count() {
    let (provider, folder) = (Provider::start().await, TempDir::new().unwrap());
    let cluster = with(|flags| {
        provider.flags(&folder, flags);
        flags.oidc.signing_algs = vec!["RS256".to_owned()];
    })
    .await;
    let token = provider.token(r#"{"sub":"jane","aud":"me"}"#);
    assert_eq!(who(&cluster, &token).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_must_show_a_certificate_that_is_believed() {
    let (provider, folder) = (Provider::start().await, TempDir::new().unwrap());
    let cluster = with(|flags| {
        provider.flags(&folder, flags);
        let other = pki::CertificateAuthority::create("other", SystemClock.now()).unwrap();
        fs::write(folder.path().join("other.pem"), other.certificate_pem()).unwrap();
        flags.oidc.ca_file = Some(folder.path().join("other.pem"));
    })
    .await;
    assert_eq!(who(&cluster, &provider.token(r#"{"sub":"jane","aud":"me"}"#)).await, None);
}

/// A configuration file for the issuer, with these further parts.
fn configuration(provider: &Provider, folder: &TempDir, rest: &str) -> PathBuf {
    let authority = provider.backend.authority.replace('\n', "\n        ");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    \
         url: {}\n    audiences: [me, us]\n    audienceMatchPolicy: MatchAny\n    \
         certificateAuthority: |\n        {authority}\n{rest}",
        provider.url()
    );
    let path = folder.path().join("authentication.yaml");
    fs::write(&path, text).unwrap();
    path
}

const EXPRESSIONS: &str = "  claimMappings:
    username: {expression: \"'corp:' + claims.sub\"}
    groups: {expression: \"claims.roles.split(',')\"}
    uid: {claim: id}
    extra:
    - {key: example.com/tenant, valueExpression: claims.tenant}
  claimValidationRules:
  - {expression: \"claims.exp - claims.iat <= 86400\", message: too long}
  - {claim: hd, requiredValue: example.com}
  userValidationRules:
  - {expression: \"!user.username.startsWith('corp:system:')\", message: reserved}
  - {expression: \"user.groups.all(group, group != 'system:masters')\"}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expressions_say_who_the_bearer_is() {
    let (provider, folder) = (Provider::start().await, TempDir::new().unwrap());
    let path = configuration(&provider, &folder, EXPRESSIONS);
    let cluster = with(|flags| flags.authentication_config = Some(path)).await;
    let now = SystemClock.now();
    let token = |sub: &str, roles: &str, iat: i64| {
        provider.token(&format!(
            r#"{{"sub":"{sub}","aud":"us","roles":"{roles}","id":"u7","tenant":"t","iat":{iat},"hd":"example.com"}}"#
        ))
    };
    let jane = who(&cluster, &token("jane", "a,b", now)).await.unwrap();
    assert_eq!(username(Some(&jane)), "corp:jane");
    assert_eq!(jane["uid"].as_str(), Some("u7"));
    assert_eq!(jane["groups"].items()[1].as_str(), Some("b"));
    assert_eq!(jane["extra"]["example.com/tenant"].items()[0].as_str(), Some("t"));
    assert_eq!(who(&cluster, &token("jane", "a", now - 90_000)).await, None, "too long");
    assert_eq!(who(&cluster, &token("system:x", "a", now)).await, None, "reserved");
    assert_eq!(who(&cluster, &token("jane", "system:masters", now)).await, None);
    let missing = provider.token(r#"{"sub":"jane","aud":"us"}"#);
    assert_eq!(who(&cluster, &missing).await, None, "an expression fails");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_is_read_again_when_it_changes() {
    let (provider, folder) = (Provider::start().await, TempDir::new().unwrap());
    let mapping = |prefix: &str| {
        format!("  claimMappings:\n    username: {{claim: sub, prefix: \"{prefix}\"}}\n")
    };
    let path = configuration(&provider, &folder, &mapping("old:"));
    let cluster = with(|flags| flags.authentication_config = Some(path)).await;
    let token = provider.token(r#"{"sub":"jane","aud":"me"}"#);
    assert_eq!(username(who(&cluster, &token).await.as_ref()), "old:jane");
    configuration(&provider, &folder, &mapping("new:"));
    until(async || username(who(&cluster, &token).await.as_ref()) == "new:jane").await;
    configuration(&provider, &folder, "  claimMappings: {}\n"); // invalid
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(username(who(&cluster, &token).await.as_ref()), "new:jane", "the last one stays");
}

#[tokio::test]
async fn nobody_may_look_at_some_paths_only() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("authentication.yaml");
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n\
                anonymous:\n  enabled: true\n  conditions:\n  - path: /livez\n";
    fs::write(&path, text).unwrap();
    let cluster = with(|flags| flags.authentication_config = Some(path.clone())).await;
    let nobody = cluster.client_with_auth(Auth::None);
    let get = async |path: &str| {
        let answer = nobody.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await;
        answer.unwrap().status.as_u16()
    };
    assert_eq!(get("/livez").await, 200);
    assert_eq!(get("/readyz").await, 401);
}

#[tokio::test]
async fn nobody_may_be_kept_out_by_a_flag() {
    for (flag, expected) in [(None, 200), (Some(true), 200), (Some(false), 401)] {
        let cluster = with(|flags| flags.anonymous_auth = flag).await;
        let nobody = cluster.client_with_auth(Auth::None);
        let answer = nobody.request(Method::GET, "/livez", HeaderMap::new(), Bytes::new()).await;
        assert_eq!(answer.unwrap().status.as_u16(), expected, "{flag:?}");
    }
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let refused = |change: &dyn Fn(&mut Flags)| {
        let mut flags = Flags::new(&PathBuf::from("/nonexistent"));
        change(&mut flags);
        apiserver::Config::new(flags).map(drop).unwrap_err().to_string()
    };
    let both = refused(&|flags| {
        flags.authentication_config = Some(PathBuf::from("/nonexistent/f"));
        flags.oidc.client_id = Some("me".to_owned());
    });
    assert!(both.contains("mutually exclusive"), "{both}");
    let half = refused(&|flags| flags.oidc.client_id = Some("me".to_owned()));
    assert!(half.contains("must be specified together"), "{half}");
    let odd = refused(&|flags| {
        flags.oidc.issuer_url = Some("https://i".to_owned());
        flags.oidc.client_id = Some("me".to_owned());
        flags.oidc.signing_algs = vec!["HS256".to_owned()];
    });
    assert!(odd.contains("unsupported signing alg"), "{odd}");
}

/// Waits up to two minutes for a condition.
async fn until(holds: impl AsyncFn() -> bool) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("it did not happen within two minutes");
}
