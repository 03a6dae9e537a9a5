//! The same random world in upstream's kube-apiserver: `tests/authorization/run` starts one and
//! sets its kubeconfig.

use std::{collections::BTreeSet, path::PathBuf};

use bytes::Bytes;
use client::{Client, Kubeconfig};
use http::{HeaderValue, Method, header::CONTENT_TYPE};
use object::{Value, to_json};
use server::UserInfo;
use testkit::TestCluster;

use super::{
    build, check,
    model::Model,
    question::Question,
    random::Random,
    request::{Asked, impersonating, random_request},
    review, shrink,
    world::{GROUPS, USERS, namespaces},
};
use crate::tree;

const ROUNDS: usize = 4;
const REVIEWS: usize = 700;
const REQUESTS: usize = 150;

#[tokio::test]
#[ignore = "needs a kube-apiserver: tests/authorization/run"]
async fn is_as_upstream_says() {
    let kubeconfig =
        PathBuf::from(std::env::var_os("UPSTREAM_KUBECONFIG").expect("its kubeconfig"));
    let kubeconfig = Kubeconfig::read(&kubeconfig).expect("a kubeconfig");
    let theirs = Client::new(kubeconfig.config(None).expect("a kubeconfig"));
    let cluster = TestCluster::start().await;
    let ours = cluster.admin_client();
    let (mut decided, mut differing) = (0, Vec::new());
    for round in 0..ROUNDS {
        let seed = 1_000 + u64::try_from(round).expect("a small number");
        let mut random = Random::new(seed);
        build(&theirs, &mut random, round).await;
        random = Random::new(seed);
        let made = build(&ours, &mut random, round).await;
        for half in 0..2 {
            if half > 0 {
                let mut same = Random::new(seed);
                shrink(&theirs, &mut same, &made).await;
                shrink(&ours, &mut Random::new(seed), &made).await;
            }
            settled(&theirs).await;
            let model = Model::of(&theirs).await;
            for _ in 0..REVIEWS {
                let question = Question::random(&mut random, round);
                let (their, our) =
                    (review(&theirs, &question).await, review(&ours, &question).await);
                // The model must agree with upstream; this server is compared with both.
                check(&question, &model.decide(&question), &their);
                let same = match their.allowed {
                    true => our.allowed,
                    false => our == their,
                };
                if !same {
                    differing.push(format!("{question:?}\n theirs {their:?}\n ours {our:?}"));
                }
                decided += 1;
            }
            for _ in 0..REQUESTS {
                let asked = random_request(&mut random, round);
                let (their, our) = (answer(&theirs, &asked).await, answer(&ours, &asked).await);
                if their != our {
                    differing.push(format!("{asked:?}\n theirs {their:?}\n ours {our:?}"));
                }
                decided += 1;
            }
            compare_rules(&theirs, &ours, round, &mut differing).await;
        }
    }
    assert!(
        differing.is_empty(),
        "{} of {decided} differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
    assert!(decided >= 5_000, "{decided} decisions");
    println!("{decided} decisions are the same");
}

/// Waits until upstream's authorizers, which follow watches, know a role that was created last.
async fn settled(theirs: &Client) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let name = format!("settled-{:x}", std::process::id());
    let user = "somebody-settled";
    let role = tree(&format!(
        r#"{{"metadata":{{"name":"{name}"}},"rules":[{{"apiGroups":[""],"resources":["settled"],"verbs":["get"]}}]}}"#
    ));
    let binding = tree(&format!(
        r#"{{"metadata":{{"name":"{name}"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io",
        "kind":"ClusterRole","name":"{name}"}},"subjects":[{{"kind":"User","name":"{user}",
        "apiGroup":"rbac.authorization.k8s.io"}}]}}"#
    ));
    for (kind, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let body = Bytes::from(to_json(&object));
        let path = format!("{rbac}/{kind}");
        theirs.call(Method::POST, &path, "application/json", body).await.expect("it is new");
    }
    let mut question = Question {
        user: UserInfo::new(user, &[]),
        attributes: server::Attributes {
            verb: "get".into(),
            resource: "settled".into(),
            is_resource: true,
            ..server::Attributes::default()
        },
    };
    question.attributes.namespace = "default".into();
    while !review(theirs, &question).await.allowed {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    for kind in ["clusterrolebindings", "clusterroles"] {
        let path = format!("{rbac}/{kind}/{name}");
        theirs.call(Method::DELETE, &path, "", Bytes::new()).await.expect("it is there");
    }
    while review(theirs, &question).await.allowed {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    // Pods and volumes arrive by other watches, which are not checked here.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
}

/// The message of a denied request, as a set of its parts.
async fn answer(client: &Client, asked: &Asked) -> Option<BTreeSet<String>> {
    let message = asked.refusal(client).await?;
    Some(message.split(['\n', '[', ']', ',']).map(|part| part.trim().to_owned()).collect())
}

/// Compares the SelfSubjectRulesReview of every user.
async fn compare_rules(theirs: &Client, ours: &Client, round: usize, differing: &mut Vec<String>) {
    for user in USERS.iter().filter(|user| **user != "*") {
        for namespace in namespaces(round) {
            let user = UserInfo::new(user, &[GROUPS[0], "system:authenticated"]);
            let (their, our) =
                (rules(theirs, &user, &namespace).await, rules(ours, &user, &namespace).await);
            if their != our {
                differing.push(format!("rules of {user:?}\n theirs {their:?}\n ours {our:?}"));
            }
        }
    }
}

async fn rules(client: &Client, user: &UserInfo, namespace: &str) -> BTreeSet<String> {
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let body = format!(r#"{{"spec":{{"namespace":"{namespace}"}}}}"#);
    let mut headers = impersonating(user);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let answer = client.request(Method::POST, path, headers, Bytes::from(body)).await;
    let body = answer.expect("an answer").error_for_status().await.expect("a review").bytes().await;
    let review = object::from_json(&body.expect("a body")).expect("JSON");
    let status = &review["status"];
    let lists = ["resourceRules", "nonResourceRules"];
    let all = lists.iter().flat_map(|list| status[list].items());
    let mut told: BTreeSet<String> = all.map(told).collect();
    told.insert(status["incomplete"].as_bool().unwrap_or_default().to_string());
    told
}

fn told(rule: &Value) -> String {
    let fields = ["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"];
    fields.map(|field| format!("{field} {:?}", rule[field])).join(", ")
}
