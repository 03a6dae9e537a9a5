//! The debug tables of API Priority and Fairness, and the Dangling condition of FlowSchemas.

use std::time::Duration;

use api::flowcontrol::FlowSchema;
use bytes::Bytes;
use client::Client;
use http::{HeaderMap, Method};
use object::{NamespacedName, Value};
use testkit::TestCluster;

use crate::{of, tree};

async fn text(client: &Client, path: &str) -> String {
    let answer = client.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await.unwrap();
    assert_eq!(answer.status.as_u16(), 200, "{path}");
    String::from_utf8(answer.bytes().await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn levels_are_told_of() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let ann = cluster.client_as("ann", &["system:authenticated"]);
    ann.request(Method::GET, "/version", HeaderMap::new(), Bytes::new()).await.unwrap();
    let levels = text(&admin, "/debug/api_priority_and_fairness/dump_priority_levels").await;
    let heads = "PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests,";
    assert!(levels.starts_with(heads), "{levels}");
    let dispatched = levels.lines().find(|line| line.starts_with("global-default,"));
    let dispatched = dispatched.unwrap().split(',').nth(6).unwrap().trim().to_owned();
    assert_eq!(dispatched, "1", "{levels}");
    let queues = text(&admin, "/debug/api_priority_and_fairness/dump_queues").await;
    assert!(queues.lines().any(|line| line.starts_with("workload-low,")), "{queues}");
    let waiting = text(&admin, "/debug/api_priority_and_fairness/dump_requests").await;
    assert_eq!(waiting.lines().count(), 1, "nobody waits: {waiting}");
    let metrics = text(&admin, "/metrics").await;
    for line in [
        "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"catch-all\"} 13",
        "apiserver_flowcontrol_dispatched_requests_total{flow_schema=\"global-default\",priority_level=\"global-default\"} 1",
        "apiserver_flowcontrol_current_inqueue_requests{flow_schema=\"global-default\",priority_level=\"global-default\"} 0",
    ] {
        assert!(metrics.lines().any(|own| own == line), "{line}");
    }
    let slis = text(&admin, "/metrics/slis").await;
    assert!(slis.contains("# TYPE kubernetes_healthcheck gauge"), "{slis}");
    assert!(text(&admin, "/statusz").await.contains("apiserver statusz"));
}

/// The first condition of a FlowSchema.
async fn dangling(client: &Client, name: &str) -> Value {
    let schema = of::<FlowSchema>(client).get(&NamespacedName::new("", name)).await.unwrap();
    schema.get("status").get("conditions").items().first().cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_schema_says_whether_its_level_is_there() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let schema =
        r#"{"metadata":{"name":"own"},"spec":{"priorityLevelConfiguration":{"name":"nothing"}}}"#;
    of::<FlowSchema>(&admin).create(tree(schema)).await.unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(90);
    for (name, status, reason) in [("own", "True", "NotFound"), ("exempt", "False", "Found")] {
        while dangling(&admin, name).await.get("status").as_str() != Some(status) {
            assert!(std::time::Instant::now() < until, "{name}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(dangling(&admin, name).await["reason"].as_str(), Some(reason));
    }
}
