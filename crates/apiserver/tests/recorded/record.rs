//! Records cases: sends them to a real kube-apiserver and adds what it answered. `tests/recorded/record` runs it.

use std::{env, fs, sync::Arc};

use client::{Auth, Kubeconfig};

use super::{
    TOKEN,
    cases::{Cases, field, recorded},
    json::Json,
    replay::{Replay, difference},
    start,
};

/// What every failure has, and is not recorded.
const OF_FAILURES: [(&str, &str); 3] =
    [("apiVersion", "v1"), ("kind", "Status"), ("status", "Failure")];

/// Records the cases of the file `RECORD` with the cluster of `KUBECONFIG`; writes them to `RECORD_TO`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real cluster, and changes it"]
async fn record() {
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let kubeconfig = Kubeconfig::read(variable("KUBECONFIG").as_ref());
    let config = kubeconfig.and_then(|kubeconfig| kubeconfig.config(None));
    let config = config.unwrap_or_else(|error| panic!("{}: {error}", variable("KUBECONFIG")));
    // A certificate would authenticate the requests that are sent without credentials.
    let Auth::Token(token) = &config.auth else { panic!("the kubeconfig must have a token") };
    let text = fs::read_to_string(variable("RECORD")).expect("a file of cases");
    let replay = Replay::start(config.connect.clone(), token, Cases::read("requests", "any")).await;
    let mut lines = String::new();
    for line in text.lines() {
        let case = Json::parse(line).unwrap_or_else(|| panic!("not JSON: {line}"));
        match replay.answer(&case).await {
            Ok(answer) => lines.push_str(&with_response(case, &answer).print_compact()),
            Err(error) => panic!("{}: {error}", field(&case, "id")),
        }
        lines.push('\n');
    }
    replay.finish().await;
    fs::write(variable("RECORD_TO"), lines).expect("a file can be written");
}

/// The case with its response, in the form in which it is stored.
fn with_response(mut case: Json, answer: &Json) -> Json {
    let mut response = answer.clone();
    let is_failure = |body: &Json| {
        OF_FAILURES.iter().all(|(key, value)| body.get(key).and_then(Json::text) == Some(value))
            && body.get("metadata") == Some(&Json::Map(vec![]))
            && body.get("code") == answer.get("code")
    };
    if let Some(mut body) = response.get("body").cloned().filter(is_failure) {
        for key in ["apiVersion", "kind", "status", "metadata", "code"] {
            body.remove(key);
        }
        response.remove("body");
        response.set("failure", body);
    }
    case.remove("response");
    case.set("response", response);
    case
}

/// A case that is recorded of our own server, which agrees with upstream's here, is the case that was recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_reads_as_it_was_written() {
    let (cluster, _tokens) = start("default").await;
    let pipe = Arc::new(cluster.running.open_pipe());
    let replay = Replay::start(pipe, TOKEN, Cases::read("requests", "default")).await;
    let Cases { cases, differences, .. } = replay.cases();
    let agrees = |case: &&Json| !differences.contains_key(field(case, "id"));
    let (mut count, mut failures) = (0, 0);
    for case in cases.iter().filter(agrees).step_by(20) {
        let mut bare = case.clone();
        bare.remove("response");
        let answer = replay.answer(&bare).await.expect("it can be sent");
        let line = with_response(bare, &answer).print_compact();
        let again = Json::parse(&line).expect("it is JSON");
        let differs = difference(&recorded(case), &recorded(&again), "");
        assert_eq!(differs, None, "{}", field(case, "id"));
        count += 1;
        failures += usize::from(line.contains("\"failure\":{"));
    }
    assert!(count > 40 && failures > 10, "{count} cases, {failures} failures");
    replay.finish().await;
    cluster.stop().await;
}
