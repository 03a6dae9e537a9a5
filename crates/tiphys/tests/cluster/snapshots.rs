//! What is stored outlives its machine, and nobody reads secrets from what lies around.

use std::{fs, path::Path};

use crate::world::{Running, World, run};

const SECRET: &str = "plain-to-see-4711";
/// The same as objects have it.
const ENCODED: &str = "cGxhaW4tdG8tc2VlLTQ3MTE=";

#[test]
fn a_cluster_moves_to_another_machine() {
    let (one, two) = World::pair("moves");
    one.tiphys(&["up", "--node-name", "n1"]);
    let literal = format!("--from-literal=k={SECRET}");
    one.kubectl(&["create", "secret", "generic", "s", &literal]);
    one.kubectl(&["create", "configmap", "m", "--from-literal=a=b"]);
    let file = one.path().join("saved.db").to_str().expect("text").to_owned();
    let said = one.tiphys(&["snapshot", "save", &file]);
    assert!(said.contains("keys"), "{said}");
    let status = run(&mut one.command(&["snapshot", "status", &file]));
    assert!(status.contains("revision ") && status.contains("keys "), "{status}");

    // again and again, and only the newest stay
    let folder = one.path().join("kept");
    let mut command = one.command(&["snapshot", "save", "--every", "1s", "--keep", "2"]);
    command.arg(&folder).arg("--data-dir").arg(one.path());
    let saving = Running::start(command);
    let names = || -> Vec<_> {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.retain(|name| name.to_string_lossy().ends_with(".db"));
        names.sort_unstable();
        names
    };
    one.until("there is a snapshot", || !names().is_empty());
    let first = names()[0].clone();
    one.until("the first has gone", || !names().contains(&first));
    assert!(names().len() <= 3, "one is made before one goes: {:?}", names());
    drop(saving);

    one.tiphys(&["down", "--now"]);
    for text in [SECRET, ENCODED] {
        let found = holding(one.path(), text.as_bytes());
        assert!(found.is_empty(), "{text} is in {found:?}");
    }

    // its key goes with it; it has another name and another address
    let keys = Path::new("pki/encryption.yaml");
    fs::create_dir_all(two.path().join("pki")).expect("a folder");
    fs::copy(one.path().join(keys), two.path().join(keys)).expect("the key is there");
    let said = two.tiphys(&["snapshot", "restore", &file]);
    assert!(said.contains("keys restored"), "{said}");
    let again = two.try_tiphys(&["snapshot", "restore", &file]);
    assert!(again.contains("holds a store already"), "{again}");
    two.tiphys(&["up", "--node-name", "n2"]);
    let value = ["get", "secret", "s", "-o", "jsonpath={.data.k}"];
    assert_eq!(two.kubectl(&value), ENCODED);
    assert_eq!(two.kubectl(&["get", "configmap", "m", "-o", "jsonpath={.data.a}"]), "b");
    two.until("its own node is ready", || {
        let nodes = two.try_kubectl(&["get", "nodes"]);
        nodes.lines().any(|line| line.starts_with("n2 ") && line.contains(" Ready "))
    });
    two.tiphys(&["down", "--now"]);
}

/// What is larger is an executable, or a layer with one.
const LARGE: u64 = 32 << 20;

/// The files below a folder that have a text.
fn holding(folder: &Path, text: &[u8]) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => holding(&path, text),
                Ok(kind) if kind.is_file() && entry.metadata().is_ok_and(|m| m.len() < LARGE) => {
                    let bytes = fs::read(&path).unwrap_or_default();
                    let found = bytes.windows(text.len()).any(|window| window == text);
                    if found { vec![path.display().to_string()] } else { Vec::new() }
                }
                _ => Vec::new(),
            }
        })
        .collect()
}
