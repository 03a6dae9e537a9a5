//! Matching of requests to policies: a table of match constraints. Each line has a request that
//! matches and one that does not.

use api::{
    admissionregistration::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    autoscaling::HorizontalPodAutoscaler,
    core::{ConfigMap, Namespace},
};
use client::Client;
use object::Value;
use testkit::TestCluster;

use crate::{config_map, labelled, of, tree};

const MAPS: &str =
    r#"{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}"#;

/// A policy that rejects everything that it matches; bound everywhere, or as `binding` says.
async fn refuse(admin: &Client, constraints: &str, more: &str, binding: &str) {
    let policy = format!(
        r#"{{"metadata":{{"name":"p"}},"spec":{{"matchConstraints":{{{constraints}}}{more},
        "validations":[{{"expression":"false","message":"refused"}}]}}}}"#
    );
    of::<ValidatingAdmissionPolicy>(admin).create(tree(&policy)).await.unwrap();
    let binding = format!(
        r#"{{"metadata":{{"name":"b"}},"spec":{{"policyName":"p","validationActions":["Deny"]{binding}}}}}"#
    );
    of::<ValidatingAdmissionPolicyBinding>(admin).create(tree(&binding)).await.unwrap();
}

/// Whether this ConfigMap may be created in a namespace.
async fn may(admin: &Client, namespace: &str, map: Value) -> bool {
    match of::<ConfigMap>(admin).namespaced(namespace).create(map).await {
        Ok(_) => true,
        Err(error) => {
            assert!(error.to_string().ends_with("denied request: refused"), "{error}");
            false
        }
    }
}

#[tokio::test]
async fn what_a_policy_is_about() {
    let rules = format!(r#""resourceRules":[{MAPS}]"#);
    let named = MAPS.replace('{', r#"{"resourceNames":["in"],"#);
    let own_names = format!(r#","matchResources":{{"resourceRules":[{named}]}}"#);
    let table: [(&str, String, &str, &str); 9] = [
        (
            "conditions",
            rules.clone(),
            r#","matchConditions":[{"name":"n","expression":"object.metadata.name == 'in'"}]"#,
            "",
        ),
        (
            "all conditions",
            rules.clone(),
            r#","matchConditions":[{"name":"a","expression":"true"},{"name":"n","expression":"object.metadata.name == 'in'"}]"#,
            "",
        ),
        ("names", format!(r#""resourceRules":[{named}]"#), "", ""),
        (
            "excluded names",
            format!(r#"{rules},"excludeResourceRules":[{}]"#, named.replace("\"in\"", "\"out\"")),
            "",
            "",
        ),
        ("labels", format!(r#"{rules},"objectSelector":{{"matchLabels":{{"app":"in"}}}}"#), "", ""),
        (
            "namespace",
            format!(r#"{rules},"namespaceSelector":{{"matchLabels":{{"app":"in"}}}}"#),
            "",
            "",
        ),
        ("names of a binding", rules.clone(), "", &own_names),
        (
            "labels of a binding",
            rules.clone(),
            "",
            r#","matchResources":{"objectSelector":{"matchLabels":{"app":"in"}}}"#,
        ),
        (
            "namespace of a binding",
            rules,
            "",
            r#","matchResources":{"namespaceSelector":{"matchLabels":{"app":"in"}}}"#,
        ),
    ];
    for (what, constraints, more, binding) in table {
        let cluster = TestCluster::start().await;
        let admin = cluster.admin_client();
        for space in ["in", "out"] {
            of::<Namespace>(&admin).create(labelled(space, space)).await.unwrap();
        }
        refuse(&admin, &constraints, more, binding).await;
        for (own, allowed) in [("in", false), ("out", true)] {
            assert_eq!(may(&admin, own, labelled(own, own)).await, allowed, "{what}: {own}");
        }
    }
}

#[tokio::test]
async fn other_operations_groups_versions_and_resources() {
    let table = [
        ("\"CREATE\"", "\"UPDATE\""),
        ("\"apiGroups\":[\"\"]", "\"apiGroups\":[\"apps\"]"),
        ("\"v1\"", "\"v2\""),
        ("\"configmaps\"", "\"secrets\""),
        ("{", "{\"scope\":\"Cluster\","),
        ("\"configmaps\"", "\"configmaps/status\""),
    ];
    for (own, other) in table {
        let cluster = TestCluster::start().await;
        let admin = cluster.admin_client();
        refuse(&admin, &format!(r#""resourceRules":[{}]"#, MAPS.replacen(own, other, 1)), "", "")
            .await;
        assert!(may(&admin, "default", config_map("a")).await, "{other}");
    }
}

#[tokio::test]
async fn a_condition_that_fails_counts_as_the_policy_says() {
    for (policy, allowed) in [("Fail", false), ("Ignore", true)] {
        let cluster = TestCluster::start().await;
        let admin = cluster.admin_client();
        let more = format!(
            r#","failurePolicy":"{policy}","matchConditions":[{{"name":"n","expression":"object.data.missing == 'x'"}}]"#
        );
        refuse(&admin, &format!(r#""resourceRules":[{MAPS}]"#), &more, "").await;
        let made = of::<ConfigMap>(&admin).create(config_map("a")).await;
        assert_eq!(made.is_ok(), allowed, "{policy}: {made:?}");
        // One condition that is false is enough, whatever another fails at.
        let cluster = TestCluster::start().await;
        let admin = cluster.admin_client();
        let more = more.replace("}]", r#"},{"name":"no","expression":"false"}]"#);
        refuse(&admin, &format!(r#""resourceRules":[{MAPS}]"#), &more, "").await;
        assert!(of::<ConfigMap>(&admin).create(config_map("a")).await.is_ok(), "{policy}");
    }
}

#[tokio::test]
async fn a_policy_sees_the_version_that_it_names() {
    let scaler = r#"{"metadata":{"name":"s"},"spec":{"maxReplicas":3,
        "scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}"#;
    let rule = r#""resourceRules":[{"apiGroups":["autoscaling"],"apiVersions":["v1"],
        "operations":["CREATE"],"resources":["horizontalpodautoscalers"]}]"#;
    for (policy, allowed) in [("Exact", true), ("Equivalent", false)] {
        let cluster = TestCluster::start().await;
        let admin = cluster.admin_client();
        let constraints = format!(r#"{rule},"matchPolicy":"{policy}""#);
        let more = r#","matchConditions":[{"name":"v","expression":"object.apiVersion == 'autoscaling/v1'"}]"#;
        refuse(&admin, &constraints, more, "").await;
        let made = of::<HorizontalPodAutoscaler>(&admin).create(tree(scaler)).await;
        assert_eq!(made.is_ok(), allowed, "{policy}");
    }
}
