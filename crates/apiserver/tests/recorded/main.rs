//! Replays requests that were recorded with upstream's kube-apiserver 1.37.1, and compares the
//! responses: `tests/recorded/requests`.
//!
//! A case that differs for a known reason is listed in `differences.tsv`, and the test fails when
//! it begins to agree. `RECORDED=TEXT cargo test -p apiserver --test recorded` runs the cases whose
//! names contain a text.

#![expect(clippy::disallowed_methods, reason = "a test has no context and no configuration")]

mod cases;
mod json;
mod normal;
mod record;
mod replay;

use std::{
    env, fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use object::SystemClock;
use testkit::TestCluster;
use tokio::{sync::Mutex, task::JoinSet};

use self::{
    cases::{Cases, field},
    json::Json,
    replay::Replay,
};

/// Number of cases that run concurrently.
const WORKERS: usize = 8;

/// The token of the user `oracle-admin`, whom the recorded server knew too.
const TOKEN: &str = "recorded";

/// Starts a server with the flags of the recorded one.
async fn start(configuration: &str) -> (TestCluster, tempfile::TempDir) {
    let folder = tempfile::TempDir::new().expect("a test has room for a file");
    let tokens = folder.path().join("tokens.csv");
    let line = format!("{TOKEN},oracle-admin,oracle-admin-uid,\"system:masters\"\n");
    fs::write(&tokens, line).expect("a new file");
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.token_auth_file = Some(tokens);
        flags.authorization_mode = vec!["Node".to_owned(), "RBAC".to_owned()];
        flags.enable_admission_plugins = vec!["NodeRestriction".to_owned()];
        "10.96.0.0/16".clone_into(&mut flags.service_cluster_ip_range);
        if configuration == "all-apis" {
            flags.runtime_config = vec!["api/all=true".to_owned()];
            flags.feature_gates = [
                "GenericWorkload",
                "TopologyAwareWorkloadScheduling",
                "CompositePodGroup",
                "EvictionRequestAPI",
            ]
            .map(|gate| format!("{gate}=true"))
            .to_vec();
        }
    })
    .await;
    (cluster, folder)
}

/// Replays a corpus on its own server.
async fn replay(corpus: &str, configuration: &str) {
    let (cluster, _tokens) = start(configuration).await;
    let cases = Cases::read(corpus, configuration);
    let wanted = env::var("RECORDED").unwrap_or_default();
    let pipe = Arc::new(cluster.running.open_pipe());
    let replay = Arc::new(Replay::start(pipe, TOKEN, cases).await);
    let select = |serial: bool| {
        let is_serial =
            move |case: &&Json| (case.get("serial") == Some(&Json::Bool(true))) == serial;
        let all = replay.cases().cases.iter().filter(is_serial);
        all.filter(|case| field(case, "id").contains(&wanted)).cloned().collect::<Vec<_>>()
    };
    let wrong = Arc::new(Mutex::new(vec![]));
    for (cases, workers) in [(select(false), WORKERS), (select(true), 1)] {
        let (cases, next) = (Arc::new(cases), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            let (cases, next) = (Arc::clone(&cases), Arc::clone(&next));
            let (replay, wrong) = (Arc::clone(&replay), Arc::clone(&wrong));
            tasks.spawn(async move {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let id = field(case, "id");
                    let reason = replay.cases().differences.get(id);
                    match (replay.run(case).await, reason) {
                        (Some(difference), None) => {
                            wrong.lock().await.push(format!("{id}: {difference}"));
                        }
                        (None, Some(reason)) => {
                            let line = format!("{id}: agrees, though it is listed: {reason}");
                            wrong.lock().await.push(line);
                        }
                        _ => {}
                    }
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("no worker panics");
        }
    }
    replay.finish().await;
    let wrong = wrong.lock().await;
    let few = wrong.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {corpus} ({configuration}):\n{few}", wrong.len());
    cluster.stop().await;
}

macro_rules! corpora {
    ($($test:ident: $corpus:literal, $configuration:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            replay($corpus, $configuration).await;
        }
    )*};
}

corpora! {
    crds: "crds", "default";
    defaults: "defaults", "default";
    defaults_of_all_apis: "defaults", "all-apis";
    patches: "patches", "default";
    patches_of_all_apis: "patches", "all-apis";
    requests: "requests", "default";
    tables: "tables", "default";
    tables_of_all_apis: "tables", "all-apis";
    updates: "updates", "default";
    updates_of_all_apis: "updates", "all-apis";
    validation: "validation", "default";
    validation_of_all_apis: "validation", "all-apis";
}
