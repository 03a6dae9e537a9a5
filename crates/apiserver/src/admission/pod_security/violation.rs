//! Formatting of Pod Security violations.

use std::collections::BTreeSet;

/// A violated check: the reason, and the containers and fields that violate it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: String,
    pub(super) detail: String,
}

impl Violation {
    #[expect(clippy::unnecessary_wraps, reason = "each check gives what is broken, or nothing")]
    pub(super) fn new(reason: &str, detail: String) -> Option<Self> {
        Some(Self { reason: reason.to_owned(), detail })
    }
}

/// The violations with their details.
pub(super) fn detailed(broken: &[Violation]) -> String {
    let each = broken.iter().map(|Violation { reason, detail }| match &**detail {
        "" => reason.clone(),
        detail => format!("{reason} ({detail})"),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The violations without their details.
pub(super) fn plain(broken: &[Violation]) -> String {
    broken.iter().map(|one| &*one.reason).collect::<Vec<_>>().join(", ")
}

pub(super) fn quoted<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| format!("\"{item}\"")).collect();
    items.join(", ")
}

pub(super) fn plural<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// The containers as text: `container "a"` or `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    let word = plural(names.len(), "container", "containers");
    format!("{word} {}", quoted(names.iter().copied()))
}

/// The pod, some containers, or both, as the subject of a message.
pub(super) fn describe_setters(pod: bool, names: &[&str]) -> String {
    let mut all = Vec::new();
    if pod {
        all.push("pod".to_owned());
    }
    if !names.is_empty() {
        all.push(containers(names));
    }
    all.join(" and ")
}

/// The distinct values, quoted and sorted.
pub(super) fn list(values: &BTreeSet<String>) -> String {
    quoted(values.iter().map(String::as_str))
}
