//! The crates that say they know no kind name none: what a kind does differently is a fact in its own file.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The crates that know no kind.
const GENERIC: [&str; 3] = ["schema", "server", "store"];

/// Words that are no kind where they stand: file, word and what it is there.
const OTHER_MEANINGS: &[(&str, &str, &str)] = &[
    ("server/src/audit.rs", "Event", "the kind of an audit event, which is no object"),
    ("server/src/impersonate.rs", "nodes", "what the permission to impersonate a node is for"),
    ("server/src/impersonate.rs", "serviceaccounts", "the same of a service account"),
    ("store/src/etcd_server/listen.rs", "Lease", "a gRPC service of etcd"),
];

#[test]
fn generic_crates_name_no_kind() {
    let names = names();
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for file in GENERIC.iter().flat_map(|name| sources(&crates().join(name).join("src"))) {
        let text = fs::read_to_string(&file).expect("a source file");
        let file = file.strip_prefix(crates()).expect("below the crates").display().to_string();
        for word in literals(without_tests(&text)).filter_map(|literal| named(&names, literal)) {
            match OTHER_MEANINGS.iter().position(|(at, other, _)| *at == file && *other == word) {
                Some(known) => _ = used.insert(known),
                None => wrong.push(format!("{file}: {word:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "names of kinds or resources: {wrong:#?}");
    assert_eq!(used.len(), OTHER_MEANINGS.len(), "an exception is needed no more");
}

#[test]
fn a_name_is_found_alone_and_in_a_list() {
    let names = names();
    let found = |text| literals(text).filter_map(|text| named(&names, text)).collect::<Vec<_>>();
    assert_eq!(found(r#"kind == "Pod" || x == "a Pod""#), ["Pod"]);
    assert_eq!(found(r#"const OLD: &str = "Pod Node \ "Job";"#), ["Pod Node \\ "]);
    assert_eq!(found("// \"Pod\"\n'\"' \"pods\""), ["pods"]);
    assert_eq!(found(r#"("/registry/pods/", "status", "a \"Pod\"")"#), [] as [&str; 0]);
}

fn crates() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("the crate has a folder").to_owned()
}

/// All kinds and resources, and the kinds that only subresources have.
fn names() -> BTreeSet<&'static str> {
    let mut names = BTreeSet::new();
    for definition in api::builtin_resources() {
        names.extend([definition.names.kind, definition.names.plural]);
        names.extend(definition.subresources.iter().map(|subresource| subresource.kind));
    }
    names.remove(object::names::NAMESPACES); // a segment of paths too
    names
}

/// The Rust files of a crate that are no tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("readable").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if matches!(stem, "tests" | "sample" | "engine_suite" | "crash") {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The text before the unit tests, which end each file.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// The string literals of a source text, without those in comments.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("'\"'")).flat_map(|line| line.split('"').skip(1).step_by(2))
}

/// The literal, if it is a name or a list of names.
fn named<'a>(names: &BTreeSet<&str>, literal: &'a str) -> Option<&'a str> {
    let mut words = literal.split([' ', ',', '\\']).filter(|word| !word.is_empty()).peekable();
    let any = words.peek().is_some();
    (any && words.all(|word| names.contains(word))).then_some(literal)
}
