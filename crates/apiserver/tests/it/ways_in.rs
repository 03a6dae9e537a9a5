//! Flags about authentication and authorization: each has an effect.

use std::{fs, path::Path, sync::Arc, time::Duration};

use api::core::{ConfigMap, Secret};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::Auth;
use object::SystemClock;
use testkit::TestCluster;

use crate::{backend::Backend, code, config_map, of, tree};

pub(crate) fn kubeconfig(backend: &Backend) -> String {
    let (url, bundle) = (backend.url("/review"), STANDARD.encode(&backend.authority));
    format!(
        "kind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {{cluster: k, user: u}}\n\
         clusters:\n- name: k\n  cluster: {{server: \"{url}\", certificate-authority-data: {bundle}}}\n\
         users:\n- name: u\n  user: {{}}\n"
    )
}

/// An AuthorizationConfiguration with RBAC and a webhook, and further fields of the webhook.
fn authorization(kubeconfig: &Path, more: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n\
         - {{type: RBAC, name: rbac}}\n- type: Webhook\n  name: w\n  webhook:\n    failurePolicy: Deny\n    \
         timeout: 30s\n    subjectAccessReviewVersion: v1\n    \
         connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {}}}\n{more}",
        kubeconfig.display()
    )
}

#[tokio::test]
async fn bootstrap_tokens_count_only_where_they_are_turned_on() {
    let secret = r#"{"metadata":{"name":"bootstrap-token-abcdef"},"type":"bootstrap.kubernetes.io/token",
        "stringData":{"token-id":"abcdef","token-secret":"0123456789abcdef",
        "usage-bootstrap-authentication":"true"}}"#;
    for (on, expected) in [(true, 403), (false, 401)] {
        let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
            flags.enable_bootstrap_token_auth = on;
        })
        .await;
        let secrets = of::<Secret>(&cluster.admin_client()).namespaced("kube-system");
        secrets.create(tree(secret)).await.unwrap();
        let node = cluster.client_with_auth(Auth::Token("abcdef.0123456789abcdef".to_owned()));
        // Authenticated without permissions, or not authenticated.
        assert_eq!(code(of::<ConfigMap>(&node).create(config_map("a")).await), expected);
    }
}

#[tokio::test]
async fn a_policy_file_gives_rights() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("policies");
    let line = r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"bob","namespace":"default","resource":"configmaps","apiGroup":"*"}}"#;
    fs::write(&path, line).unwrap();
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.authorization_mode = vec!["ABAC".to_owned()];
        flags.authorization_policy_file = Some(path);
    })
    .await;
    let bob = cluster.client_as("bob", &[]);
    assert!(of::<ConfigMap>(&bob).create(config_map("a")).await.is_ok());
    let secret = tree(r#"{"metadata":{"name":"s"}}"#);
    assert_eq!(code(of::<Secret>(&bob).create(secret).await), 403);
    let eve = cluster.client_as("eve", &[]);
    assert_eq!(code(of::<ConfigMap>(&eve).create(config_map("b")).await), 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_say_who_calls_and_what_they_may_do() {
    let backend = Backend::start(|_, review| {
        let mut answer = review.clone();
        if review["kind"].as_str() == Some("TokenReview") {
            let good = review["spec"]["token"].as_str() == Some("good");
            answer["status"]["authenticated"] = good.into();
            answer["status"]["user"]["username"] = "carol".into();
        } else {
            let own = review["spec"]["user"].as_str() == Some("carol");
            answer["status"]["allowed"] = own.into();
        }
        answer
    })
    .await;
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("kubeconfig");
    fs::write(&path, kubeconfig(&backend)).unwrap();
    let structured = folder.path().join("authorization");
    fs::write(&structured, authorization(&path, "")).unwrap();
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.authentication_token_webhook_config_file = Some(path);
        flags.authorization_config = Some(structured);
    })
    .await;
    let carol = cluster.client_with_auth(Auth::Token("good".to_owned()));
    assert!(of::<ConfigMap>(&carol).create(config_map("a")).await.is_ok());
    let bad = cluster.client_with_auth(Auth::Token("bad".to_owned()));
    assert_eq!(code(of::<ConfigMap>(&bad).create(config_map("b")).await), 401);
    let dave = cluster.client_as("dave", &[]);
    assert_eq!(code(of::<ConfigMap>(&dave).create(config_map("c")).await), 403);
}

#[tokio::test]
async fn passwords_come_from_a_file() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("passwords");
    fs::write(&path, "secret,erin,7,system:masters\n").unwrap();
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.basic_auth_file = Some(path);
    })
    .await;
    let basic =
        |password: &str| Auth::Basic { user: "erin".to_owned(), password: password.to_owned() };
    let erin = cluster.client_with_auth(basic("secret"));
    assert!(of::<ConfigMap>(&erin).create(config_map("a")).await.is_ok());
    let other = cluster.client_with_auth(basic("guess"));
    assert_eq!(code(of::<ConfigMap>(&other).create(config_map("b")).await), 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_asked_where_its_conditions_hold() {
    let backend = Backend::start(|_, mut review| {
        review["status"]["allowed"] = true.into();
        review
    })
    .await;
    let folder = tempfile::TempDir::new().unwrap();
    let (kubeconfig_path, path) = (folder.path().join("kubeconfig"), folder.path().join("authz"));
    fs::write(&kubeconfig_path, kubeconfig(&backend)).unwrap();
    let conditions = |expression: &str| {
        let more = format!(
            "    matchConditionSubjectAccessReviewVersion: v1\n    matchConditions:\n    \
             - expression: has(request.resourceAttributes)\n    - expression: {expression}\n"
        );
        authorization(&kubeconfig_path, &more)
    };
    fs::write(&path, conditions("request.resourceAttributes.name != 'kept'")).unwrap();
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.authorization_config = Some(path.clone());
    })
    .await;
    let dave = cluster.client_as("dave", &[]);
    let maps = of::<ConfigMap>(&dave);
    let get =
        async |name: &str| code(maps.get(&object::NamespacedName::new("default", name)).await);
    assert_eq!(get("other").await, 404, "allowed by the webhook");
    assert_eq!(get("kept").await, 403, "it was not asked");
    fs::write(&path, conditions("request.user == 'carol'")).unwrap();
    for _ in 0..600 {
        if get("other").await == 403 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(get("other").await, 403, "the file says now that it is not asked about him");
    // A file without the previous authorizer types is not loaded.
    let none = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n\
                authorizers: [{type: AlwaysAllow, name: alwaysallow}]\n";
    fs::write(&path, none).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(get("other").await, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorization_webhook_by_flags() {
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = asked.clone();
    let backend = Backend::start(move |_, mut review| {
        seen.lock().unwrap().push(review.clone());
        review["status"]["allowed"] = (review["spec"]["user"].as_str() == Some("dave")).into();
        review
    })
    .await;
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("kubeconfig");
    fs::write(&path, kubeconfig(&backend)).unwrap();
    for (version, groups) in [("v1", "groups"), ("v1beta1", "group")] {
        let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
            flags.authorization_mode = vec!["RBAC".to_owned(), "Webhook".to_owned()];
            flags.authorization_webhook_config_file = Some(path.clone());
            flags.authorization_webhook_version = version.to_owned();
            flags.authorization_webhook_cache_authorized_ttl = "1h".to_owned();
            flags.authorization_webhook_cache_unauthorized_ttl = "0s".to_owned();
        })
        .await;
        let maps = |user: &str| of::<ConfigMap>(&cluster.client_as(user, &["g"]));
        let key = object::NamespacedName::new("default", "none");
        for (user, expected) in [("dave", 404), ("dave", 404), ("eve", 403), ("eve", 403)] {
            assert_eq!(code(maps(user).get(&key).await), expected);
        }
        let reviews = std::mem::take(&mut *asked.lock().unwrap());
        assert_eq!(reviews.len(), 3, "a yes is remembered, a no is not");
        let review = &reviews[0];
        assert_eq!(
            review["apiVersion"].as_str(),
            Some(&*format!("authorization.k8s.io/{version}"))
        );
        assert_eq!(review["spec"][groups].items()[0].as_str(), Some("g"));
        assert_eq!(review["spec"]["resourceAttributes"]["resource"].as_str(), Some("configmaps"));
    }
}
