//! Cells that several kinds show alike.

use object::{LabelSelector, Lens, Map, Value, selector::Selector};

use crate::core::PodSpec;

/// What a cell without content shows.
pub(crate) const NONE: &str = "<none>";

/// `text`, or that there is none.
pub(crate) fn text_or_none(text: &str) -> Value {
    if text.is_empty() { NONE.into() } else { text.into() }
}

/// `text`, or the placeholder for a value that is not set.
pub(crate) fn text_or_unset(text: &str) -> Value {
    if text.is_empty() { "<unset>".into() } else { text.into() }
}

pub(crate) fn containers(spec: &PodSpec) -> Value {
    join(spec.containers().iter().map(super::core::container::Container::name)).into()
}

pub(crate) fn images(spec: &PodSpec) -> Value {
    join(spec.containers().iter().map(super::core::container::Container::image)).into()
}

pub(crate) fn labels(labels: &Map<String>) -> Value {
    text_or_none(&join(labels.iter().map(|(name, value)| format!("{name}={value}"))))
}

pub(crate) fn selector(selector: Option<&LabelSelector>) -> Value {
    match Selector::from_label_selector(selector.map_or(&Value::Null, Lens::tree)) {
        Ok(selector) => text_or_none(&selector.to_string()),
        Err(_) => "<error>".into(),
    }
}

/// The first three, and how many more there are.
pub(crate) fn first_three(all: &[String]) -> String {
    match all.len() {
        0..=3 => all.join(","),
        n => format!("{} + {} more...", all[..3].join(","), n - 3),
    }
}

pub(crate) fn join<T: Into<String>>(parts: impl Iterator<Item = T>) -> String {
    parts.map(Into::into).collect::<Vec<_>>().join(",")
}
