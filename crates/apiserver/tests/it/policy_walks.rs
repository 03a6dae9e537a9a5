//! Policies apply to every list of containers and to every way to refer to a Secret: what is
//! forbidden in one list is not permitted in another.

use std::sync::Arc;

use api::core::{Namespace, Pod, ServiceAccount};
use client::{Client, Error};
use object::{NamespacedName, SystemClock, Value};
use testkit::TestCluster;

use crate::{default_account, of, tree};

const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Creates a pod with one container in a list, with these further fields; ephemeral containers are
/// added to a running pod.
async fn run(client: &Client, pod: &str, list: &str, with: &str) -> Result<Value, Error> {
    let pods = of::<Pod>(client);
    let container = |name: &str, with: &str| {
        tree(&format!(r#"[{{"name":"{name}","image":"example.com/{name}:1",{with}}}]"#))
    };
    let mut made = tree(&format!(r#"{{"metadata":{{"name":"{pod}"}},"spec":{{}}}}"#));
    if list != "containers" {
        made["spec"]["containers"] = container("main", STRICT);
    }
    if list != "ephemeralContainers" {
        made["spec"][list] = container("one", with);
        return pods.create(made).await;
    }
    let mut made = pods.create(made).await?;
    made["spec"]["ephemeralContainers"] = container("one", with);
    pods.update_subresource(&NamespacedName::new("default", pod), "ephemeralcontainers", &made)
        .await
}

/// What the level `restricted` requires of a container.
const STRICT: &str = r#""securityContext":{"allowPrivilegeEscalation":false,"runAsNonRoot":true,
    "capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}"#;

#[tokio::test]
async fn the_secrets_of_an_account_are_all_that_its_pods_can_name() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let account = tree(
        r#"{"metadata":{"name":"default","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}},
        "secrets":[{"name":"own"}],"imagePullSecrets":[{"name":"own"}]}"#,
    );
    of::<ServiceAccount>(&admin).create(account).await.unwrap();
    let env = |secret: &str| {
        format!(
            r#""env":[{{"name":"E","valueFrom":{{"secretKeyRef":{{"name":"{secret}","key":"k"}}}}}}]"#
        )
    };
    let from = |secret: &str| format!(r#""envFrom":[{{"secretRef":{{"name":"{secret}"}}}}]"#);
    for (at, list) in LISTS.iter().enumerate() {
        for (way, with) in [env as fn(&str) -> String, from].iter().enumerate() {
            let name = |good: &str| format!("{good}-{at}-{way}");
            let allowed = run(&admin, &name("good"), list, &with("own")).await;
            assert!(allowed.is_ok(), "{list} {allowed:?}");
            let refused = run(&admin, &name("bad"), list, &with("other")).await.unwrap_err();
            let why = refused.to_string();
            assert!(why.contains("does not reference that secret"), "{list}: {why}");
        }
    }
    let secret = r#""secretRef":{"name":"other"}"#;
    for (at, volume) in [
        r#""secret":{"secretName":"other"}"#.to_owned(),
        r#""projected":{"sources":[{"secret":{"name":"own"}},{"secret":{"name":"other"}}]}"#
            .to_owned(),
        r#""csi":{"driver":"d.example","nodePublishSecretRef":{"name":"other"}}"#.to_owned(),
        r#""azureFile":{"secretName":"other","shareName":"s"}"#.to_owned(),
        format!(r#""cephfs":{{"monitors":["m"],{secret}}}"#),
        format!(r#""rbd":{{"monitors":["m"],"image":"i",{secret}}}"#),
        format!(r#""iscsi":{{"targetPortal":"p","iqn":"iqn.2020-01.a:b","lun":0,{secret}}}"#),
        format!(r#""flexVolume":{{"driver":"a/b",{secret}}}"#),
    ]
    .iter()
    .enumerate()
    {
        let with = |volume: &str| {
            tree(&format!(
                r#"{{"metadata":{{"name":"v{at}"}},"spec":{{"containers":[{{"name":"c","image":"i"}}],
                "volumes":[{{"name":"v",{volume}}}]}}}}"#
            ))
        };
        let pods = of::<Pod>(&admin);
        let refused = pods.create(with(volume)).await.unwrap_err().to_string();
        assert!(refused.contains("does not reference that secret"), "{volume}: {refused}");
        let allowed = pods.create(with(&volume.replace("other", "own"))).await;
        assert!(allowed.is_ok(), "{volume}: {allowed:?}");
    }
    let mut pod = crate::pod("pulls", "");
    pod["spec"]["imagePullSecrets"] = tree(r#"[{"name":"other"}]"#);
    let refused = of::<Pod>(&admin).create(pod).await.unwrap_err().to_string();
    assert!(refused.contains("does not reference that imagePullSecret"), "{refused}");
}

#[tokio::test]
async fn pod_security_looks_at_every_container() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let levels =
        tree(r#"{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}"#);
    let namespaces = of::<Namespace>(&admin);
    namespaces
        .patch(&NamespacedName::new("", "default"), &client::Patch::Merge(levels))
        .await
        .unwrap();
    let bad = [
        STRICT.replace("false", "true"),
        STRICT
            .replace(r#""runAsNonRoot":true"#, r#""runAsNonRoot":true,"privileged":true"#)
            .replace(r#""allowPrivilegeEscalation":false,"#, ""),
        STRICT.replace(r#"["ALL"]"#, r#"["ALL"],"add":["SYS_ADMIN"]"#),
        STRICT.replace("RuntimeDefault", "Unconfined"),
        STRICT.replace(r#""runAsNonRoot":true"#, r#""runAsNonRoot":true,"runAsUser":0"#),
        STRICT.replace(r#""runAsNonRoot":true,"#, ""),
    ];
    for (at, list) in LISTS.iter().enumerate() {
        let allowed = run(&admin, &format!("good-{at}"), list, STRICT).await;
        assert!(allowed.is_ok(), "{list} {allowed:?}");
        for (way, with) in bad.iter().enumerate() {
            let refused = run(&admin, &format!("bad-{at}-{way}"), list, with).await;
            let why = refused.expect_err(with).to_string();
            assert!(why.contains("violates PodSecurity"), "{list} {with}: {why}");
        }
    }
}

#[tokio::test]
async fn always_pull_images_changes_every_container() {
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.enable_admission_plugins = vec!["AlwaysPullImages".to_owned()];
    })
    .await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    for list in LISTS {
        let pod = list.to_lowercase();
        let with = r#""imagePullPolicy":"IfNotPresent""#;
        let made = run(&admin, &pod, list, with).await.unwrap();
        for list in LISTS {
            for container in made["spec"][list].items() {
                assert_eq!(container["imagePullPolicy"].as_str(), Some("Always"), "{list}");
            }
        }
    }
}

#[tokio::test]
async fn a_namespace_chooses_the_nodes_and_tolerations_of_its_pods() {
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.enable_admission_plugins =
            vec!["PodNodeSelector".to_owned(), "PodTolerationRestriction".to_owned()];
    })
    .await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let mut limits = tree(
        r#"{"metadata":{"annotations":{"scheduler.alpha.kubernetes.io/node-selector":"tenant=a"}}}"#,
    );
    // The tolerations that every pod gets must be among them.
    let usual = |key: &str| {
        format!(
            r#"{{"key":"{key}","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}"#
        )
    };
    let list = format!(
        r#"[{{"key":"tenant","value":"a"}},{},{}]"#,
        usual("node.kubernetes.io/not-ready"),
        usual("node.kubernetes.io/unreachable")
    );
    let name = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
    limits["metadata"]["annotations"][name] = list.into();
    let namespaces = of::<Namespace>(&admin);
    namespaces
        .patch(&NamespacedName::new("", "default"), &client::Patch::Merge(limits))
        .await
        .unwrap();
    let pods = of::<Pod>(&admin);
    let with = |name: &str, field: &str, value: &str| {
        let mut pod = crate::pod(name, "");
        pod["spec"][field] = tree(value);
        pod
    };
    let made = pods.create(crate::pod("plain", "")).await.unwrap();
    assert_eq!(made["spec"]["nodeSelector"]["tenant"].as_str(), Some("a"));
    let other = with("other", "nodeSelector", r#"{"tenant":"b"}"#);
    let refused = pods.create(other).await.unwrap_err().to_string();
    assert!(refused.contains("pod node label selector conflicts"), "{refused}");
    let tolerant = with("tolerant", "tolerations", r#"[{"key":"tenant","value":"b"}]"#);
    let refused = pods.create(tolerant).await.unwrap_err().to_string();
    assert!(refused.contains("tolerations"), "{refused}");
    let all = with("all", "tolerations", r#"[{"operator":"Exists"}]"#);
    let refused = pods.create(all).await.unwrap_err().to_string();
    assert!(refused.contains("tolerations"), "{refused}");
}
