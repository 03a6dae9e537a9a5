//! Admission plugins that are disabled by default: one test each.

use std::{fs, sync::Arc};

use api::{
    core::{ConfigMap, Namespace, Node, Pod, Service},
    rbac::{ClusterRole, ClusterRoleBinding},
};
use apiserver::Flags;
use client::Patch;
use http::Method;
use object::{NamespacedName, SystemClock, Value};
use tempfile::TempDir;
use testkit::TestCluster;

use crate::{
    backend::Backend, code, config_map, default_account, message, of, pod, tree,
    ways_in::kubeconfig,
};

async fn with(change: impl FnOnce(&mut Flags)) -> TestCluster {
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), change).await;
    default_account(&cluster.admin_client()).await;
    cluster
}

async fn enabled(plugin: &str) -> TestCluster {
    with(|flags| flags.enable_admission_plugins = vec![plugin.to_owned()]).await
}

/// A cluster in which a plugin has this configuration.
async fn configured(folder: &TempDir, plugin: &str, configuration: &str) -> TestCluster {
    let path = folder.path().join("admission.yaml");
    let configuration = configuration.replace('\n', "\n    ");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n\
         - name: {plugin}\n  configuration:\n    {configuration}\n"
    );
    fs::write(&path, text).unwrap();
    with(|flags| {
        flags.enable_admission_plugins = vec![plugin.to_owned()];
        flags.admission_control_config_file = Some(path);
    })
    .await
}

fn tolerations(pod: &Value) -> Vec<&str> {
    let all = pod.get("spec").get("tolerations").items();
    all.iter().filter_map(|own| own.get("key").as_str()).collect()
}

#[tokio::test]
async fn always_deny() {
    let cluster = with(|_| {}).await;
    assert!(of::<ConfigMap>(&cluster.admin_client()).create(config_map("a")).await.is_ok());
    let clock = Arc::new(SystemClock);
    let cluster = TestCluster::start_with_flags(clock, |flags| {
        flags.enable_admission_plugins = vec!["AlwaysAdmit".to_owned(), "AlwaysDeny".to_owned()];
    })
    .await;
    assert_eq!(
        message(of::<ConfigMap>(&cluster.admin_client()).create(config_map("a")).await),
        "configmaps \"a\" is forbidden: admission control is denying all modifications"
    );
}

#[tokio::test]
async fn only_the_plugins_that_are_named() {
    let clock = Arc::new(SystemClock);
    let cluster = TestCluster::start_with_flags(clock, |flags| {
        flags.admission_control = vec!["DenyServiceExternalIPs".to_owned()];
    })
    .await;
    // Neither the namespace nor the service account is checked.
    assert!(of::<Pod>(&cluster.admin_client()).create(pod("a", "")).await.is_ok());
    let refused = |names: &[&str], more: &[&str]| {
        let folder = TempDir::new().unwrap();
        let mut flags = Flags::new(folder.path());
        flags.admission_control = names.iter().map(ToString::to_string).collect();
        flags.enable_admission_plugins = more.iter().map(ToString::to_string).collect();
        apiserver::Config::new(flags).map(drop).unwrap_err().to_string()
    };
    assert_eq!(refused(&["Foo"], &[]), "admission-control plugin \"Foo\" is unknown");
    assert!(refused(&["AlwaysDeny"], &["AlwaysDeny"]).contains("mutually exclusive"));
}

#[tokio::test]
async fn deny_service_external_ips() {
    let cluster = enabled("DenyServiceExternalIPs").await;
    let services = of::<Service>(&cluster.admin_client());
    let service = r#"{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}"#;
    services.create(tree(service)).await.unwrap();
    let outside = Patch::Merge(tree(r#"{"spec":{"externalIPs":["192.0.2.1"]}}"#));
    assert_eq!(
        message(services.patch(&NamespacedName::new("default", "s"), &outside).await),
        "services \"s\" is forbidden: Use of external IPs is denied by admission control"
    );
}

#[tokio::test]
async fn extended_resource_toleration() {
    let cluster = enabled("ExtendedResourceToleration").await;
    let mut asked = pod("a", "");
    let container = r#"[{"name":"c","image":"i","resources":{"limits":{"example.com/gpu":"1"}}}]"#;
    asked["spec"]["containers"] = tree(container);
    let made = of::<Pod>(&cluster.admin_client()).create(asked).await.unwrap();
    assert!(tolerations(&made).contains(&"example.com/gpu"), "{made:?}");
}

#[tokio::test]
async fn limit_pod_hard_anti_affinity_topology() {
    let cluster = enabled("LimitPodHardAntiAffinityTopology").await;
    let away = |key: &str| {
        let mut asked = pod("a", "");
        asked["spec"]["affinity"] = tree(&format!(
            r#"{{"podAntiAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[
            {{"topologyKey":"{key}","labelSelector":{{"matchLabels":{{"a":"b"}}}}}}]}}}}"#
        ));
        asked
    };
    let pods = of::<Pod>(&cluster.admin_client());
    assert!(pods.create(away("kubernetes.io/hostname")).await.is_ok());
    let said = message(pods.create(away("topology.kubernetes.io/zone")).await);
    assert!(said.contains("has TopologyKey topology.kubernetes.io/zone but only key"), "{said}");
}

#[tokio::test]
async fn namespace_auto_provision() {
    let cluster = enabled("NamespaceAutoProvision").await;
    let admin = cluster.admin_client();
    let maps = of::<ConfigMap>(&admin).namespaced("fresh");
    assert!(maps.create(config_map("a")).await.is_ok());
    assert!(of::<Namespace>(&admin).get(&NamespacedName::new("", "fresh")).await.is_ok());
}

#[tokio::test]
async fn namespace_exists() {
    let cluster = with(|flags| {
        flags.enable_admission_plugins = vec!["NamespaceExists".to_owned()];
        flags.disable_admission_plugins = vec!["NamespaceLifecycle".to_owned()];
    })
    .await;
    let maps = of::<ConfigMap>(&cluster.admin_client()).namespaced("missing");
    assert_eq!(message(maps.create(config_map("a")).await), "namespaces \"missing\" not found");
}

#[tokio::test]
async fn owner_references_permission_enforcement() {
    let cluster = enabled("OwnerReferencesPermissionEnforcement").await;
    let admin = cluster.admin_client();
    let owner = of::<ConfigMap>(&admin).create(config_map("owner")).await.unwrap();
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    let role = r#"{"metadata":{"name":"maps"},"rules":[{"apiGroups":[""],"resources":["configmaps"],
        "verbs":["create","delete"]}]}"#;
    of::<ClusterRole>(&admin).create(tree(role)).await.unwrap();
    let binding = r#"{"metadata":{"name":"maps"},
        "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"maps"},
        "subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"bob"}]}"#;
    of::<ClusterRoleBinding>(&admin).create(tree(binding)).await.unwrap();
    let owned = |name: &str, blocks: bool| {
        tree(&format!(
            r#"{{"metadata":{{"name":"{name}","ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap",
            "name":"owner","uid":"{uid}","blockOwnerDeletion":{blocks}}}]}}}}"#
        ))
    };
    let maps = of::<ConfigMap>(&cluster.client_as("bob", &[]));
    assert!(maps.create(owned("a", false)).await.is_ok());
    let said = message(maps.create(owned("b", true)).await);
    assert!(said.contains("cannot set blockOwnerDeletion if an ownerReference refers"), "{said}");
    assert!(of::<ConfigMap>(&admin).create(owned("c", true)).await.is_ok());
}

#[tokio::test]
async fn pod_toleration_restriction() {
    let cluster = enabled("PodTolerationRestriction").await;
    let admin = cluster.admin_client();
    let annotations = r#"{"metadata":{"annotations":{
        "scheduler.alpha.kubernetes.io/defaultTolerations":"[{\"key\":\"mine\",\"operator\":\"Exists\"}]",
        "scheduler.alpha.kubernetes.io/tolerationsWhitelist":"[{\"key\":\"mine\",\"operator\":\"Exists\"},{\"key\":\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\"},{\"key\":\"node.kubernetes.io/unreachable\",\"operator\":\"Exists\"}]"}}}"#;
    let key = NamespacedName::new("", "default");
    of::<Namespace>(&admin).patch(&key, &Patch::Merge(tree(annotations))).await.unwrap();
    let made = of::<Pod>(&admin).create(pod("a", "")).await.unwrap();
    assert!(tolerations(&made).contains(&"mine"), "{made:?}");
    let mut other = pod("b", "");
    other["spec"]["tolerations"] = tree(r#"[{"key":"other","operator":"Exists"}]"#);
    assert_eq!(code(of::<Pod>(&admin).create(other).await), 500);
}

#[tokio::test]
async fn a_kubelet_brings_its_static_pods_and_nothing_else() {
    let cluster = with(|_| {}).await;
    let kubelet = cluster.client_as("system:node:n1", &["system:nodes"]);
    let node = of::<Node>(&kubelet).create(tree(r#"{"metadata":{"name":"n1"}}"#)).await.unwrap();
    let uid = node["metadata"]["uid"].as_str().unwrap();
    let mirror = |uid: &str, spec: &str| {
        tree(&format!(
            r#"{{"metadata":{{"name":"m","annotations":{{"kubernetes.io/config.mirror":"x"}},
            "ownerReferences":[{{"apiVersion":"v1","kind":"Node","name":"n1","uid":"{uid}",
            "controller":true}}]}},"spec":{{"nodeName":"n1","containers":[{{"name":"c","image":"i"}}]
            {spec}}}}}"#
        ))
    };
    let pods = of::<Pod>(&kubelet);
    for (pod, why) in [
        (mirror("other", ""), format!("node n1 UID mismatch: expected other got {uid}")),
        (
            mirror(uid, r#","volumes":[{"name":"v","configMap":{"name":"a"}}]"#),
            r#"node "n1" can not create pods that reference configmaps"#.to_owned(),
        ),
        (
            mirror(uid, r#","imagePullSecrets":[{"name":"a"}]"#),
            "a mirror pod may not reference secrets".to_owned(),
        ),
    ] {
        let said = message(pods.create(pod).await);
        assert_eq!(said, format!("pods \"m\" is forbidden: {why}"));
    }
    assert!(pods.create(mirror(uid, "")).await.is_ok());
    let label = Patch::Merge(tree(r#"{"metadata":{"labels":{"a":"b"}}}"#));
    assert_eq!(
        message(pods.patch_status(&NamespacedName::new("default", "m"), &label).await),
        "pods \"m\" is forbidden: node \"n1\" cannot update labels through pod status"
    );
}

/// Resources that a plugin sets count for the pod's QoS class.
#[tokio::test]
async fn defaults_of_a_namespace_make_a_pod_burstable() {
    let cluster = with(|_| {}).await;
    let admin = cluster.admin_client();
    let range = r#"{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","default":{"cpu":"1"},
        "defaultRequest":{"cpu":"500m"}}]}}"#;
    of::<api::core::LimitRange>(&admin).create(tree(range)).await.unwrap();
    let made = of::<Pod>(&admin).create(pod("a", "")).await.unwrap();
    assert_eq!(made["status"]["qosClass"].as_str(), Some("Burstable"));
}

#[tokio::test]
async fn pod_security_defaults_and_exemptions() {
    let folder = TempDir::new().unwrap();
    let text = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n\
                defaults: {enforce: baseline, enforce-version: latest}\n\
                exemptions: {usernames: [root], namespaces: [kube-system]}";
    let cluster = configured(&folder, "PodSecurity", text).await;
    let privileged = || {
        let mut asked = pod("a", "");
        asked["spec"]["hostNetwork"] = true.into();
        asked
    };
    let admin = cluster.admin_client();
    let said = message(of::<Pod>(&admin).create(privileged()).await);
    assert!(said.contains("violates PodSecurity \"baseline:latest\": host namespaces"), "{said}");
    let root = cluster.client_as("root", &["system:masters"]);
    assert!(of::<Pod>(&root).create(privileged()).await.is_ok(), "a user is exempt");
    let account = tree(r#"{"metadata":{"name":"default"}}"#);
    let accounts = of::<api::core::ServiceAccount>(&admin).namespaced("kube-system");
    accounts.create(account).await.unwrap();
    let system = of::<Pod>(&admin).namespaced("kube-system");
    assert!(system.create(privileged()).await.is_ok(), "a namespace is exempt");
    let label = r#"{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}"#;
    let free = Patch::Merge(tree(label));
    of::<Namespace>(&admin).patch(&NamespacedName::new("", "default"), &free).await.unwrap();
    let mut other = privileged();
    other["metadata"]["name"] = "b".into();
    assert!(of::<Pod>(&admin).create(other).await.is_ok(), "labels come before defaults");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn image_policy_webhook() {
    let backend = Backend::start(|_, mut review| {
        let images = review["spec"]["containers"].items().to_vec();
        let bad = images.iter().any(|own| own.get("image").as_str() == Some("bad"));
        let broken = review["spec"]["annotations"].get("a.image-policy.k8s.io/break").as_str();
        if broken.is_none() || review["apiVersion"].as_str() != Some("imagepolicy.k8s.io/v1alpha1")
        {
            review["status"]["allowed"] = (!bad).into();
            review["status"]["reason"] = if bad { "not signed".into() } else { Value::Null };
        }
        review
    })
    .await;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("images.kubeconfig");
    fs::write(&path, kubeconfig(&backend)).unwrap();
    let config = |allow: bool| {
        format!(
            "imagePolicy: {{kubeConfigFile: {}, allowTTL: 30, retryBackoff: 1, defaultAllow: {allow}}}",
            path.display()
        )
    };
    let cluster = configured(&folder, "ImagePolicyWebhook", &config(false)).await;
    let pods = of::<Pod>(&cluster.admin_client());
    let of_image = |image: &str| {
        let mut asked = pod(image, "");
        asked["spec"]["containers"] = tree(&format!(r#"[{{"name":"c","image":"{image}"}}]"#));
        asked
    };
    assert!(pods.create(of_image("good")).await.is_ok());
    assert_eq!(
        message(pods.create(of_image("bad")).await),
        "pods \"bad\" is forbidden: image policy webhook backend denied one or more images: not signed"
    );
    let mut told = of_image("told");
    told["metadata"]["annotations"] = tree(r#"{"a.image-policy.k8s.io/break":"glass"}"#);
    assert_eq!(
        message(pods.create(told).await),
        "pods \"told\" is forbidden: one or more images rejected by webhook backend"
    );
    drop(backend);
    assert_eq!(code(pods.create(of_image("late")).await), 403, "nobody answers");
    let cluster = configured(&folder, "ImagePolicyWebhook", &config(true)).await;
    assert!(of::<Pod>(&cluster.admin_client()).create(of_image("late")).await.is_ok());
}

#[tokio::test]
async fn a_pod_grows_as_far_as_its_node() {
    let cluster = with(|_| {}).await;
    let admin = cluster.admin_client();
    let (pods, nodes) = (of::<Pod>(&admin), of::<Node>(&admin));
    let made = tree(
        r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i","resources":{
        "limits":{"cpu":"200m","memory":"20Mi"},"requests":{"cpu":"100m","memory":"10Mi"}}}]}}"#,
    );
    pods.create(made).await.unwrap();
    let resize = async || {
        let change = r#"{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"180m","memory":"15Mi"}}}]}}"#;
        let path = "/api/v1/namespaces/default/pods/p/resize";
        let strategic = "application/strategic-merge-patch+json";
        admin.call(Method::PATCH, path, strategic, change.into()).await
    };
    let head = "pods \"p\" is forbidden: ";
    assert_eq!(message(resize().await), format!("{head}node \"n1\" not found"));
    let windows = r#"{"metadata":{"name":"n1","labels":{"kubernetes.io/os":"windows"}},
        "status":{"capacity":{"cpu":"150m","memory":"12Mi"},"allocatable":{"cpu":"150m","memory":"12Mi"}}}"#;
    nodes.create(tree(windows)).await.unwrap();
    let said = "pod resize is only supported on linux nodes, node \"n1\" is \"windows\"";
    assert_eq!(message(resize().await), format!("{head}{said}"));
    let key = NamespacedName::new("", "n1");
    let linux = tree(r#"{"metadata":{"labels":{"kubernetes.io/os":"linux"}}}"#);
    nodes.patch(&key, &Patch::Merge(linux)).await.unwrap();
    let refused = resize().await.expect_err("more than there is");
    let status = refused.status().unwrap();
    assert_eq!(
        status.message(),
        format!(
            "{head}node didn't have enough allocatable resources: cpu, requested: 180, \
             allocatable: 150; memory, requested: 15728640, allocatable: 12582912"
        )
    );
    let causes: Vec<&str> =
        status.details().unwrap().causes().iter().map(object::StatusCause::reason).collect();
    assert_eq!(causes, ["NodeCapacity"]);
    let more = tree(r#"{"status":{"allocatable":{"cpu":"1","memory":"1Gi"}}}"#);
    nodes.patch_status(&key, &Patch::Merge(more)).await.unwrap();
    let grown = resize().await.unwrap();
    assert_eq!(grown["metadata"]["generation"].as_i64(), Some(2));
}
