//! Records cases: runs them with a real kubectl against a real cluster and adds what it printed. `tests/recorded/record`
//! runs it.

use std::{env, fs, path::Path, process::Command, thread};

use serde_json::Value;

use super::{
    cases::{Case, Cases, Printed},
    replay::Replay,
    server::{PORT, Server},
};

/// Records the cases of the file `RECORD` with the program `KUBECTL` and the cluster of `KUBECONFIG`; writes them to
/// `RECORD_TO`.
#[test]
#[ignore = "needs a real cluster, and changes it"]
fn record() {
    let variable = |name: &str| {
        let value = env::var_os(name).unwrap_or_else(|| panic!("{name} is not set"));
        value.into_string().expect("text")
    };
    let (kubeconfig, kubectl) = (variable("KUBECONFIG"), variable("KUBECTL"));
    let folder = tempfile::Builder::new().prefix("tiphys-record").tempdir().expect("a folder");
    // A copy: some cases change it.
    fs::copy(&kubeconfig, folder.path().join("kubeconfig")).expect("a kubeconfig");
    let host = host(&kubectl, &kubeconfig);
    let replay = Replay::start(folder.path(), host, Path::new(&kubectl));
    let text = fs::read_to_string(variable("RECORD")).expect("a file of cases");
    let lines: Vec<String> = text.lines().map(|line| recorded(&replay, line)).collect();
    fs::write(variable("RECORD_TO"), lines.concat()).expect("a file can be written");
}

/// Host and port of the server of a kubeconfig.
fn host(kubectl: &str, kubeconfig: &str) -> String {
    let output = Command::new(kubectl)
        .args(["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"])
        .args(["--kubeconfig", kubeconfig])
        .output()
        .unwrap_or_else(|error| panic!("{kubectl}: {error}"));
    let server = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = server.strip_prefix("https://").map(|host| host.trim_end_matches('/').to_owned());
    let said = String::from_utf8_lossy(&output.stderr);
    host.unwrap_or_else(|| panic!("{kubeconfig}: {server:?} is not https://HOST:PORT {said}"))
}

/// The line of a case with the output of its commands.
fn recorded(replay: &Replay, line: &str) -> String {
    let mut case: Value = serde_json::from_str(line).expect("a line is JSON");
    let (failed, printed) = replay.print(&Case::unrecorded(case.clone()));
    assert!(failed.is_empty(), "{}:\n{}", case["id"], failed.join("\n"));
    let mut printed = printed.into_iter();
    let mut add = |to: &mut Value| {
        let Printed { stdout, stderr, code } = printed.next().expect("one for each command");
        (to["stdout"], to["stderr"], to["code"]) = (stdout.into(), stderr.into(), code.into());
    };
    add(&mut case);
    case["after"].as_array_mut().into_iter().flatten().for_each(add);
    if let Some(case) = case.as_object_mut().filter(|case| case["after"].is_null()) {
        case.remove("after");
    }
    format!("{case}\n")
}

/// A case that is recorded with our own programs agrees with itself when it is replayed.
#[test]
fn a_recording_can_be_replayed() {
    let lines = [
        r#"{"id":"new/get","args":["get","namespace","work","-o","name"]}"#,
        r#"{"id":"new/create","mutates":true,"args":["create","configmap","one","-n","work","--from-literal=a=b"],
            "after":[{"args":["get","configmap","one","-n","work","-o","jsonpath={.data}"]}]}"#,
    ];
    // The thread enters its own network namespace, as in the replay of all cases.
    let replayed = thread::spawn(move || {
        let server = Server::start();
        let kubectl = Path::new(env!("CARGO_BIN_EXE_tiphys"));
        let replay = Replay::start(server.folder(), format!("127.0.0.1:{PORT}"), kubectl);
        let lines = lines.map(|line| recorded(&replay, line)).concat();
        let cases = Cases::parse(&lines);
        (lines, cases.iter().flat_map(|case| replay.run(case)).collect::<Vec<_>>())
    });
    let (lines, differing) = replayed.join().expect("the replay ends without a panic");
    assert_eq!(differing, Vec::<String>::new());
    for part in [r#""stdout":"namespace/work\n""#, "configmap/one created", r#"{\"a\":\"b\"}"#] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
}
