//! What was done is told, as much of it as the policy says.

use std::{fs, sync::Arc};

use api::core::{ConfigMap, Secret};
use object::{SystemClock, Value, from_json};
use testkit::Cluster;

use crate::{config_map, of, tree};

#[tokio::test]
async fn a_policy_says_how_much_is_told() {
    let folder = tempfile::TempDir::new().unwrap();
    let (policy, log) = (folder.path().join("policy"), folder.path().join("audit.log"));
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
                - level: Metadata\n  resources:\n  - group: \"\"\n    resources: [secrets]\n\
                - level: RequestResponse\n  resources:\n  - group: \"\"\n    resources: [configmaps]\n";
    fs::write(&policy, text).unwrap();
    let cluster = Cluster::start_flags(Arc::new(SystemClock), |flags| {
        flags.audit_policy_file = Some(policy);
        flags.audit_log_path = Some(log.clone());
    })
    .await;
    let admin = cluster.admin();
    of::<ConfigMap>(&admin).create(config_map("a")).await.unwrap();
    let secret = tree(r#"{"metadata":{"name":"s"},"stringData":{"k":"hidden"}}"#);
    of::<Secret>(&admin).create(secret).await.unwrap();
    let refused = cluster.client("bob", &[]);
    assert!(of::<Secret>(&refused).create(tree(r#"{"metadata":{"name":"t"}}"#)).await.is_err());
    let text = fs::read_to_string(&log).unwrap();
    assert!(!text.contains("hidden"), "secrets are not told");
    let events: Vec<Value> = text.lines().map(|line| from_json(line.as_bytes()).unwrap()).collect();
    let of = |resource: &str| -> Vec<&Value> {
        let is = |event: &&Value| event.get("objectRef").get("resource").as_str() == Some(resource);
        events.iter().filter(is).collect()
    };
    let [made] = &*of("configmaps") else { panic!("one write, one event: {text}") };
    assert_eq!(made["user"]["username"].as_str(), Some("admin"));
    assert_eq!(made["requestObject"]["data"]["k"].as_str(), Some("v"));
    assert_eq!(made["responseStatus"]["code"].as_i64(), Some(201));
    assert!(made["responseObject"]["metadata"]["uid"].as_str().is_some());
    let [made, refused] = &*of("secrets") else { panic!("two writes, two events: {text}") };
    assert!(made.get("requestObject").is_null());
    assert_eq!(refused["responseStatus"]["code"].as_i64(), Some(403));
    let decision = refused["annotations"]["authorization.k8s.io/decision"].as_str();
    assert_eq!(decision, Some("forbid"));
}
