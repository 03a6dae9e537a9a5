//! Static admission policies and webhooks from files: enforced from the start, and not changeable
//! through the API.

use std::{fs, path::Path, sync::Arc, time::Duration};

use api::{
    admissionregistration::{ValidatingAdmissionPolicy, ValidatingWebhookConfiguration},
    core::ConfigMap,
};
use apiserver::{Config, Flags, ListenerSource, ServerEnvironment, StorageBackend, start_with};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use object::SystemClock;
use tempfile::TempDir;
use testkit::TestCluster;

use crate::{
    backend::Backend,
    code, config_map,
    flags::{get, with},
    message, of, tree,
};

const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small.static.k8s.io}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [configmaps]}
    - {apiGroups: [admissionregistration.k8s.io], apiVersions: ["*"], operations: [CREATE], resources: ["*"]}
  validations: [{expression: "object.metadata.name != 'bad'", message: not this}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small.static.k8s.io}
spec: {policyName: small.static.k8s.io, validationActions: [Deny]}
"#;

/// A configuration file that gives a plugin a directory of manifests.
fn configuration(folder: &TempDir, plugin: &str, manifests: &Path) -> std::path::PathBuf {
    let kind = match plugin.ends_with("Webhook") {
        true => "WebhookAdmissionConfiguration".to_owned(),
        false => format!("{plugin}Configuration"),
    };
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n\
         - name: {plugin}\n  configuration:\n    apiVersion: apiserver.config.k8s.io/v1\n    \
         kind: {kind}\n    staticManifestsDir: {}\n",
        manifests.display()
    );
    let path = folder.path().join("admission.yaml");
    fs::write(&path, text).unwrap();
    path
}

async fn cluster(folder: &TempDir, plugin: &str, manifest: &str) -> TestCluster {
    let manifests = folder.path().join("manifests");
    fs::create_dir_all(&manifests).unwrap();
    fs::write(manifests.join("one.yaml"), manifest).unwrap();
    let path = configuration(folder, plugin, &manifests);
    with(|flags| flags.admission_control_config_file = Some(path)).await
}

/// The error with which the server fails to start.
async fn fails(plugin: &str, manifest: &str) -> String {
    let folder = TempDir::new().unwrap();
    let manifests = folder.path().join("manifests");
    fs::create_dir_all(&manifests).unwrap();
    fs::write(manifests.join("one.yaml"), manifest).unwrap();
    let mut flags = Flags::new(&folder.path().join("data"));
    flags.admission_control_config_file = Some(configuration(&folder, plugin, &manifests));
    let (storage, clock) = (StorageBackend::Memory, Arc::new(SystemClock));
    let ground = ServerEnvironment { storage, entry: ListenerSource::Pipes, clock };
    let said = match Config::new(flags) {
        Ok(config) => start_with(config, ground).await.map(drop).unwrap_err(),
        Err(error) => error,
    };
    format!("{said:#}").replace(&manifests.display().to_string(), "DIR")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_of_a_file_holds_and_is_followed() {
    let folder = TempDir::new().unwrap();
    let cluster = cluster(&folder, "ValidatingAdmissionPolicy", POLICY).await;
    let admin = cluster.admin_client();
    let maps = of::<ConfigMap>(&admin);
    assert!(maps.create(config_map("good")).await.is_ok());
    assert_eq!(
        message(maps.create(config_map("bad")).await),
        "configmaps \"bad\" is forbidden: ValidatingAdmissionPolicy 'small.static.k8s.io' with \
         binding 'small.static.k8s.io' denied request: not this"
    );
    let own = tree(r#"{"metadata":{"name":"bad"},"webhooks":[]}"#);
    let configurations = of::<ValidatingWebhookConfiguration>(&admin);
    assert_eq!(code(configurations.create(own).await), 422, "files may judge policies and hooks");
    assert!(
        of::<ValidatingAdmissionPolicy>(&admin)
            .list(&client::Selectors::default(), &client::ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let reserved = tree(r#"{"metadata":{"name":"x.static.k8s.io"},"webhooks":[]}"#);
    assert_eq!(
        message(configurations.create(reserved).await),
        "ValidatingWebhookConfiguration.admissionregistration.k8s.io \"x.static.k8s.io\" is \
         invalid: metadata.name: Invalid value: \"x.static.k8s.io\": names ending with \
         \".static.k8s.io\" are reserved for static manifest-based configurations and cannot be \
         managed via the API"
    );
    let file = folder.path().join("manifests/one.yaml");
    fs::write(&file, "kind: Nonsense").unwrap();
    let failed = r#"status="failure""#;
    let metrics = async || {
        let answer = admin
            .request(http::Method::GET, "/metrics", http::HeaderMap::new(), bytes::Bytes::new())
            .await;
        String::from_utf8(answer.unwrap().bytes().await.unwrap().to_vec()).unwrap()
    };
    while !metrics().await.contains(failed) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(code(maps.create(config_map("bad")).await), 422, "what held goes on");
    fs::write(&file, POLICY.replace("'bad'", "'other'")).unwrap();
    while maps.create(config_map("bad")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(code(maps.create(config_map("other")).await), 422);
    let told = metrics().await;
    let info = "apiserver_manifest_admission_config_controller_last_config_info{apiserver_id_hash=\"sha256:";
    assert!(told.contains(info), "{told}");
    assert_eq!(get(&admin, "/readyz").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mutating_policy_of_a_file_changes_objects() {
    let folder = TempDir::new().unwrap();
    let text = POLICY.replace("Validating", "Mutating").replace(
        "  validations: [{expression: \"object.metadata.name != 'bad'\", message: not this}]",
        "  reinvocationPolicy: Never\n  mutations: [{patchType: JSONPatch, jsonPatch: {expression: \
         \"[JSONPatch{op: 'add', path: '/data/by', value: 'file'}]\"}}]",
    );
    let text = text.replace(", validationActions: [Deny]", "");
    let text = text.replace(
        "    - {apiGroups: [admissionregistration.k8s.io], apiVersions: [\"*\"], operations: [CREATE], resources: [\"*\"]}\n",
        "",
    );
    let cluster = cluster(&folder, "MutatingAdmissionPolicy", &text).await;
    let made = of::<ConfigMap>(&cluster.admin_client()).create(config_map("a")).await.unwrap();
    assert_eq!(made["data"]["by"].as_str(), Some("file"));
}

fn hooks(kind: &str, client: &str) -> String {
    format!(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: admissionregistration.k8s.io/v1\n  \
         kind: {kind}\n  metadata: {{name: h.static.k8s.io}}\n  webhooks:\n  - name: h.example.com\n    \
         sideEffects: None\n    namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: default}}}}\n    admissionReviewVersions: [v1]\n    clientConfig: {client}\n    rules:\n    \
         - {{operations: [CREATE], apiGroups: [\"\"], apiVersions: [v1], resources: [configmaps]}}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_of_files_are_asked() {
    let backend = Backend::start(|path, request| {
        let uid = request["request"]["uid"].as_str().unwrap_or_default();
        let patch = STANDARD.encode(r#"[{"op":"add","path":"/data/by","value":"hook"}]"#);
        let said = match path.starts_with("/mutate") {
            true => format!(r#""allowed":true,"patchType":"JSONPatch","patch":"{patch}""#),
            false => r#""allowed":false,"status":{"message":"not here"}"#.to_owned(),
        };
        tree(&format!(
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{{"uid":"{uid}",{said}}}}}"#
        ))
    })
    .await;
    let at = |path: &str| {
        let bundle = STANDARD.encode(&backend.authority);
        format!("{{url: \"{}\", caBundle: \"{bundle}\"}}", backend.url(path))
    };
    let folder = TempDir::new().unwrap();
    let manifest = hooks("MutatingWebhookConfiguration", &at("/mutate"));
    let mutating = cluster(&folder, "MutatingAdmissionWebhook", &manifest).await;
    let made = of::<ConfigMap>(&mutating.admin_client()).create(config_map("a")).await.unwrap();
    assert_eq!(made["data"]["by"].as_str(), Some("hook"));
    // This webhook rejects the server's own writes, too; the server starts all the same.
    let folder = TempDir::new().unwrap();
    let manifest = hooks("ValidatingWebhookConfiguration", &at("/check"));
    let manifest = manifest.replace(
        "    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}\n",
        "",
    );
    let validating = cluster(&folder, "ValidatingAdmissionWebhook", &manifest).await;
    assert_eq!(
        message(of::<ConfigMap>(&validating.admin_client()).create(config_map("a")).await),
        "admission webhook \"h.example.com\" denied the request: not here"
    );
}

#[tokio::test]
async fn what_is_wrong_in_a_file_is_told_at_the_start() {
    const POLICIES: &str = "ValidatingAdmissionPolicy";
    const HOOKS: &str = "ValidatingAdmissionWebhook";
    let binding = POLICY.split("---").nth(1).unwrap();
    let service = hooks("ValidatingWebhookConfiguration", "{service: {name: s, namespace: d}}");
    for (plugin, manifest, why) in [
        (
            POLICIES,
            POLICY.replace("small.static.k8s.io", "small"),
            "\"small\" in file \"DIR/one.yaml\" must have a name ending with \".static.k8s.io\"",
        ),
        (
            POLICIES,
            format!("{POLICY}---{POLICY}"),
            "duplicate name \"small.static.k8s.io\" found in file \"DIR/one.yaml\" (previously seen in \"DIR/one.yaml\")",
        ),
        (
            POLICIES,
            POLICY.replace("spec:\n", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}\n"),
            "ValidatingAdmissionPolicy \"small.static.k8s.io\": spec.paramKind is not supported for static manifests",
        ),
        (
            POLICIES,
            POLICY.replace("object.metadata.name", "nothing"),
            "error loading DIR/one.yaml: ValidatingAdmissionPolicy \"small.static.k8s.io\": spec.validations[0].expression: Invalid value",
        ),
        (
            POLICIES,
            POLICY.replace("spec:\n", "spec:\n  odd: 1\n"),
            "strict decoding error: unknown field \"spec.odd\"",
        ),
        (
            POLICIES,
            binding.to_owned(),
            "binding \"small.static.k8s.io\" references policy \"small.static.k8s.io\" which does not exist in the manifest directory",
        ),
        (HOOKS, POLICY.to_owned(), "unsupported resource type *v1.ValidatingAdmissionPolicy"),
        (
            HOOKS,
            "apiVersion: v1\nkind: Pod\n".to_owned(),
            "no kind \"Pod\" is registered for version \"v1\"",
        ),
        (
            HOOKS,
            service,
            "webhook \"h.example.com\" in \"h.static.k8s.io\" (file \"DIR/one.yaml\"): clientConfig.service is not supported for static manifests; use clientConfig.url instead",
        ),
    ] {
        let said = fails(plugin, &manifest).await;
        assert!(said.contains(why), "{said}\n{why}");
    }
}

#[test]
fn what_is_wrong_with_the_folder_is_told() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let said = |manifests: &Path, gate: &str| {
        let mut flags = Flags::new(folder.path());
        flags.admission_control_config_file =
            Some(configuration(&folder, "MutatingAdmissionPolicy", manifests));
        flags.feature_gates = vec![gate.to_owned()];
        let said = Config::new(flags).map(drop).unwrap_err();
        format!("{said:#}")
    };
    let begin = "couldn't init admission plugin \"MutatingAdmissionPolicy\": staticManifestsDir: ";
    for (manifests, gate, why) in [
        (Path::new("relative"), "", "must be an absolute file path"),
        (Path::new("/no/such"), "", "unable to read: "),
        (&file, "", "must be a directory"),
        (
            folder.path(),
            "ManifestBasedAdmissionControlConfig=false",
            "Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled",
        ),
    ] {
        let said = said(manifests, gate);
        assert!(said.starts_with(begin) && said.contains(why), "{said}");
    }
}
