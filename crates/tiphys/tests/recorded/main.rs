//! Replays command lines whose output was recorded with kubectl 1.37.1, and compares the output of ours:
//! `tests/recorded/kubectl`.
//!
//! A case that differs for a known reason is listed in `differences.tsv`, and the test fails when it starts to match.
//! `RECORDED=TEXT cargo test -p tiphys --test recorded` runs the cases with this text in their names.

mod cases;
mod normal;
mod process;
mod record;
mod replay;
mod server;
mod table;
mod world;

use std::{
    env,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use self::{
    cases::{Case, Cases},
    replay::Replay,
    server::{PORT, Server},
};

/// Number of read-only cases that run concurrently.
const WORKERS: usize = 4;

/// Maximum number of differing cases that are printed.
const SHOWN: usize = 20;

#[test]
fn kubectl_prints_what_was_recorded() {
    // The thread enters its own network namespace; threads and processes that it starts inherit it.
    let differing = thread::spawn(replay_all).join().expect("the replay ends without a panic");
    let first = differing.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(differing.is_empty(), "{} cases:\n{first}", differing.len());
}

fn replay_all() -> Vec<String> {
    let cases = Cases::read();
    let text = env::var_os("RECORDED").unwrap_or_default().to_string_lossy().into_owned();
    let server = Server::start();
    let (host, kubectl) = (format!("127.0.0.1:{PORT}"), Path::new(env!("CARGO_BIN_EXE_tiphys")));
    let replay = Replay::start(server.folder(), host, kubectl);
    let select = |mutates: bool| {
        let all = cases.cases.iter().filter(move |case| case.mutates == mutates);
        all.filter(|case| case.id.contains(&text)).collect::<Vec<_>>()
    };
    let mut differing = replay_some(&replay, &cases, &select(false), WORKERS);
    differing.extend(replay_some(&replay, &cases, &select(true), 1));
    differing
}

fn replay_some(replay: &Replay, cases: &Cases, some: &[&Case], workers: usize) -> Vec<String> {
    let (next, differing) = (AtomicUsize::new(0), Mutex::new(vec![]));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(case) = some.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = replay.run(case);
                    let line = match (cases.differences.get(&case.id), found.is_empty()) {
                        (None, false) => format!("{}\n{}", case.id, found.join("\n")),
                        (Some(reason), true) => {
                            format!("{}: agrees, though it is listed: {reason}", case.id)
                        }
                        _ => continue,
                    };
                    differing.lock().expect("no worker panics").push(line);
                }
            });
        }
    });
    differing.into_inner().expect("no worker panics")
}
