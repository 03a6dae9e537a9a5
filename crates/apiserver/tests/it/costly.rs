//! Small requests that could cause much work: each is answered within bounds.

use std::time::{Duration, Instant};

use api::{
    core::{Pod, ResourceQuota},
    rbac::Role,
};
use object::Value;
use testkit::TestCluster;

use crate::{code, default_account, hostile_names::allow, message, of, tree};

/// Only reached if the test fails.
const PATIENCE: Duration = Duration::from_mins(1);

fn texts(count: usize) -> Value {
    (0..count).map(|at| Value::from(format!("x{at}"))).collect()
}

#[tokio::test]
async fn a_role_that_stands_for_billions_of_rights_is_refused() {
    let cluster = TestCluster::start().await;
    let rules =
        r#"[{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],"verbs":["create"]}]"#;
    allow(&cluster.admin_client(), "adam", rules).await;
    let mut role = tree(r#"{"metadata":{"name":"r"}}"#);
    let mut rule = Value::object();
    for field in ["apiGroups", "resources", "verbs", "resourceNames"] {
        rule[field] = texts(300);
    }
    role["rules"] = [rule].into_iter().collect();
    let began = Instant::now();
    assert_eq!(code(of::<Role>(&cluster.client_as("adam", &[])).create(role.clone()).await), 403);
    assert!(began.elapsed() < PATIENCE);
    of::<Role>(&cluster.admin_client()).create(role).await.expect("an administrator may");
}

#[tokio::test]
async fn quantities_of_any_size_are_summed_up() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let quota = r#"{"metadata":{"name":"q"},"spec":{"hard":{"requests.memory":"1Gi"}},
        "status":{"hard":{"requests.memory":"1Gi"},"used":{"requests.memory":"0"}}}"#;
    let made = of::<ResourceQuota>(&admin).create(tree(quota)).await.unwrap();
    let mut status = tree(quota);
    status["metadata"] = made.get("metadata").clone();
    of::<ResourceQuota>(&admin).update_status(status).await.unwrap();
    let long = "1".repeat(4095);
    for amounts in [["1Gi", "1e2147483646"], ["1e2147483646", "1"], [&*long, "10e3"]] {
        let containers = amounts.iter().enumerate().map(|(at, amount)| {
            let mut container = Value::object();
            container["name"] = format!("c{at}").into();
            container["image"] = "i".into();
            container["resources"]["requests"]["memory"] = (*amount).into();
            container
        });
        let mut pod = tree(r#"{"metadata":{"name":"p"}}"#);
        pod["spec"]["containers"] = containers.collect();
        let began = Instant::now();
        let refused = message(of::<Pod>(&admin).create(pod).await);
        assert!(
            refused.contains("exceeded quota: q, requested: requests.memory="),
            "{refused:.200}"
        );
        assert!(began.elapsed() < PATIENCE);
    }
}
