//! Whether what documents name exists: the targets of links, the sections that they lead to, paths, and the functions
//! and types of files.

use std::{fs, path::Path, sync::LazyLock};

use regex::Regex;

use super::{files, root};

static LINK: LazyLock<Regex> = LazyLock::new(|| pattern(r"\[([^\[\]]*)\]\(([^()\s]+)\)"));
static CODE: LazyLock<Regex> = LazyLock::new(|| pattern(r"`([^`]+)`"));
/// A path in a code span, and the name that follows it, if there is one.
static PATH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"`((?:crates|tests|docs|bench|\.ci)/[^`\s]*)[^`]*`(?:, `([A-Za-z_]\w*)`)?")
});
static HEADING: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^#+ +(.*)$"));
/// A numbered step with its further lines.
static STEP: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^ *\d+\. .*(?:\n +[^\s\d].*|\n +\d+[^.\d].*)*"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a good pattern")
}

#[test]
fn what_documents_name_is_there() {
    let root = root();
    let mut wrong = Vec::new();
    files(&root, ".md", &mut |path, text| wrong.extend(check(&root, path, text)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_step_of_a_flow_names_a_function() {
    let mut wrong = Vec::new();
    let mut count = 0;
    files(&root().join("docs/flows"), ".md", &mut |path, text| {
        for step in STEP.find_iter(text) {
            count += 1;
            let mut links = LINK.captures_iter(step.as_str()).map(|link| link.extract::<2>().1);
            if !links.any(|[name, to]| name.starts_with('`') && file_ends(Path::new(to), ".rs")) {
                wrong.push(format!("{}: {}", path.display(), step.as_str()));
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 60, "only {count} steps");
}

#[test]
fn the_architecture_names_every_crate() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    for entry in fs::read_dir(root().join("crates")).expect("the folder of crates") {
        let name = entry.expect("readable").file_name().to_string_lossy().into_owned();
        assert!(text.contains(&format!("[{name}](crates/{name})")), "crates/{name} is missing");
    }
}

/// What a document names and is not there.
fn check(root: &Path, path: &Path, text: &str) -> Vec<String> {
    let folder = path.parent().expect("a file is in a folder");
    let text = without_code_blocks(text);
    let mut wrong = Vec::new();
    let place = path.strip_prefix(root).unwrap_or(path).display();
    for link in LINK.captures_iter(&text) {
        let (name, to) = link.extract::<2>().1.into();
        if to.contains("://") || to.starts_with("mailto:") {
            continue;
        }
        let (file, section) = to.split_once('#').unwrap_or((to, ""));
        let target = if file.is_empty() { path.to_owned() } else { folder.join(file) };
        if !target.exists() {
            wrong.push(format!("{place}: there is no {to}"));
        } else if !section.is_empty() && file_ends(&target, ".md") && !has_section(&target, section)
        {
            wrong.push(format!("{place}: there is no section {to}"));
        } else if file_ends(&target, ".rs") {
            let names = CODE.captures_iter(name).map(|code| code.extract::<1>().1[0]);
            let gone =
                names.filter(|name| !file_ends(Path::new(name), ".rs") && !defines(&target, name));
            wrong.extend(gone.map(|name| format!("{place}: there is no {name} in {to}")));
        }
    }
    for found in PATH.captures_iter(&text) {
        let named = found.get(1).map_or("", |path| path.as_str());
        let target = root.join(named.trim_end_matches([',', '.', ':', ')']));
        if is_placeholder(named) {
            continue;
        }
        if !target.exists() {
            wrong.push(format!("{place}: there is no {named}"));
        } else if let Some(name) = found.get(2).map(|name| name.as_str())
            && target.is_file()
            && !defines(&target, name)
        {
            wrong.push(format!("{place}: there is no {name} in {named}"));
        }
    }
    wrong
}

fn file_ends(path: &Path, ending: &str) -> bool {
    path.to_string_lossy().ends_with(ending)
}

/// Whether a path stands for several, such as `crates/CRATE` or `tests/*`.
fn is_placeholder(path: &str) -> bool {
    path.contains(['*', '…', '<', '{'])
        || path.split(['/', '.']).any(|part| {
            part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase()) && part != "README"
                || part == "X"
        })
}

/// Code blocks hold output and commands, which other tests run.
fn without_code_blocks(text: &str) -> String {
    let mut inside = false;
    let mut out = String::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        if !inside && !fence {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

fn defines(file: &Path, name: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let words = r"(?:fn|struct|enum|trait|type|const|static|mod|macro_rules!)";
    pattern(&format!(r"\b{words} {}\b", regex::escape(name))).is_match(&text)
}

/// Whether a document has this section, by the name that GitHub gives to its heading.
fn has_section(file: &Path, section: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    HEADING.captures_iter(&text).any(|heading| {
        let heading = heading.extract::<1>().1[0].to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).eq(section.chars())
    })
}

#[test]
fn what_is_gone_is_noticed() {
    let root = root();
    let text = "[`nothing`](crates/tiphys/src/main.rs) [x](no.md) [y](README.md#no-such-section) `crates/none.rs`\n\
                `crates/tiphys/src/main.rs`, `never` [`main`](crates/tiphys/src/main.rs) `crates/CRATE/x` [z](#here)\n# Here\n\
                ```\n[a](b)\n```\n";
    let wrong = check(&root, &root.join("README.md"), text);
    assert_eq!(wrong.len(), 6, "{wrong:#?}"); // README.md has no section `here`
}
