use std::{sync::Arc, time::Duration};

use api::{
    certificates::CertificateSigningRequest,
    core::{ConfigMap, PersistentVolumeClaim, Pod, Secret, ServiceAccount},
    rbac::ClusterRoleBinding,
};
use client::{Api, Selectors};
use controllers::{Config, SigningConfig};
use object::{Bytes, Clock, NamespacedName, SystemClock};
use pki::{CertificateAuthority, CertificateRequest};

use crate::{
    World,
    world::{tree, until},
};

fn config(controllers: &[&str]) -> Config {
    let now = SystemClock.now();
    let authority = Arc::new(CertificateAuthority::create("test", now).expect("a key"));
    let signer =
        pki::TokenSigner::new(pki::PrivateKey::generate().expect("a key"), "https://issuer");
    Config {
        controllers: controllers.iter().map(ToString::to_string).collect(),
        signing: Some(SigningConfig { authority, max_duration: Duration::from_hours(24) }),
        token_signer: Some(Arc::new(signer)),
        root_ca: "root".into(),
        ..Config::default()
    }
}

#[tokio::test]
async fn a_kubelet_gets_its_certificate() {
    let world = World::start_with(config(&["csrapproving", "csrsigning"])).await;
    let role = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient";
    let binding = format!(
        r#"{{"metadata":{{"name":"renewal"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io",
        "kind":"ClusterRole","name":"{role}"}},"subjects":[{{"kind":"Group",
        "apiGroup":"rbac.authorization.k8s.io","name":"system:nodes"}}]}}"#
    );
    world.make::<ClusterRoleBinding>(&binding).await;
    let key = pki::PrivateKey::generate().expect("a key");
    let nodes = ["system:nodes".to_owned()];
    let pem =
        CertificateRequest::create(&key, "system:node:a", &nodes, (&[], &[])).expect("a request");
    let text = format!(
        r#"{{"metadata":{{"name":"csr"}},"spec":{{"request":"{}",
        "signerName":"kubernetes.io/kube-apiserver-client-kubelet","expirationSeconds":7200,
        "username":"system:node:a","groups":["system:nodes"],
        "usages":["digital signature","client auth"]}}}}"#,
        Bytes::encode(pem.as_bytes())
    );
    world.make::<CertificateSigningRequest>(&text).await;
    let signed = |request: &CertificateSigningRequest| !request.status().certificate().is_empty();
    let request = world.until_one("csr", "a certificate", signed).await;
    let pem = Bytes::decode(request.status().certificate()).expect("base64");
    let chain = pki::certificates(&pem).expect("PEM");
    let who = pki::CertificateIdentity::of(&chain[0]).expect("a certificate");
    assert_eq!(who.common_name, "system:node:a");
    assert!(who.not_after - SystemClock.now() <= 7200);
    let condition = request.status().conditions().iter().next().expect("approved").clone();
    assert_eq!((condition.type_(), condition.reason()), ("Approved", "AutoApproved"));
    world.stop().await;
}

#[tokio::test]
async fn a_secret_has_the_token_of_its_account() {
    let world = World::start_with(config(&["serviceaccount-token"])).await;
    world.make::<ServiceAccount>(r#"{"metadata":{"name":"own"}}"#).await;
    let secret = r#"{"metadata":{"name":"t","annotations":
        {"kubernetes.io/service-account.name":"own"}},
        "type":"kubernetes.io/service-account-token"}"#;
    world.make::<Secret>(secret).await;
    let full = |secret: &Secret| secret.data().get("token").is_some();
    let secret = world.until_one::<Secret>("t", "a token", full).await;
    let token = Bytes::decode(secret.data().get("token").expect("a token")).expect("base64");
    assert_eq!(String::from_utf8(token).expect("text").split('.').count(), 3);
    world.delete::<ServiceAccount>("own").await;
    world.until_all::<Secret>("no secret", <[_]>::is_empty).await;
    world.stop().await;
}

#[tokio::test]
async fn tokens_for_joining_sign_and_end() {
    let world = World::start_with(config(&["bootstrapsigner", "tokencleaner"])).await;
    let b = |text: &str| Bytes::encode(text.as_bytes());
    let token = |id: &str, expires: &str| {
        format!(
            r#"{{"metadata":{{"name":"bootstrap-token-{id}","namespace":"kube-system"}},
            "type":"bootstrap.kubernetes.io/token","data":{{"token-id":"{}","token-secret":"{}",
            "usage-bootstrap-signing":"{}","expiration":"{}"}}}}"#,
            b(id),
            b("0123456789abcdef"),
            b("true"),
            b(expires)
        )
    };
    let (maps, secrets) = (Api::<ConfigMap>::new(&world.admin), Api::<Secret>::new(&world.admin));
    let map = r#"{"metadata":{"name":"cluster-info","namespace":"kube-public"},
        "data":{"kubeconfig":"x"}}"#;
    maps.create(tree(map).into()).await.expect("it is new");
    secrets.create(tree(&token("abcdef", "2099-01-01T00:00:00Z")).into()).await.expect("new");
    secrets.create(tree(&token("uvwxyz", "2000-01-01T00:00:00Z")).into()).await.expect("new");
    until("a signature", async || {
        let map = maps
            .get(&NamespacedName::new("kube-public", "cluster-info"))
            .await
            .expect("it is there");
        let names: Vec<&str> = map.data().iter().map(|(name, _)| name).collect();
        if names == ["jws-kubeconfig-abcdef", "kubeconfig"] { Ok(()) } else { Err(map) }
    })
    .await;
    until("the old token is gone", async || {
        let all = secrets.namespaced("kube-system").list_all(&Selectors::default()).await;
        let all = all.expect("a list").items;
        if all.len() == 1 { Ok(()) } else { Err(all.len()) }
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn a_volume_of_a_pod_has_its_claim() {
    let world = World::start(&["ephemeral-volume"]).await;
    let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}],
        "volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{
        "accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}}}]}}"#;
    let pod = world.make::<Pod>(pod).await;
    let owned = |claim: &PersistentVolumeClaim| {
        claim.metadata().controller_ref().is_some_and(|owner| owner.uid() == pod.metadata().uid())
    };
    world.until_one::<PersistentVolumeClaim>("p-v", "its claim", owned).await;
    world.stop().await;
}
