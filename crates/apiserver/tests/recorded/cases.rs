//! The recorded cases, the base objects of their requests, and their fixtures.

use std::{collections::HashMap, fs, path::PathBuf};

use regex::Captures;

use super::json::Json;

/// Values of earlier responses, by name.
pub(crate) type Saved = HashMap<String, Json>;

/// The cases of a corpus, and what they need.
pub(crate) struct Cases {
    pub(crate) cases: Vec<Json>,
    pub(crate) bases: HashMap<String, Json>,
    pub(crate) fixtures: HashMap<String, Json>,
    pub(crate) prelude: Vec<Json>,
    /// Cases that are known to differ, each with its reason.
    pub(crate) differences: HashMap<String, String>,
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/recorded/requests"))
}

fn lines(name: &str) -> Vec<Json> {
    let path = folder().join(name);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| Json::parse(line).unwrap_or_else(|| panic!("{name}: {line}"))).collect()
}

fn by_name(rows: Vec<Json>) -> impl Iterator<Item = (String, Json)> {
    rows.into_iter().map(|row| (field(&row, "name").to_owned(), row))
}

/// A string field that every case has.
pub(crate) fn field<'a>(of: &'a Json, key: &str) -> &'a str {
    of.get(key).and_then(Json::text).unwrap_or_else(|| panic!("no {key} in {}", of.print()))
}

impl Cases {
    /// The cases of a corpus that were recorded with this configuration of the server.
    pub(crate) fn read(corpus: &str, configuration: &str) -> Self {
        let fixtures = ["crds", "patches", "requests", "updates"]
            .map(|name| lines(&format!("support/fixtures-{name}.jsonl")));
        let bases = by_name(lines("support/bases.jsonl"));
        let fits = |case: &Json| {
            let recorded = case.get("config").and_then(Json::text).unwrap_or("default");
            recorded == configuration || recorded == "any"
        };
        let prefix = format!("{corpus}/");
        let differences =
            fs::read_to_string(folder().join("differences.tsv")).expect("it is there");
        let differences = differences.lines().filter_map(|line| {
            let (id, reason) = line.split_once('\t').expect("an id and a reason");
            Some((id.strip_prefix(&prefix)?.to_owned(), reason.to_owned()))
        });
        Self {
            cases: lines(&format!("{corpus}.jsonl")).into_iter().filter(fits).collect(),
            bases: bases
                .map(|(name, row)| (name, row.get("body").cloned().unwrap_or(Json::Null)))
                .collect(),
            fixtures: fixtures.into_iter().flat_map(by_name).collect(),
            prelude: lines("support/prelude.jsonl"),
            differences: differences.collect(),
        }
    }
}

/// The recorded response, with the fields that every failure has.
pub(crate) fn recorded(case: &Json) -> Json {
    let mut answer = case.get("response").cloned().expect("every case has an answer");
    let Some(mut body) = answer.get("failure").cloned() else { return answer };
    answer.remove("failure");
    for (key, value) in [("apiVersion", "v1"), ("kind", "Status"), ("status", "Failure")] {
        body.set(key, Json::Text(value.to_owned()));
    }
    body.set("metadata", Json::Map(vec![]));
    body.set("code", answer.get("code").cloned().expect("every answer has a code"));
    answer.set("body", body);
    answer
}

/// Replaces `${name}` by saved values, and expands `$repeat`.
pub(crate) fn substitute(value: &Json, saved: &Saved) -> Json {
    match value {
        Json::Text(text) => {
            let whole = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
            match whole.and_then(|name| saved.get(name)) {
                Some(value) => value.clone(),
                None => Json::Text(fill(text, saved)),
            }
        }
        Json::List(items) => Json::List(items.iter().map(|item| substitute(item, saved)).collect()),
        Json::Map(entries) => match entries.as_slice() {
            [(key, Json::List(repeat))] if key == "$repeat" => repeated(repeat),
            _ => Json::Map(
                entries
                    .iter()
                    .map(|(key, value)| (fill(key, saved), substitute(value, saved)))
                    .collect(),
            ),
        },
        other => other.clone(),
    }
}

fn repeated(repeat: &[Json]) -> Json {
    let [what, Json::Number(times)] = repeat else { panic!("what, and how often: {repeat:?}") };
    let times = times.parse().expect("a number of times");
    match what {
        Json::Text(text) => Json::Text(text.repeat(times)),
        Json::List(items) => {
            Json::List(items.iter().cloned().cycle().take(items.len() * times).collect())
        }
        other => panic!("{other:?} cannot be repeated"),
    }
}

/// The text with `${name}` replaced by saved values.
pub(crate) fn fill(text: &str, saved: &Saved) -> String {
    if !text.contains("${") {
        return text.to_owned();
    }
    let names = regex::Regex::new(r"\$\{([A-Za-z0-9_.-]+)\}").expect("a good pattern");
    let value = |found: &Captures<'_>| match saved.get(&found[1]) {
        Some(Json::Text(text)) => text.clone(),
        Some(other) => other.print(),
        None => found[0].to_owned(),
    };
    names.replace_all(text, value).into_owned()
}
