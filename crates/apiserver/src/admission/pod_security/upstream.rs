//! Pod Security as upstream evaluates it. `upstream.jsonl` has in its first line a pod and all
//! messages; each further line has what is changed in that pod and, for each level, the messages
//! (by their number) from a minor version on. The pods are those that upstream's fixtures tell
//! apart, and some of our own; the messages are those of k8s.io/pod-security-admission v0.37.1.

use std::{fs, path::Path};

use object::{Object, Value, View, from_json, yaml::from_yaml};

use super::{
    checks::violations,
    policy::{LATEST, Level, LevelVersion, minor},
    violation::detailed,
};

const TABLE: &str = include_str!("upstream.jsonl");

#[test]
fn verdicts_and_messages_are_those_of_upstream() {
    let (pods, checks) = replay(TABLE);
    assert_eq!((pods, checks), (423, 423 * 2 * 39));
}

/// Every fixture of the module k8s.io/pod-security-admission: see `tests/pod_security/run`.
#[test]
#[ignore = "needs the folder FIXTURES; tests/pod_security/run has it"]
fn fixtures_pass_and_fail_as_their_folder_says() {
    let root = std::env::var_os("FIXTURES").expect("the folder of the fixtures");
    let (mut count, mut wrong) = (0, Vec::new());
    for level in [Level::Baseline, Level::Restricted] {
        for version in fs::read_dir(Path::new(&root).join(level.word())).expect("a level") {
            let version = version.expect("a version").path();
            let name = version.file_name().and_then(|name| name.to_str()).expect("a name");
            let rules = LevelVersion { level, minor: minor(name).expect("a version") };
            for passes in [true, false] {
                let folder = version.join(if passes { "pass" } else { "fail" });
                for file in fs::read_dir(folder).expect("fixtures") {
                    let file = file.expect("a fixture").path();
                    count += 1;
                    if passes != broken(rules, &fixture(&file)).is_empty() {
                        wrong.push(file);
                    }
                }
            }
        }
    }
    println!("{} of {count} fixtures", count - wrong.len());
    assert!(count > 4_500 && wrong.is_empty(), "{wrong:?}");
}

/// A pod of a file, with the defaults that a pod has when it is admitted.
fn fixture(file: &Path) -> Value {
    let mut pod = from_yaml(&fs::read_to_string(file).expect("a file")).expect("YAML");
    let kinds = api::builtin_resources();
    let kind = kinds.iter().find(|kind| kind.names.kind == "Pod").expect("pods");
    kind.coerce(&mut pod, &mut Vec::new()).expect("a pod");
    kind.apply_defaults(&mut pod);
    pod
}

/// Evaluates all pods of a table at all levels and versions; returns the number of pods and of
/// evaluations.
fn replay(table: &str) -> (usize, usize) {
    let mut lines = table.lines().map(|line| from_json(line.as_bytes()).expect("JSON"));
    let head = lines.next().expect("a first line");
    let messages: Vec<&str> =
        head.get("messages").items().iter().filter_map(Value::as_str).collect();
    let (mut pods, mut checks) = (0, 0);
    for line in lines {
        let pod = changed(head.get("base"), line.get("set"));
        pods += 1;
        for level in [Level::Baseline, Level::Restricted] {
            let runs = line.get(level.word()).items();
            for minor in (0..=LATEST).map(Some).chain([None]) {
                let rules = LevelVersion { level, minor };
                let run = runs.iter().rfind(|run| {
                    run.items()[0].as_i64().is_some_and(|since| since <= rules.version().into())
                });
                let numbers = run.expect("from version 0 on").items()[1..].iter();
                let expected: Vec<&str> = numbers
                    .filter_map(|number| usize::try_from(number.as_i64()?).ok())
                    .map(|number| messages[number])
                    .collect();
                assert_eq!(broken(rules, &pod), expected.join(", "), "{rules} of {pod:?}");
                checks += 1;
            }
        }
    }
    (pods, checks)
}

fn broken(rules: LevelVersion, pod: &Value) -> String {
    detailed(&violations(rules, Object::view(pod).metadata(), pod.get("spec")))
}

/// The pod with the given values set at their JSON pointers; null removes a field.
fn changed(base: &Value, set: &Value) -> Value {
    let mut pod = base.clone();
    for (pointer, value) in set.entries() {
        let mut at = &mut pod;
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            at = match at {
                Value::List(items) => {
                    &mut items.make_mut()[step.parse::<usize>().expect("a place")]
                }
                at => at.get_mut(&step),
            };
        }
        *at = value.clone();
    }
    pod
}
