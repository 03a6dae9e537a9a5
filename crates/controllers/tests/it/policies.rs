//! Tests of the policy status controller, of published bundles and of cleaned up tokens and
//! requests.

use std::sync::Arc;

use api::{
    admissionregistration::ValidatingAdmissionPolicy,
    certificates::ClusterTrustBundle,
    core::{PersistentVolume, PersistentVolumeClaim, Secret, ServiceAccount},
};
use client::Patch;
use controllers::Config;
use object::{Clock, Lens, NamespacedName, SystemClock};

use crate::{World, world::tree};

#[tokio::test]
async fn a_policy_is_told_what_cannot_be_right() {
    let world = World::start(&["validatingadmissionpolicy-status"]).await;
    let policy = |name: &str, expression: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"matchConstraints":{{"resourceRules":[
            {{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["CREATE"],
            "resources":["deployments"]}}]}},"validations":[{{"expression":"{expression}"}}]}}}}"#
        )
    };
    world.make::<ValidatingAdmissionPolicy>(&policy("good", "object.spec.replicas > 1")).await;
    world.make::<ValidatingAdmissionPolicy>(&policy("bad", "object.spec.replicas > '1'")).await;
    let seen = |policy: &ValidatingAdmissionPolicy| {
        let status = policy.tree().get("status");
        status.get("observedGeneration").as_i64() == Some(1)
            && status.get("typeChecking").is_object()
    };
    let good = world.until_one::<ValidatingAdmissionPolicy>("good", "a look", seen).await;
    let warnings = |policy: &ValidatingAdmissionPolicy| {
        policy.tree().get("status").get("typeChecking").get("expressionWarnings").items().to_vec()
    };
    assert!(warnings(&good).is_empty());
    let bad = world.until_one::<ValidatingAdmissionPolicy>("bad", "a look", seen).await;
    let [warning] = &*warnings(&bad) else { panic!("one: {bad:?}") };
    assert_eq!(warning["fieldRef"].as_str(), Some("spec.validations[0].expression"));
    assert!(warning["warning"].as_str().unwrap().starts_with("apps/v1, Kind=Deployment: ERROR"));
    world.stop().await;
}

#[tokio::test]
async fn certificates_are_published_as_a_bundle() {
    let authority = pki::CertificateAuthority::create("root", SystemClock.now()).expect("a key");
    let world = World::start_with(Config {
        controllers: vec!["kube-apiserver-serving-clustertrustbundle-publisher-controller".into()],
        root_ca: authority.certificate_pem(),
        ..Config::default()
    })
    .await;
    let old = pki::CertificateAuthority::create("old", SystemClock.now())
        .expect("a key")
        .certificate_pem();
    let text = format!(
        r#"{{"metadata":{{"name":"kubernetes.io:kube-apiserver-serving:old"}},
        "spec":{{"signerName":"kubernetes.io/kube-apiserver-serving","trustBundle":{old:?}}}}}"#
    );
    world.make::<ClusterTrustBundle>(&text).await;
    let only = |all: &[ClusterTrustBundle]| {
        let [one] = all else { return false };
        one.spec().trust_bundle() == authority.certificate_pem()
    };
    world.until_all::<ClusterTrustBundle>("our own, and no older one", only).await;
    world.stop().await;
}

/// A clock that is more than a year ahead.
#[derive(Debug)]
struct Later;

impl Clock for Later {
    fn now(&self) -> i64 {
        SystemClock.now() + 2 * 365 * 24 * 3600
    }
}

#[tokio::test]
async fn a_token_that_nobody_uses_is_marked_and_goes() {
    let world = World::start_with(Config {
        controllers: vec!["legacy-service-account-token-cleaner".into()],
        clock: Arc::new(Later),
        ..Config::default()
    })
    .await;
    let secret = |name: &str, labels: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{{labels}}},"annotations":
            {{"kubernetes.io/service-account.name":"own"}}}},
            "type":"kubernetes.io/service-account-token"}}"#
        )
    };
    let account = r#"{"metadata":{"name":"own"},"secrets":[{"name":"unused"},{"name":"marked"}]}"#;
    world.make::<ServiceAccount>(account).await;
    let marked = r#""kubernetes.io/legacy-token-invalid-since":"2001-01-01""#;
    world.make::<Secret>(&secret("by-hand", "")).await;
    world.make::<Secret>(&secret("unused", "")).await;
    world.make::<Secret>(&secret("marked", marked)).await;
    let label = "kubernetes.io/legacy-token-invalid-since";
    let has = |secret: &Secret| secret.metadata().labels().get(label).is_some();
    world.until_one::<Secret>("unused", "a mark", has).await;
    let gone = |all: &[Secret]| !all.iter().any(|secret| secret.metadata().name() == "marked");
    let left = world.until_all::<Secret>("one less", gone).await;
    let by_hand =
        left.iter().find(|secret| secret.metadata().name() == "by-hand").expect("it stays");
    assert!(!has(by_hand), "what somebody made by hand is his");
    world.stop().await;
}

#[tokio::test]
async fn a_claim_that_grows_is_left_to_others() {
    let world = World::start(&["persistentvolume-expander"]).await;
    let volume = r#"{"metadata":{"name":"v"},"spec":{"capacity":{"storage":"1Gi"},
        "accessModes":["ReadWriteOnce"],"csi":{"driver":"d.example.com","volumeHandle":"h"}}}"#;
    world.make::<PersistentVolume>(volume).await;
    let claim = r#"{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"volumeName":"v",
        "storageClassName":"","resources":{"requests":{"storage":"2Gi"}}}}"#;
    world.make::<PersistentVolumeClaim>(claim).await;
    let status = tree(r#"{"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}"#);
    let key = NamespacedName::new("default", "c");
    let claims = world.api::<PersistentVolumeClaim>();
    claims.patch_status(&key, &Patch::Merge(status)).await.expect("a status");
    let event = world.until_event("c", "ExternalExpanding").await;
    assert!(event.message().starts_with("Ignoring the PVC:"), "{}", event.message());
    world.stop().await;
}
