//! The recorded cases, and the list of those that are known to differ.

use std::{collections::HashMap, fs, path::PathBuf};

use regex::Regex;
use serde_json::Value;

/// The recorded cases.
pub(crate) struct Cases {
    /// Cases that need only an API server.
    pub(crate) cases: Vec<Case>,
    /// Names of cases that differ, each with the reason.
    pub(crate) differences: HashMap<String, String>,
}

/// A command line, its preconditions, and the recorded output.
pub(crate) struct Case {
    pub(crate) id: String,
    /// Whether the case changes objects: it runs alone, and the namespace `work` is emptied afterwards.
    pub(crate) mutates: bool,
    pub(crate) command: Recorded,
    /// Commands after it that print what it changed.
    pub(crate) after: Vec<Recorded>,
    pub(crate) setup: Vec<Vec<String>>,
    pub(crate) cleanup: Vec<Vec<String>>,
    pub(crate) files: Vec<(String, String)>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) stdin: Option<String>,
    /// Number of lines of the output to compare; `None`: all.
    pub(crate) head: Option<usize>,
    /// Whether lines of the output are compared regardless of their order.
    pub(crate) sort: bool,
    /// Patterns that are replaced in this case only.
    pub(crate) sub: Vec<(Regex, String)>,
}

/// A command line and its recorded output.
pub(crate) struct Recorded {
    pub(crate) args: Vec<String>,
    pub(crate) output: Printed,
}

/// The normalised output of a command.
#[derive(PartialEq)]
pub(crate) struct Printed {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i64,
}

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/recorded/kubectl"))
}

fn read(name: &str) -> String {
    let path = folder().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Cases {
    pub(crate) fn read() -> Self {
        let cases = Self::parse(&read("cases.jsonl"));
        let differences: HashMap<_, _> = read("differences.tsv")
            .lines()
            .map(|line| line.split_once('\t').expect("a name and a reason"))
            .map(|(id, reason)| (id.to_owned(), reason.to_owned()))
            .collect();
        for id in differences.keys() {
            assert!(cases.iter().any(|case| case.id == *id), "differences.tsv: no case {id}");
        }
        Self { cases, differences }
    }

    /// The cases of a text that need only an API server.
    pub(crate) fn parse(lines: &str) -> Vec<Case> {
        let all =
            lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
        let of_api_server = all.filter(|case| case.get("needs").is_none());
        of_api_server.map(|case| Case::new(&case)).collect()
    }
}

impl Case {
    /// Reads a case that has no output yet.
    pub(crate) fn unrecorded(mut case: Value) -> Self {
        let blank = |of: &mut Value| {
            (of["stdout"], of["stderr"], of["code"]) = ("".into(), "".into(), 0.into());
        };
        blank(&mut case);
        case["after"].as_array_mut().into_iter().flatten().for_each(blank);
        Self::new(&case)
    }

    fn new(case: &Value) -> Self {
        let is_set = |key: &str| case[key].as_bool().unwrap_or_default();
        let sub = items(&case["sub"]).iter().map(|pair| {
            let [pattern, by] = &texts(pair)[..] else {
                panic!("a pattern and a replacement: {pair}")
            };
            (Regex::new(pattern).expect("a good pattern"), by.replace("\\1", "${1}"))
        });
        Self {
            id: text(&case["id"]),
            mutates: is_set("mutates"),
            command: Recorded::new(case),
            after: items(&case["after"]).iter().map(Recorded::new).collect(),
            setup: items(&case["setup"]).iter().map(texts).collect(),
            cleanup: items(&case["cleanup"]).iter().map(texts).collect(),
            files: pairs(&case["files"]),
            env: pairs(&case["env"]),
            stdin: case["stdin"].as_str().map(str::to_owned),
            head: case["head"]
                .as_u64()
                .map(|lines| usize::try_from(lines).expect("a number of lines")),
            sort: is_set("sort"),
            sub: sub.collect(),
        }
    }
}

impl Recorded {
    fn new(of: &Value) -> Self {
        let output = Printed {
            stdout: text(&of["stdout"]),
            stderr: text(&of["stderr"]),
            code: of["code"].as_i64().expect("every command has an exit code"),
        };
        Self { args: texts(&of["args"]), output }
    }
}

fn items(of: &Value) -> &[Value] {
    of.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(of: &Value) -> String {
    of.as_str().unwrap_or_else(|| panic!("a text: {of}")).to_owned()
}

fn texts(of: &Value) -> Vec<String> {
    items(of).iter().map(text).collect()
}

fn pairs(of: &Value) -> Vec<(String, String)> {
    of.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
}
