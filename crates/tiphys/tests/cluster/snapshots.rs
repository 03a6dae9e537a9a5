//! Snapshots: the stored objects survive their host, and Secrets cannot be read from any file on disk.

use std::{fs, path::Path};

use crate::world::{Running, World, run};

const SECRET: &str = "plain-to-see-4711";
/// The same in base64, as Secrets contain it.
const ENCODED: &str = "cGxhaW4tdG8tc2VlLTQ3MTE=";

#[test]
fn a_cluster_moves_to_another_machine() {
    let (one, two) = World::pair("moves");
    one.tiphys(&["up", "--node-name", "n1"]);
    let literal = format!("--from-literal=k={SECRET}");
    one.kubectl(&["create", "secret", "generic", "s", &literal]);
    one.kubectl(&["create", "configmap", "m", "--from-literal=a=b"]);
    let file = one.path().join("saved.db").to_str().expect("text").to_owned();
    one.kubectl(&["create", "deployment", "web", "--image", "tiphys.local/hello:1"]);
    let is_ready = |world: &World| {
        let count = ["get", "deploy", "web", "-o", "jsonpath={.status.readyReplicas}"];
        world.try_kubectl(&count) == "1"
    };
    one.until("the pod is ready", || is_ready(&one));
    let plain = one.path().join("plain.db").to_str().expect("text").to_owned();
    let said = one.tiphys(&["snapshot", "save", &plain]);
    assert!(said.contains("keys") && said.contains("not included: the keys that "), "{said}");
    let phrase = one.file("phrase", "correct horse battery\n");
    let said = one.tiphys(&["snapshot", "save", &file, "--passphrase-file", &phrase]);
    assert!(said.contains("the snapshot can be restored anywhere"), "{said}");
    let status = run(&mut one.command(&["snapshot", "status", &file]));
    assert!(status.contains("revision ") && status.contains("keys "), "{status}");
    assert!(status.contains("keys of the cluster: sealed in it"), "{status}");

    // saved periodically, and only the newest are kept
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

    broken_restores_are_refused(&one, &two, (&plain, &file, &phrase));

    // one file is all that another host with another IP needs
    let restore = ["snapshot", "restore", &file, "--passphrase-file", &phrase];
    let said = two.tiphys(&restore);
    assert!(said.contains("keys restored"), "{said}");
    let again = two.try_tiphys(&restore);
    assert!(again.contains("holds a store already: give --in-place"), "{again}");
    let key = "pki/ca.key";
    assert_eq!(read(&one, key), read(&two, key), "certificates that were signed stay good");
    two.tiphys(&["up"]);
    let value = ["get", "secret", "s", "-o", "jsonpath={.data.k}"];
    assert_eq!(two.kubectl(&value), ENCODED);
    two.until("the pod is ready again", || is_ready(&two));
    assert_eq!(two.kubectl(&["get", "configmap", "m", "-o", "jsonpath={.data.a}"]), "b");
    let nodes = two.kubectl(&["get", "nodes", "--no-headers"]);
    assert!(nodes.starts_with("n1 ") && nodes.lines().count() == 1, "{nodes}");

    // restored in place; the previous store is kept
    two.kubectl(&["delete", "configmap", "m"]);
    let running = two.try_tiphys(&[&restore[..], &["--in-place"]].concat());
    assert!(running.contains("end it with `tiphys down` first"), "{running}");
    two.tiphys(&["down", "--now"]);
    let said = two.tiphys(&[&restore[..], &["--in-place"]].concat());
    assert!(said.contains("the previous store is kept in "), "{said}");
    let kept = fs::read_dir(two.path()).expect("a folder").flatten();
    let kept =
        kept.filter(|entry| entry.file_name().to_string_lossy().starts_with("store.before-"));
    assert_eq!(kept.count(), 1);
    two.tiphys(&["up"]);
    assert_eq!(two.kubectl(&["get", "configmap", "m", "-o", "jsonpath={.data.a}"]), "b");
    assert_eq!(two.kubectl(&value), ENCODED);
    two.tiphys(&["down", "--now"]);
}

/// A restore that would leave an unusable cluster is rejected, and leaves nothing behind.
fn broken_restores_are_refused(
    one: &World,
    two: &World,
    (plain, file, phrase): (&str, &str, &str),
) {
    let other = one.file("other", "another passphrase\n");
    let cases: &[(&[&str], &str)] = &[
        (&[plain], "encrypted with keys that are neither in this file nor in "),
        (&[plain, "--passphrase-file", phrase], "there are no keys in this file"),
        (&[file], "the keys in this file are sealed"),
        (&[file, "--passphrase-file", &other], "not the one they were sealed with"),
        (&[file, "--key-file", "/nowhere"], "cannot read /nowhere"),
    ];
    for (args, expected) in cases {
        let said = two.try_tiphys(&[&["snapshot", "restore"], *args].concat());
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(!two.path().join("store").exists(), "{args:?}");
    }
}

fn read(world: &World, name: &str) -> String {
    fs::read_to_string(world.path().join(name)).expect("a file")
}

/// Larger files are executables or image layers with one; they are not searched.
const LARGE: u64 = 32 << 20;

/// The files below a directory that contain a text.
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
