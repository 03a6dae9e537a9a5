//! Normalisation of output: replaces what differs from run to run, such as uids, recent timestamps, ages, tokens,
//! generated names, allocated addresses and ports, resourceVersions and paths. The recorded output was normalised by
//! the same rules.

use std::{borrow::Cow, sync::LazyLock};

use jiff::{Timestamp, fmt::rfc2822};
use regex::{Captures, Regex};

use super::table;

/// Timestamps within this many seconds of now are replaced.
const NEAR: i64 = 172_800;

/// Node ports that the test objects set explicitly.
const FIXED_PORTS: [&str; 4] = ["30080", "30053", "30443", "30081"];

/// Normalises the output of one run.
pub(crate) struct Normal {
    /// Paths and addresses of this run, with their placeholders in the recorded output.
    pub(crate) places: Vec<(String, &'static str)>,
    /// Whether this is output of `kubectl explain`, of which descriptions are dropped.
    pub(crate) explain: bool,
}

pub(crate) fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a good pattern")
}

/// Patterns that are replaced before timestamps.
static FIRST: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    vec![
        (regex(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uid>"),
        (regex(r"^([EWIF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.]+:\d+\]"), "${1}<log>"),
    ]
});

/// Patterns that are replaced after timestamps, before addresses and ports.
static SECOND: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    vec![
        (regex(r#"((?:"?resourceVersion"?|ResourceVersion): *"?)[1-9]\d*"#), "${1}<rv>"),
        (regex(r#"(resourceVersion\\":\\")[1-9]\d*"#), "${1}<rv>"),
        (regex(r"^(\s*Resource Version: +)\d+$"), "${1}<rv>"),
        (regex(r"(Expected resource version to be \d+, was )\d+"), "${1}<rv>"),
        (regex(r"X509SHA256=[0-9a-f]{64}"), "X509SHA256=<hash>"),
        (
            regex(
                r#"^(\s*"?(?:buildDate|compiler|gitCommit|gitTreeState|goVersion|platform)"?: )"?[^",]*"?"#,
            ),
            "${1}<build>",
        ),
        (regex(r"eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"), "<jwt>"),
        (regex(r"kube-api-access-[a-z0-9]{5}\b"), "kube-api-access-<rand>"),
        (regex(r"(/|\b)(LIVE|MERGED|LAST)-\d+"), "${1}${2}-<rand>"),
        (regex(r"kubectl-edit-\d+"), "kubectl-edit-<rand>"),
    ]
});

/// Patterns that are replaced last.
static LAST: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    vec![
        (regex(r"map\[string\]interface \{\}\{.*"), "<go value>"),
        (regex(r#"^(\s+)\{"apiVersion":.*"managedFields":.*"#), "${1}<json>"),
        (regex(r"\((?:\d+[ydhms])+ ago\)"), "(<age> ago)"),
        (regex(r"^(\s*(?:Duration|Age):\s+)(?:\d+[ydhms])+$"), "${1}<age>"),
        (
            regex(r"\b(debugger|node-debugger-[a-z0-9-]+)-[bcdfghjklmnpqrstvwxz2456789]{5}\b"),
            "${1}-<rand>",
        ),
    ]
});

static STAMP: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"));
static RFC1123: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}")
});
static GO_TIME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b(20\d\d-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d+)? [+-]\d{4}(?: UTC)?"));
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| regex(r"\b10\.(?:96|77)\.\d{1,3}\.\d{1,3}\b"));
static FIXED_ADDRESS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:10\.96\.(?:0\.1|0\.10|0\.0|7\.\d+)|10\.77\.0\.0)$"));
static NODE_PORT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(nodePort"?: |healthCheckNodePort"?: |HealthCheck NodePort: +|:|NodePort: +\S+ +)(3[0-2]\d{3})\b"#,
    )
});
/// The log line of a reflector about a watch that ended within a second.
static SHORT_WATCH: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?m)^[EWI]\d{4} \d\d:\d\d:\d\d.*reflector\.go.*\n"));

impl Normal {
    /// Normalises an output of kubectl.
    pub(crate) fn text(&self, text: &str) -> String {
        let text = if self.explain { structure(text) } else { text.to_owned() };
        let text = SHORT_WATCH.replace_all(&text, "");
        let (lines, mut out, mut at) = (text.split('\n').collect::<Vec<_>>(), vec![], 0);
        while at < lines.len() {
            let end = at + table::length(&lines[at..]);
            if let Some(rows) = table::align(self, &lines[at..end]) {
                out.extend(rows);
                at = end;
            } else {
                out.push(self.line(lines[at]));
                at += 1;
            }
        }
        out.join("\n")
    }

    /// Normalises a line or a table cell.
    pub(crate) fn line(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (place, name) in &self.places {
            line = line.replace(place, name);
        }
        replace(&mut line, &FIRST);
        change(&mut line, &STAMP, |found| is_near(found[0].parse().ok()).then(|| "<time>".into()));
        change(&mut line, &RFC1123, |found| {
            let time = rfc2822::parse(&found[0]).ok().map(|time| time.timestamp());
            is_near(time).then(|| "<time>".into())
        });
        change(&mut line, &GO_TIME, |found| {
            let time = format!("{}T{}Z", &found[1], &found[2]).parse().ok();
            is_near(time).then(|| "<time>".into())
        });
        replace(&mut line, &SECOND);
        change(&mut line, &ADDRESS, |found| {
            (!FIXED_ADDRESS.is_match(&found[0])).then(|| "<clusterIP>".into())
        });
        change(&mut line, &NODE_PORT, |found| {
            (!FIXED_PORTS.contains(&&found[2])).then(|| format!("{}<nodePort>", &found[1]))
        });
        replace(&mut line, &LAST);
        line
    }
}

fn replace(line: &mut String, by: &[(Regex, &str)]) {
    for (pattern, by) in by {
        if let Cow::Owned(changed) = pattern.replace_all(line, *by) {
            *line = changed;
        }
    }
}

/// Replaces the matches for which `by` returns a replacement.
fn change(line: &mut String, pattern: &Regex, by: impl Fn(&Captures<'_>) -> Option<String>) {
    let replaced = pattern
        .replace_all(line, |found: &Captures<'_>| by(found).unwrap_or_else(|| found[0].to_owned()));
    if let Cow::Owned(changed) = replaced {
        *line = changed;
    }
}

fn is_near(time: Option<Timestamp>) -> bool {
    time.is_some_and(|time| (time.as_second() - Timestamp::now().as_second()).abs() < NEAR)
}

/// Reduces output of `kubectl explain` to field names, types, markers and enum values.
fn structure(text: &str) -> String {
    let (mut out, mut section) = (String::new(), "");
    for line in text.split('\n') {
        if line.starts_with(|first: char| !first.is_whitespace()) {
            section = line;
        }
        let is_description = line.starts_with("   ") && !line.contains("\t<");
        if !line.trim().is_empty() && (section == "ENUM:" || !is_description) {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}
