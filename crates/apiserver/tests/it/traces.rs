//! Tracing: spans of requests are exported to a collector.

use std::{
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};

use api::{admissionregistration::ValidatingWebhookConfiguration, core::ConfigMap};
use tempfile::TempDir;

use crate::{
    backend::Backend,
    config_map,
    flags::{refused, with},
    grpc::Grpc,
    of,
    webhooks::{hook, review},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_reach_the_collector() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("collector.sock");
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = told.clone();
    let _collector = Grpc::start(&socket, move |method, spans| {
        assert_eq!(method, "Export");
        seen.lock().unwrap().extend_from_slice(spans);
        Vec::new()
    });
    let file = folder.path().join("tracing.yaml");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n\
         endpoint: unix://{}\nsamplingRatePerMillion: 1000000\n",
        socket.display()
    );
    fs::write(&file, text).unwrap();
    let backend = Backend::start(|_, request| review(&request, r#""allowed":true"#)).await;
    let cluster = with(|flags| flags.tracing_config_file = Some(file)).await;
    let admin = cluster.admin_client();
    let configuration = hook(&backend, "/", "");
    of::<ValidatingWebhookConfiguration>(&admin).create(configuration).await.unwrap();
    of::<ConfigMap>(&admin).create(config_map("a")).await.unwrap();
    let has = |text: &str| {
        let told = told.lock().unwrap();
        told.windows(text.len()).any(|window| window == text.as_bytes())
    };
    for name in [
        "POST /api/v1/namespaces/{:namespace}/configmaps",
        "Create",
        "Call validating webhook",
        "HTTP POST",
        "service.name",
        "audit-id",
    ] {
        for _ in 0..600 {
            if has(name) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(has(name), "{name}");
    }
}

#[test]
fn a_file_that_is_not_there_is_refused() {
    let said = refused(|flags| flags.tracing_config_file = Some("/no/such".into()));
    assert_eq!(said, "tracing-config-file /no/such does not exist");
}
