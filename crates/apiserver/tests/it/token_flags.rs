//! Flags about service account tokens.

use api::core::{Secret, ServiceAccount};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use client::{Auth, Client, DeleteParams};
use object::{Bytes, NamespacedName, SystemClock, Value, from_json};
use testkit::TestCluster;

use crate::{
    default_account,
    flags::{get, refused, with},
    of, pod, tree,
};

async fn request(admin: &Client, spec: &str) -> Value {
    let request = tree(&format!(
        r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{spec}}}"#
    ));
    let key = NamespacedName::new("default", "default");
    of::<ServiceAccount>(admin).create_subresource(&key, "token", &request).await.unwrap()
}

fn claims(given: &Value) -> Value {
    let token = given["status"]["token"].as_str().unwrap();
    let body = token.split('.').nth(1).unwrap();
    from_json(&URL_SAFE_NO_PAD.decode(body).unwrap()).unwrap()
}

fn signing_key(cluster: &TestCluster) -> pki::PrivateKey {
    let own = &cluster.running.cluster.service_accounts;
    pki::PrivateKey::from_pem(own.to_pem().as_bytes()).unwrap()
}

async fn enters(cluster: &TestCluster, token: &str) -> bool {
    get(&cluster.client_with_auth(Auth::Token(token.to_owned())), "/api").await.0 == 200
}

#[tokio::test]
async fn several_issuers_and_audiences() {
    let (new, old) = ("https://new.example.com", "https://old.example.com");
    let cluster = with(|flags| {
        flags.service_account_issuer = vec![new.to_owned(), old.to_owned()];
        flags.accounts.api_audiences = vec!["us".to_owned(), "them".to_owned()];
        flags.accounts.service_account_jwks_uri = Some("https://keys.example.com".to_owned());
    })
    .await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let given = request(&admin, "{}").await;
    let own = claims(&given);
    assert_eq!(own["iss"].as_str(), Some(new));
    let audiences: Vec<_> = own["aud"].items().iter().filter_map(Value::as_str).collect();
    assert_eq!(audiences, ["us", "them"]);
    assert!(enters(&cluster, given["status"]["token"].as_str().unwrap()).await);
    let other = request(&admin, r#"{"audiences":["somebody"]}"#).await;
    assert!(!enters(&cluster, other["status"]["token"].as_str().unwrap()).await);
    let mut bound = pki::BoundObjects::default();
    bound.namespace = "default".into();
    let account =
        of::<ServiceAccount>(&admin).get(&NamespacedName::new("default", "default")).await.unwrap();
    let uid = account["metadata"]["uid"].as_str().unwrap().to_owned();
    bound.service_account = pki::BoundObjectRef { name: "default".into(), uid };
    let now = object::Clock::now(&SystemClock);
    let before = pki::ServiceAccountClaims::bound(bound, vec!["us".into()], 3600, now);
    let key = signing_key(&cluster);
    let earlier = pki::TokenSigner::new(key, old).sign(before).unwrap();
    assert!(enters(&cluster, &earlier).await, "what was issued before is still good");
    let (_, document) = get(&admin, "/.well-known/openid-configuration").await;
    assert_eq!(document["jwks_uri"].as_str(), Some("https://keys.example.com"));
    let twice =
        refused(|flags| flags.service_account_issuer = vec![old.to_owned(), old.to_owned()]);
    assert!(twice.contains("already specified"), "{twice}");
}

#[tokio::test]
async fn how_long_tokens_are_good() {
    let cluster = with(|flags| {
        flags.accounts.service_account_max_token_expiration = "2h".to_owned();
        flags.connections.external_hostname = Some("api.example.com".to_owned());
    })
    .await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    of::<api::core::Pod>(&admin).create(pod("p", "")).await.unwrap();
    let long = request(&admin, r#"{"expirationSeconds":86400}"#).await;
    assert_eq!(long["spec"]["expirationSeconds"].as_i64(), Some(7200), "shortened");
    let usual = r#"{"expirationSeconds":3607,"boundObjectRef":{"kind":"Pod","name":"p"}}"#;
    let own = claims(&request(&admin, usual).await);
    let lasts = own["exp"].as_i64().unwrap() - own["iat"].as_i64().unwrap();
    assert_eq!(lasts, 365 * 24 * 3600, "what pods have always had is good for a year");
    let warn = own["kubernetes.io"]["warnafter"].as_i64().unwrap();
    assert_eq!(warn - own["iat"].as_i64().unwrap(), 3607);
    let (_, document) = get(&admin, "/.well-known/openid-configuration").await;
    let at = document["jwks_uri"].as_str().unwrap();
    assert!(at.starts_with("https://api.example.com:"), "{at}");
    let strict = with(|flags| {
        flags.accounts.service_account_extend_token_expiration = false;
    })
    .await;
    let admin = strict.admin_client();
    default_account(&admin).await;
    of::<api::core::Pod>(&admin).create(pod("p", "")).await.unwrap();
    let own = claims(&request(&admin, usual).await);
    assert_eq!(own["exp"].as_i64().unwrap() - own["iat"].as_i64().unwrap(), 3607);
    let short =
        refused(|flags| flags.accounts.service_account_max_token_expiration = "1m".to_owned());
    assert!(short.contains("between 1 hour and 2^32 seconds"), "{short}");
}

#[tokio::test]
async fn tokens_in_secrets() {
    for (lookup, after) in [(true, false), (false, true)] {
        let cluster = with(|flags| flags.accounts.service_account_lookup = lookup).await;
        let admin = cluster.admin_client();
        default_account(&admin).await;
        let accounts = of::<ServiceAccount>(&admin);
        let account = accounts.get(&NamespacedName::new("default", "default")).await.unwrap();
        let uid = account["metadata"]["uid"].as_str().unwrap().to_owned();
        let whose = pki::BoundObjectRef { name: "default".into(), uid: uid.clone() };
        let signer = pki::TokenSigner::new(signing_key(&cluster), "");
        let token = signer.sign(pki::ServiceAccountClaims::legacy("default", "t", whose)).unwrap();
        let mut secret = tree(
            r#"{"metadata":{"name":"t","annotations":{"kubernetes.io/service-account.name":"default"}},
            "type":"kubernetes.io/service-account-token"}"#,
        );
        secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = uid.into();
        secret["data"]["token"] = Bytes::encode(token.as_bytes()).into();
        of::<Secret>(&admin).create(secret).await.unwrap();
        assert!(enters(&cluster, &token).await);
        let key = NamespacedName::new("default", "t");
        if lookup {
            // Its use is recorded; and a token that is marked invalid is rejected.
            let mut kept = of::<Secret>(&admin).get(&key).await.unwrap();
            let used = &kept["metadata"]["labels"]["kubernetes.io/legacy-token-last-used"];
            assert_eq!(used.as_str().map(str::len), Some("2026-01-01".len()), "{used:?}");
            kept["metadata"]["labels"]["kubernetes.io/legacy-token-invalid-since"] =
                "2026-01-01".into();
            of::<Secret>(&admin).update(kept).await.unwrap();
            assert!(!enters(&cluster, &token).await, "it is marked");
        }
        of::<Secret>(&admin).delete(&key, &DeleteParams::default()).await.unwrap();
        assert_eq!(enters(&cluster, &token).await, after, "lookup: {lookup}");
    }
}
