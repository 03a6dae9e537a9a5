//! Authorization compared with an independent model: random roles, bindings, pods and volumes, and
//! tens of thousands of random access checks.

mod graph;
mod model;
mod node_model;
mod question;
mod random;
mod request;
mod upstream;
mod uses;
mod world;

use std::collections::BTreeSet;

use bytes::Bytes;
use client::Client;
use http::Method;
use object::{Value, to_json};
use server::{Decision, Server};
use testkit::TestCluster;

use self::{
    model::{Model, Verdict},
    question::Question,
    random::Random,
    world::Made,
};

const ROUNDS: usize = 10;
const DIRECT: usize = 2_600;
const REVIEWS: usize = 60;
const REQUESTS: usize = 60;

#[tokio::test]
async fn is_as_the_model_says() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let (mut decided, mut allowed) = (0, 0);
    for round in 0..ROUNDS {
        let mut random = Random::new(round.try_into().expect("a small number"));
        let made = build(&admin, &mut random, round).await;
        for _ in 0..2 {
            let model = Model::of(&admin).await;
            for _ in 0..DIRECT {
                let question = Question::random(&mut random, round);
                let verdict = model.decide(&question);
                let given = decide(&cluster.running.server, &question).await;
                check(&question, &verdict, &given);
                (decided, allowed) = (decided + 1, allowed + usize::from(verdict.allowed));
            }
            for _ in 0..REVIEWS {
                let question = Question::random(&mut random, round);
                check(&question, &model.decide(&question), &review(&admin, &question).await);
                decided += 1;
            }
            for _ in 0..REQUESTS {
                let asked = request::random_request(&mut random, round);
                let verdict = model.decide(&asked.question());
                let refusal = asked.refusal(&admin).await;
                assert_eq!(refusal.is_none(), verdict.allowed, "{asked:?} {verdict:?} {refusal:?}");
                decided += 1;
            }
            shrink(&admin, &mut random, &made).await;
        }
    }
    assert!(decided >= 50_000, "{decided} decisions");
    assert!(allowed * 12 > decided, "only {allowed} of {decided} were allowed: too few to tell");
}

/// Creates a random world in a cluster.
async fn build(admin: &Client, random: &mut Random, round: usize) -> Vec<Made> {
    let mut all = graph::nodes_and_pods(random, round);
    all.extend(world::roles_and_bindings(random, round));
    for made in &all {
        let body = Bytes::from(to_json(&made.object));
        let answer = admin.call(Method::POST, &made.path, "application/json", body).await;
        if let Err(why) = answer {
            panic!("{} {}: {why}", made.path, String::from_utf8_lossy(&to_json(&made.object)));
        }
    }
    all
}

/// Deletes a third of the roles, bindings and pods; what they allowed must then be denied.
async fn shrink(admin: &Client, random: &mut Random, made: &[Made]) {
    let goes =
        |made: &&Made| ["/pods", "roles", "bindings"].iter().any(|end| made.path.ends_with(end));
    for made in made.iter().filter(goes) {
        if random.chance(33) {
            let path = format!("{}?gracePeriodSeconds=0", made.own_path());
            // In the second pass it may already be deleted.
            drop(admin.call(Method::DELETE, &path, "", Bytes::new()).await);
        }
    }
}

/// Asks the server's authorizers in order.
async fn decide(server: &Server, question: &Question) -> Verdict {
    let mut reasons = Vec::new();
    for authorizer in &server.authorizers {
        match authorizer.authorize(&question.user, &question.attributes).await {
            Decision::Allow(why) => return verdict(true, &why),
            Decision::Deny(why) => return verdict(false, &why),
            Decision::NoOpinion(why) => reasons.push(why),
        }
    }
    reasons.retain(|why| !why.is_empty());
    verdict(false, &reasons.join("\n"))
}

/// Asks by a SubjectAccessReview.
async fn review(admin: &Client, question: &Question) -> Verdict {
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let body = Bytes::from(to_json(&question.review()));
    let answer = admin.call(Method::POST, path, "application/json", body).await;
    let answer = answer.unwrap_or_else(|why| panic!("{question:?}: {why}"));
    let status = &answer["status"];
    let error = status["evaluationError"].as_str().unwrap_or_default();
    assert_eq!(error, "", "{question:?}");
    verdict(status["allowed"] == Value::from(true), status["reason"].as_str().unwrap_or_default())
}

/// Parses a decision. Each line is one authorizer's reason; the order of the bindings is not
/// guaranteed.
fn verdict(allowed: bool, reason: &str) -> Verdict {
    let sorted = |line: &str| match line.split_once("RBAC: [") {
        Some((before, rest)) => {
            let all: BTreeSet<&str> = rest.trim_end_matches(']').split(", ").collect();
            format!("{before}RBAC: [{}]", all.into_iter().collect::<Vec<_>>().join(", "))
        }
        None => line.to_owned(),
    };
    let reasons = match allowed {
        true => BTreeSet::from([reason.to_owned()]),
        false => reason.lines().map(sorted).collect(),
    };
    Verdict { allowed, reasons }
}

#[track_caller]
fn check(question: &Question, expected: &Verdict, given: &Verdict) {
    let same = match expected.allowed {
        true => given.allowed && given.reasons.is_subset(&expected.reasons),
        false => given == expected,
    };
    assert!(same, "{question:?}\n expected {expected:?}\n given {given:?}");
}
