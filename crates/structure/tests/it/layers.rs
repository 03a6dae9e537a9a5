//! The architecture as a test: which crates may depend on each other, which dependencies are forbidden, and where
//! `unsafe` is permitted. Read from `cargo metadata` and the sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
};

use serde_json::Value;

use super::files;

/// Every crate, from the lowest layer up. A crate may depend on lower layers only, and within a layer only as
/// `BESIDE` permits.
const LAYERS: &[&[&str]] = &[
    &["macros", "object", "panics"],
    &["jsonpath"],
    &["schema"],
    &["api", "cel"],
    &["store", "client", "httpstream", "pki", "sys"],
    &["server", "runtime", "container", "network", "volume"],
    COMPONENTS,
    &["tiphys", "testkit"],
    &["bench", "structure"],
];

/// Components, which must not depend on each other: they communicate only through the API.
const COMPONENTS: &[&str] = &[
    "apiserver",
    "controllers",
    "scheduler",
    "kubelet",
    "proxy",
    "dns",
    "hollow",
    "metrics",
    "cloud",
    "kubectl",
    "dashboard",
];

/// Permitted dependencies within a layer.
const BESIDE: &[(&str, &str)] = &[("object", "macros")];

/// A crate, its forbidden dependencies, and the reason.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("server", &["api"], "the machinery knows no kind by name"),
    ("client", &["api"], "the client knows no kind by name"),
    ("runtime", &["api"], "the runtime knows no kind by name"),
    ("object", IO, "words do no I/O"),
    ("jsonpath", IO, "paths do no I/O"),
    ("schema", IO, "shapes do no I/O"),
    ("cel", IO, "expressions do no I/O"),
    ("api", IO, "kinds do no I/O"),
];

const IO: &[&str] = &["tokio", "hyper", "hyper-util", "tonic"];

/// The only crates that may use the store; all others use the API.
const STORES: &[&str] = &["server", "apiserver", "tiphys", "testkit", "bench"];

/// A package: its directory, its dependencies, and its dev-dependencies.
struct Package {
    folder: PathBuf,
    uses: BTreeSet<String>,
    tests_use: BTreeSet<String>,
}

#[test]
fn arrows_point_down() {
    let packages = packages();
    let wrong: Vec<String> = pairs(&packages)
        .filter(|(from, to)| {
            let up = layer(from) < layer(to);
            let beside = layer(from) == layer(to) && !BESIDE.contains(&(from, to));
            up || beside
        })
        .map(|(from, to)| format!("{from} uses {to}, which is not below it"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_crate_has_a_layer() {
    let known: BTreeSet<&str> = LAYERS.iter().flat_map(|layer| layer.iter().copied()).collect();
    let lost: Vec<String> =
        packages().into_keys().filter(|name| !known.contains(name.as_str())).collect();
    assert!(lost.is_empty(), "in no layer: {lost:?}");
}

#[test]
fn components_meet_only_through_the_api() {
    let packages = packages();
    let wrong: Vec<_> = pairs(&packages)
        .filter(|(from, to)| COMPONENTS.contains(from) && COMPONENTS.contains(to))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn only_the_server_sees_the_store() {
    let packages = packages();
    let wrong: Vec<_> =
        pairs(&packages).filter(|(from, to)| *to == "store" && !STORES.contains(from)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn what_is_pure_stays_pure() {
    let packages = packages();
    let mut wrong = Vec::new();
    for (name, banned, why) in FORBIDDEN {
        let Some(package) = packages.get(*name) else { continue };
        for banned in banned.iter().filter(|banned| package.uses.contains(**banned)) {
            wrong.push(format!("{name} uses {banned}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn tests_use_nothing_above_but_the_testkit() {
    let packages = packages();
    let mut wrong = Vec::new();
    for (name, package) in &packages {
        for to in package.tests_use.iter().filter(|to| packages.contains_key(*to)) {
            let above = layer(name) < layer(to);
            if above && to != "testkit" {
                wrong.push(format!("tests of {name} use {to}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unsafe_stands_in_one_crate() {
    let mut wrong = Vec::new();
    for (name, package) in packages() {
        if name != "sys" {
            files(&package.folder, ".rs", &mut |path, text| {
                let is_unsafe = |line: &str| {
                    let code = line.split("//").next().unwrap_or_default();
                    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "allow(unsafe_code"]
                        .iter()
                        .any(|word| code.contains(word) && !code.contains('"'))
                };
                wrong.extend(
                    text.lines()
                        .filter(|line| is_unsafe(line))
                        .map(|line| format!("{}: {}", path.display(), line.trim())),
                );
            });
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Forbids `unwrap` and `expect` on locks: one panic must not spread through poisoned locks. A poisoned lock is used
/// as it is, or aborts the process (`panics::lock_or_abort`).
#[test]
fn locks_outlive_a_panic() {
    let mut wrong = Vec::new();
    for package in packages().into_values() {
        files(&package.folder, ".rs", &mut |path, text| {
            let tests = path.components().any(|part| part.as_os_str() == "tests")
                || path.file_name().is_some_and(|name| name == "tests.rs");
            let code = if tests { "" } else { text.split("#[cfg(test)]").next().unwrap_or("") };
            let dies = |line: &&str| {
                ["lock()", "read()", "write()"].iter().any(|taken| {
                    line.contains(&format!("{taken}.expect(\""))
                        || line.contains(&format!("{taken}.unwrap()"))
                })
            };
            let lines = code.lines().filter(dies);
            wrong.extend(lines.map(|line| format!("{}: {}", path.display(), line.trim())));
        });
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn layer(name: &str) -> usize {
    LAYERS.iter().position(|layer| layer.contains(&name)).unwrap_or(usize::MAX)
}

/// Dependencies between our own crates.
fn pairs(packages: &BTreeMap<String, Package>) -> impl Iterator<Item = (&str, &str)> {
    packages.iter().flat_map(move |(from, package)| {
        let own = package.uses.iter().filter(|to| packages.contains_key(*to));
        own.map(move |to| (from.as_str(), to.as_str()))
    })
}

fn packages() -> BTreeMap<String, Package> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = cargo.output().expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {said}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    items(&metadata["packages"]).iter().map(package).collect()
}

fn package(tree: &Value) -> (String, Package) {
    let text = |name: &str| tree[name].as_str().expect("cargo says so").to_owned();
    let manifest = PathBuf::from(text("manifest_path"));
    let folder = manifest.parent().expect("a file is in a folder").to_owned();
    let of = |tests: bool| {
        let all = items(&tree["dependencies"]).iter();
        let some = all.filter(|one| (one["kind"].as_str() == Some("dev")) == tests);
        some.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
    };
    (text("name"), Package { folder, uses: of(false), tests_use: of(true) })
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}
