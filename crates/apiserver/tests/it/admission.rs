//! Admission plugins: defaulting, Pod Security, limits and quotas.

use api::core::{ConfigMap, LimitRange, Namespace, Pod, ResourceQuota};
use client::Patch;
use object::{NamespacedName, Value};
use testkit::TestCluster;

use crate::{code, config_map, default_account, message, of, pod, tree};

#[tokio::test]
async fn a_restricted_namespace_takes_no_loose_pods() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let label = r#"{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}"#;
    let spaces = of::<Namespace>(&admin);
    let loose = of::<Pod>(&admin).create(pod("before", "")).await;
    assert!(loose.is_ok());
    spaces.patch(&NamespacedName::new("", "default"), &Patch::Merge(tree(label))).await.unwrap();
    let said = message(of::<Pod>(&admin).create(pod("after", "")).await);
    assert!(
        said.starts_with("pods \"after\" is forbidden: violates PodSecurity \"restricted:latest\"")
    );
    let wrong = r#"{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"nope"}}}"#;
    let refused =
        spaces.patch(&NamespacedName::new("", "default"), &Patch::Merge(tree(wrong))).await;
    assert_eq!(code(refused), 422);
}

#[tokio::test]
async fn sizes_are_filled_and_bounded() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let range = r#"{"metadata":{"name":"r"},"spec":{"limits":[{"type":"Container",
        "default":{"cpu":"500m"},"defaultRequest":{"cpu":"100m"},"max":{"cpu":"1"}}]}}"#;
    of::<LimitRange>(&admin).create(tree(range)).await.unwrap();
    let made = of::<Pod>(&admin).create(pod("a", "")).await.unwrap();
    let cpu = |part: &str| {
        made["spec"]["containers"].items()[0].get("resources").get(part).get("cpu").clone()
    };
    assert_eq!((cpu("requests").as_str(), cpu("limits").as_str()), (Some("100m"), Some("500m")));
    let mut large = pod("b", "");
    let container = tree(r#"{"name":"c","image":"i","resources":{"limits":{"cpu":"2"}}}"#);
    large["spec"]["containers"] = [container].into_iter().collect();
    assert_eq!(
        message(of::<Pod>(&admin).create(large).await),
        "pods \"b\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"
    );
}

#[tokio::test]
async fn a_quota_counts_and_refuses() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let quotas = of::<ResourceQuota>(&admin);
    let quota = r#"{"metadata":{"name":"q"},"spec":{"hard":{"configmaps":"1"}}}"#;
    quotas.create(tree(quota)).await.unwrap();
    let counted = r#"{"status":{"hard":{"configmaps":"1"},"used":{"configmaps":"0"}}}"#;
    let key = NamespacedName::new("default", "q");
    quotas.patch_status(&key, &Patch::Merge(tree(counted))).await.unwrap();
    of::<ConfigMap>(&admin).create(config_map("a")).await.unwrap();
    let used = quotas.get(&key).await.unwrap();
    assert_eq!(used["status"]["used"]["configmaps"].as_str(), Some("1"));
    assert_eq!(
        message(of::<ConfigMap>(&admin).create(config_map("b")).await),
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: \
         configmaps=1, limited: configmaps=1"
    );
}

#[tokio::test]
async fn plugins_are_turned_on_and_off_by_name() {
    let clock = std::sync::Arc::new(object::SystemClock);
    let cluster = TestCluster::start_with_flags(clock, |flags| {
        flags.enable_admission_plugins = vec!["AlwaysPullImages".to_owned()];
        flags.disable_admission_plugins = vec!["DefaultTolerationSeconds".to_owned()];
    })
    .await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let mut asked = pod("a", "");
    let container = tree(r#"{"name":"c","image":"i:1","imagePullPolicy":"Never"}"#);
    asked["spec"]["containers"] = [container].into_iter().collect();
    let made = of::<Pod>(&admin).create(asked).await.unwrap();
    let policy = |pod: &Value| {
        pod.get("spec").get("containers").items()[0]
            .get("imagePullPolicy")
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(policy(&made).as_deref(), Some("Always"));
    assert!(made.get("spec").get("tolerations").items().is_empty());
}
