//! CVE-2019-11250, CVE-2020-8563 to 8566: however much is logged, no token, password or secret is.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
};

use api::core::{Secret, ServiceAccount};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{Auth, Patch};
use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};
use object::NamespacedName;
use testkit::TestCluster;
use tracing_subscriber::fmt::MakeWriter;

use crate::{code, default_account, of, tree};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Everything that this thread logs, of the server and of its clients.
#[tokio::test]
async fn no_secret_is_logged_at_any_verbosity() {
    let log = Log::default();
    let everything = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(everything);
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let mut canaries: Vec<String> = Vec::new();
    let mut canary = |name: &str| {
        let text = format!("canary-of-the-{name}");
        canaries.extend([text.clone(), STANDARD.encode(&text).trim_end_matches('=').to_owned()]);
        text
    };

    // secrets: written in each way, read, refused
    let secrets = of::<Secret>(&admin);
    let value = canary("data");
    let secret = format!(r#"{{"metadata":{{"name":"s"}},"stringData":{{"k":"{value}"}}}}"#);
    secrets.create(tree(&secret)).await.unwrap();
    let key = NamespacedName::new("default", "s");
    let patched = canary("patch");
    let patch = tree(&format!(r#"{{"stringData":{{"other":"{patched}"}}}}"#));
    secrets.patch(&key, &Patch::Merge(patch)).await.unwrap();
    secrets.get(&key).await.unwrap();
    let refused = canary("refused-data");
    let bad = format!(r#"{{"metadata":{{"name":"S!"}},"stringData":{{"k":"{refused}"}}}}"#);
    assert_eq!(code(secrets.create(tree(&bad)).await), 422);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let broken = format!(r#"{{"metadata":{{"name":"t"}},"stringData":{{"k":"{}"#, canary("broken"));
    let path = "/api/v1/namespaces/default/secrets";
    let answer = admin.request(Method::POST, path, headers, broken.into()).await.unwrap();
    assert_eq!(answer.status, 400);

    // tokens: one that is good, and what is none
    let request =
        tree(r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#);
    let account = NamespacedName::new("default", "default");
    let accounts = of::<ServiceAccount>(&admin);
    let given = accounts.create_subresource(&account, "token", &request).await.unwrap();
    let token = given["status"]["token"].as_str().expect("a token").to_owned();
    let signature = token.rsplit('.').next().expect("a signature").to_owned();
    let bearer = [token, canary("token"), format!("abcdef.{}", canary("bootstrap"))];
    let basic = Auth::Basic { user: "u".into(), password: canary("password") };
    canaries.push(signature);
    canaries.push(STANDARD.encode("u:canary-of-the-password").trim_end_matches('=').to_owned());
    for auth in bearer.into_iter().map(Auth::Token).chain([basic]) {
        let answer = of::<Secret>(&cluster.client_with_auth(auth)).get(&key).await;
        assert!(matches!(code(answer), 401 | 403));
    }

    let log = log.0.lock().unwrap_or_else(PoisonError::into_inner);
    let log = String::from_utf8_lossy(&log);
    assert!(log.contains(" TRACE ") && log.contains("/secrets"), "nothing was logged: {log:.1000}");
    for canary in &canaries {
        let line = log.lines().find(|line| line.contains(canary.as_str()));
        assert!(line.is_none(), "{canary} is logged: {line:?}");
    }
}
