//! Runs the commands of documents: the user's book (`docs/book/src`) and the first week (`tests/first_week`). One
//! shell on a simulated host executes a document from top to bottom, and the output of every command must match the
//! document. `markdown.rs` has the rules.

#[path = "../security/image.rs"]
#[allow(dead_code, reason = "shared with the attacks, which use more of it")]
mod image;
mod markdown;
mod reader;
#[path = "../cluster/world.rs"]
#[allow(dead_code, reason = "shared with the tests of clusters, which use more of it")]
mod world;

use std::{
    env, fs,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use self::{reader::Reader, world::World};

/// Serializes the documents: clusters of two at once would only slow each other down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn the_first_week_on_one_node() {
    on_one_node("first-week", "tests/first_week/one-node.md", None);
}

#[test]
fn the_first_week_when_it_fails() {
    on_one_node("first-fails", "tests/first_week/when-it-fails.md", None);
}

#[test]
fn the_first_week_on_two_nodes() {
    on_two_nodes("first-week", "tests/first_week/two-nodes.md", None);
}

#[test]
#[ignore = "needs upstream's kubectl 1.37, its path in KUBECTL"]
#[expect(clippy::disallowed_methods, reason = "what the test itself needs")]
fn the_first_week_with_upstream_kubectl() {
    let kubectl = env::var("KUBECTL").expect("KUBECTL has the path of upstream's kubectl");
    on_one_node("upstream-1", "tests/first_week/one-node.md", Some(&kubectl));
    on_two_nodes("upstream-2", "tests/first_week/two-nodes.md", Some(&kubectl));
}

#[test]
fn the_book_install() {
    on_one_node("install", "docs/book/src/install.md", None);
}

#[test]
fn the_book_first_application() {
    on_one_node("application", "docs/book/src/first-application.md", None);
}

#[test]
fn the_book_storage() {
    on_one_node("storage", "docs/book/src/storage.md", None);
}

#[test]
fn the_book_networking() {
    on_one_node("networking", "docs/book/src/networking.md", None);
}

#[test]
fn the_book_several_nodes() {
    on_two_nodes("nodes", "docs/book/src/several-nodes.md", None);
}

#[test]
fn the_book_backup() {
    on_two_nodes("backup", "docs/book/src/backup.md", None);
}

#[test]
fn the_book_coming_from() {
    on_one_node("coming", "docs/book/src/coming-from.md", None);
}

/// Requires that a test here names every chapter.
#[test]
fn every_chapter_is_read() {
    let folder = repository().join("docs/book/src");
    let here = include_str!("main.rs");
    for file in fs::read_dir(folder).expect("the book").map(|file| file.expect("a file")) {
        let name = file.file_name().into_string().expect("text");
        let is_chapter = name != "SUMMARY.md" && name != "settings.md";
        assert!(!is_chapter || here.contains(&format!("/{name}\"")), "{name}: nobody reads it");
    }
}

/// Number of failures after which the rest of a document is skipped.
const MOST_FAILURES: usize = 9;

fn on_one_node(name: &str, document: &str, kubectl: Option<&str>) {
    read_with(name, document, kubectl, false);
}

fn on_two_nodes(name: &str, document: &str, kubectl: Option<&str>) {
    read_with(name, document, kubectl, true);
}

fn read_with(name: &str, document: &str, kubectl: Option<&str>, two: bool) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let text = fs::read_to_string(repository().join(document)).expect("the document is there");
    let steps = markdown::parse(&text).unwrap_or_else(|error| panic!("{document}: {error}"));
    assert!(!steps.is_empty(), "{document} has no command");
    let mut worlds = Vec::new();
    if two {
        let (one, other) = World::pair(name);
        worlds.extend([one, other]);
    } else {
        worlds.push(World::new(name));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let of_machine = |number: usize| folder.path().join(format!("machine-{}", number + 1));
    let readers = worlds.iter().enumerate();
    let mut readers: Vec<Reader> =
        readers.map(|(number, world)| Reader::new(world, of_machine(number), kubectl)).collect();
    let mut failures = Vec::new();
    for step in &steps {
        let Some(reader) = readers.get_mut(step.machine) else {
            panic!("{document}:{}: there is no machine {}", step.line, step.machine + 1);
        };
        if let Err(error) = reader.follow(step) {
            failures.push(format!("{document}:{}: {error}", step.line));
            // later steps mostly depend on earlier ones
            if failures.len() == MOST_FAILURES {
                break;
            }
        }
    }
    let logs: String = readers.iter().map(Reader::cluster_logs).collect();
    assert!(failures.is_empty(), "{}\n{logs}", failures.join("\n"));
}

fn repository() -> PathBuf {
    // cargo runs tests in the package's directory
    PathBuf::from("../..")
}
