//! Admission policies: CEL expressions that reject and change writes.

use api::{
    admissionregistration::{
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding,
    },
    core::ConfigMap,
};
use client::Error;
use object::Value;
use testkit::TestCluster;

use crate::{code, config_map, of, tree};

const RULES: &str = r#""matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],
    "operations":["CREATE","UPDATE"],"resources":["configmaps"]}]}"#;

fn message(answer: Result<Value, Error>) -> String {
    answer.expect_err("must be refused").to_string()
}

#[tokio::test]
async fn a_policy_refuses_where_it_is_bound() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let maps = of::<ConfigMap>(&admin);
    let policy = format!(
        r#"{{"metadata":{{"name":"p"}},"spec":{{{RULES},
        "variables":[{{"name":"k","expression":"object.?data.?k.orValue('')"}}],
        "validations":[{{"expression":"variables.k != 'v'","messageExpression":"'not ' + variables.k"}},
            {{"expression":"authorizer.group('').resource('pods').check('get').allowed()"}}]}}}}"#
    );
    of::<ValidatingAdmissionPolicy>(&admin).create(tree(&policy)).await.unwrap();
    maps.create(config_map("before")).await.unwrap();
    let binding =
        r#"{"metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}"#;
    of::<ValidatingAdmissionPolicyBinding>(&admin).create(tree(binding)).await.unwrap();
    assert_eq!(
        message(maps.create(config_map("after")).await),
        "configmaps \"after\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied \
         request: not v"
    );
    // A resourceVersion on a new object is an error only after that.
    let mut read = config_map("after");
    read["metadata"]["resourceVersion"] = "7".into();
    assert!(message(maps.create(read.clone()).await).ends_with("denied request: not v"));
    read["data"]["k"] = "w".into();
    let text = message(maps.create(read).await);
    assert_eq!(text, "resourceVersion should not be set on objects to be created");
    maps.create(tree(r#"{"metadata":{"name":"fine"},"data":{"k":"w"}}"#)).await.unwrap();
    let headers = http::HeaderMap::new();
    let ask = admin.request(http::Method::GET, "/metrics", headers, bytes::Bytes::new());
    let text = ask.await.unwrap().bytes().await.unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    for line in [
        "apiserver_validating_admission_policy_check_total{enforcement_action=\"deny\",\
         error_type=\"no_error\",policy=\"p\",policy_binding=\"b\"} 2",
        "apiserver_admission_controller_admission_duration_seconds_count{\
         name=\"ValidatingAdmissionPolicy\",operation=\"CREATE\",rejected=\"true\",\
         type=\"validate\"} 2",
    ] {
        assert!(text.contains(line), "{line}");
    }
    assert!(text.contains("apiserver_admission_step_admission_duration_seconds_count{"));
}

#[tokio::test]
async fn a_policy_changes_what_is_written() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let policy = format!(
        r#"{{"metadata":{{"name":"p"}},"spec":{{{RULES},"reinvocationPolicy":"Never","mutations":[
        {{"patchType":"ApplyConfiguration","applyConfiguration":{{"expression":
            "Object{{metadata: Object.metadata{{labels: Object.metadata.labels{{a: object.data.k}}}}}}"}}}},
        {{"patchType":"JSONPatch","jsonPatch":{{"expression":
            "[JSONPatch{{op: 'add', path: '/data/seen', value: object.metadata.labels.a}}]"}}}}]}}}}"#
    );
    of::<MutatingAdmissionPolicy>(&admin).create(tree(&policy)).await.unwrap();
    let binding = r#"{"metadata":{"name":"b"},"spec":{"policyName":"p"}}"#;
    of::<MutatingAdmissionPolicyBinding>(&admin).create(tree(binding)).await.unwrap();
    let maps = of::<ConfigMap>(&admin);
    let made = maps.create(config_map("c")).await.unwrap();
    assert_eq!(made["metadata"]["labels"]["a"].as_str(), Some("v"));
    assert_eq!(made["data"]["seen"].as_str(), Some("v"));
    assert_eq!(code(maps.create(tree(r#"{"metadata":{"name":"d"}}"#)).await), 403);
}

#[tokio::test]
async fn expressions_must_compile() {
    let cluster = TestCluster::start().await;
    let policy = format!(
        r#"{{"metadata":{{"name":"p"}},"spec":{{{RULES},"validations":[{{"expression":"objct.x"}}]}}}}"#
    );
    let refused =
        of::<ValidatingAdmissionPolicy>(&cluster.admin_client()).create(tree(&policy)).await;
    assert!(message(refused).contains("undeclared reference to 'objct' (in container '')"));
}

#[tokio::test]
async fn a_policy_is_asked_again_about_what_others_changed() {
    for (reinvocation, seen) in [("Never", "1"), ("IfNeeded", "2")] {
        let cluster = TestCluster::start().await;
        let admin = cluster.admin_client();
        let counts = format!(
            r#"{{"metadata":{{"name":"a"}},"spec":{{{RULES},"reinvocationPolicy":"{reinvocation}","mutations":[
            {{"patchType":"JSONPatch","jsonPatch":{{"expression":
            "[JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{'seen': string(size(object.data))}}}}]"}}}}]}}}}"#
        );
        let adds = format!(
            r#"{{"metadata":{{"name":"b"}},"spec":{{{RULES},"reinvocationPolicy":"Never","mutations":[
            {{"patchType":"JSONPatch","jsonPatch":{{"expression":
            "[JSONPatch{{op: 'add', path: '/data/by', value: 'b'}}]"}}}}]}}}}"#
        );
        for (name, policy) in [("a", counts), ("b", adds)] {
            of::<MutatingAdmissionPolicy>(&admin).create(tree(&policy)).await.unwrap();
            let binding =
                format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"policyName":"{name}"}}}}"#);
            of::<MutatingAdmissionPolicyBinding>(&admin).create(tree(&binding)).await.unwrap();
        }
        let made = of::<ConfigMap>(&admin).create(config_map("m")).await.unwrap();
        assert_eq!(made["metadata"]["annotations"]["seen"].as_str(), Some(seen), "{reinvocation}");
    }
}
