//! Lengths of files and functions, and how much of the code is tests: measured in the sources, with limits.
//! `cargo test -p structure figures -- --nocapture` prints them by crate.

use std::{collections::BTreeMap, fmt, path::Path, sync::LazyLock};

use regex::Regex;

use super::{files, root};

/// Longest file, in lines. A file is one idea in about 200 lines; past 400 it is usually two.
const LONGEST_FILE: usize = 660;
const LONG_FILE: usize = 400;
/// Files that may be long, in a thousand.
const LONG_FILES: usize = 65;
/// Half of the files are at most this long.
const MEDIAN_FILE: usize = 200;
/// Longest function, in lines. A function fits on a screen.
const LONGEST_FUNCTION: usize = 155;
const LONG_FUNCTION: usize = 60;
/// Functions that may be long, in a thousand.
const LONG_FUNCTIONS: usize = 10;
/// Lines of tests for a thousand lines of code, at least. What tests notice is measured by `tests/coverage/run`.
const TESTS: usize = 270;

static FUNCTION: LazyLock<Regex> = LazyLock::new(|| {
    let words = r#"(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?(?:unsafe )?(?:extern "C" )?"#;
    Regex::new(&format!(r"^( *){words}fn (\w+)")).expect("a good pattern")
});

/// The figures of a crate, or of all crates.
#[derive(Default)]
struct Figures {
    code: usize,
    tests: usize,
    /// Length and path of each file.
    files: Vec<(usize, String)>,
    /// Length, file and name of each function.
    functions: Vec<(usize, String)>,
}

#[test]
fn figures_are_within_their_limits() {
    let mut crates: BTreeMap<String, Figures> = BTreeMap::new();
    let root = root();
    for folder in ["crates", "bench"] {
        files(&root.join(folder), ".rs", &mut |path, text| {
            let path = path.strip_prefix(&root).expect("a file of the repository");
            let name = if folder == "bench" { "bench".into() } else { crate_name(path) };
            crates.entry(name).or_default().add(path, text);
        });
    }
    println!("{:12} {:>6} {:>6} {:>6}  longest file", "crate", "code", "tests", "files");
    let mut all = Figures::default();
    for (name, figures) in crates {
        println!("{name:12} {figures}");
        all.join(figures);
    }
    println!("{:12} {all}", "together");
    let wrong = all.check();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn crate_name(path: &Path) -> String {
    path.iter().nth(1).unwrap_or_default().to_string_lossy().into_owned()
}

impl Figures {
    fn add(&mut self, path: &Path, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        let place = path.display().to_string();
        let in_tests = place.contains("/tests/") || place.ends_with("/tests.rs");
        let is_test = |line: &&str| line.starts_with("#[cfg(test)]") || line.starts_with("#[test]");
        let code =
            if in_tests { 0 } else { lines.iter().take_while(|line| !is_test(line)).count() };
        self.code += code;
        self.tests += lines.len() - code;
        for (length, name) in functions(&lines) {
            self.functions.push((length, format!("{place}: {name}")));
        }
        self.files.push((lines.len(), place));
    }

    fn join(&mut self, other: Self) {
        self.code += other.code;
        self.tests += other.tests;
        self.files.extend(other.files);
        self.functions.extend(other.functions);
    }

    /// What is beyond its limit.
    fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (what, measured, longest) in
            [("file", &self.files, LONGEST_FILE), ("function", &self.functions, LONGEST_FUNCTION)]
        {
            let long = measured.iter().filter(|(length, _)| *length > longest);
            wrong.extend(long.map(|(length, place)| {
                format!("{place}: {length} lines; a {what} has at most {longest}")
            }));
        }
        for (what, measured, long, allowed) in [
            ("files", &self.files, LONG_FILE, LONG_FILES),
            ("functions", &self.functions, LONG_FUNCTION, LONG_FUNCTIONS),
        ] {
            let count = measured.iter().filter(|(length, _)| *length > long).count();
            if count * 1000 > allowed * measured.len() {
                let all = measured.len();
                wrong.push(format!(
                    "{count} of {all} {what} have more than {long} lines; {allowed} in a thousand may"
                ));
            }
        }
        let median = median(&self.files);
        if median > MEDIAN_FILE {
            wrong.push(format!(
                "half of the files have more than {median} lines, not {MEDIAN_FILE}"
            ));
        }
        if self.tests * 1000 < self.code * TESTS {
            let (tests, code) = (self.tests, self.code);
            wrong
                .push(format!("{tests} lines of tests for {code} of code; {TESTS} for a thousand"));
        }
        wrong
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (length, place) = self.files.iter().max().cloned().unwrap_or_default();
        let over = |all: &[(usize, String)], long| all.iter().filter(|(n, _)| *n > long).count();
        let files = over(&self.files, LONG_FILE);
        let functions = over(&self.functions, LONG_FUNCTION);
        write!(
            f,
            "{:6} {:6} {:6}  {length} {place}; {files} files over {LONG_FILE}, {functions} functions over {LONG_FUNCTION}",
            self.code,
            self.tests,
            self.files.len(),
        )
    }
}

fn median(files: &[(usize, String)]) -> usize {
    let mut lengths: Vec<usize> = files.iter().map(|(length, _)| *length).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied().unwrap_or_default()
}

/// Length and name of each function with a body. rustfmt puts the last brace under the first word.
fn functions<'a>(lines: &[&'a str]) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, &str, &str)> = None;
    for (at, line) in lines.iter().enumerate() {
        if let Some((start, indent, name)) = open {
            let Some(rest) = line.strip_prefix(indent) else { continue };
            if rest.starts_with('}') {
                found.push((at - start + 1, name));
                open = None;
            } else if rest.starts_with(')') && rest.ends_with(';') {
                open = None; // a declaration without a body
            }
        } else if let Some(function) = FUNCTION.captures(line) {
            let (indent, name) = function.extract::<2>().1.into();
            if line.ends_with('{') || line.ends_with('(') || line.ends_with('<') {
                open = Some((at, indent, name));
            } else if !line.ends_with(';') {
                found.push((1, name));
            }
        }
    }
    found
}

#[test]
fn functions_are_measured_by_their_braces() {
    let text = "fn one() {}\n\npub(crate) async fn two(\n    a: u8,\n) -> u8 {\n    if a {\n    }\n    a\n}\n\
                trait T {\n    fn three(&self);\n    fn four(\n        &self,\n    ) -> u8;\n    const fn five() {\n        x()\n    }\n}\n";
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(functions(&lines), [(1, "one"), (7, "two"), (3, "five")]);
}

#[test]
fn what_is_too_long_is_named() {
    let mut figures = Figures::default();
    figures.add(Path::new("crates/x/src/lib.rs"), &"code\n".repeat(LONGEST_FILE + 1));
    let body = "    x();\n".repeat(LONGEST_FUNCTION);
    figures.add(Path::new("crates/x/src/a.rs"), &format!("fn long() {{\n{body}}}\n"));
    let wrong = figures.check().join("\n");
    for part in
        ["crates/x/src/lib.rs: 661 lines", "crates/x/src/a.rs: long: 157 lines", "0 lines of tests"]
    {
        assert!(wrong.contains(part), "{part}: {wrong}");
    }
}
