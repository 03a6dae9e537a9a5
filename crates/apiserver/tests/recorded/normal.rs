//! Normalization: replaces what differs from run to run in recorded and received responses, such as
//! uids, recent times, tokens, generated names, allocated addresses and ports, resourceVersions,
//! and the order of causes.

use std::{borrow::Cow, sync::LazyLock};

use object::{Clock as _, SystemClock};
use regex::{Captures, Regex};

use super::json::Json;

/// Times within this many seconds of now are replaced.
const NEAR: i64 = 172_800;

struct Replacement(Regex, &'static str);

fn replacement(pattern: &str, by: &'static str) -> Replacement {
    Replacement(regex(pattern), by)
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a good pattern")
}

static TIMES: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"));
static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r"^(\d+y)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?$"));
static TEXTS: LazyLock<Vec<Replacement>> = LazyLock::new(|| {
    vec![
        replacement(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
        replacement(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", "<jwt>"),
        replacement(r"kube-api-access-[a-z0-9]{5}\b", "kube-api-access-<rand>"),
        replacement(r"\b10\.(?:96|200)\.\d{1,3}\.\d{1,3}\b", "<clusterIP>"),
        replacement(r"192\.0\.2\.10:6443\b", "192.0.2.10:<port>"),
        replacement(r"\n@@ -\d+[\s\S]*", "\n<diff>"),
        replacement(r"\((?:\d+[ydhms])+ ago\)", "(<age> ago)"),
        replacement(r"(current: )\d+", "${1}<rv>"),
        replacement(
            r"(in the precondition \()\d*(\) does not match the ResourceVersion in record \()\d+",
            "${1}<rv>${2}<rv>",
        ),
        replacement(
            r"(ResourceVersion in precondition: )\d+(, ResourceVersion in object meta: )\d+",
            "${1}<rv>${2}<rv>",
        ),
        replacement(r"(too old resource version: )\d+ \(\d+\)", "${1}<rv> (<rv>)"),
        replacement(r"\b((?:Bad_G|g)en-)[bcdfghjklmnpqrstvwxz2456789]{5}\b", "${1}<rand>"),
        replacement(r#"(resourceVersion\\*":\\*")\d+"#, "${1}<rv>"),
        replacement(r"(nodePort: Invalid value: )3\d{4}\b", "${1}<nodePort>"),
    ]
});

pub(crate) fn text(text: &str) -> String {
    let mut text = Cow::Borrowed(text);
    for Replacement(pattern, by) in &*TEXTS {
        if let Cow::Owned(changed) = pattern.replace_all(&text, *by) {
            text = Cow::Owned(changed);
        }
    }
    let now = SystemClock.now();
    TIMES
        .replace_all(&text, |found: &Captures<'_>| {
            let time = object::Time::parse_seconds(&found[0]);
            let near = time.is_some_and(|time| (time - now).abs() < NEAR);
            if near { "<time>".to_owned() } else { found[0].to_owned() }
        })
        .into_owned()
}

/// The value under `key`, normalized.
pub(crate) fn value(of: &Json, managed: bool, key: &str) -> Json {
    match of {
        Json::Text(found) => Json::Text(match key {
            "resourceVersion" | "observedResourceVersion" | "lastSyncResourceVersion"
                if !found.is_empty() && found != "0" =>
            {
                if found.bytes().all(|byte| byte.is_ascii_digit()) {
                    "<rv>".to_owned()
                } else {
                    text(found)
                }
            }
            "continue" if !found.is_empty() => "<continue>".to_owned(),
            "expirationTimestamp" => "<time>".to_owned(),
            _ => text(found),
        }),
        Json::List(items) => {
            Json::List(items.iter().map(|item| value(item, managed, key)).collect())
        }
        Json::Map(entries) => map(entries, managed, key),
        other => other.clone(),
    }
}

fn map(entries: &[(String, Json)], managed: bool, key: &str) -> Json {
    let mut out = vec![];
    for (name, of) in entries {
        let port = of.number().unwrap_or_default();
        let new = match name.as_str() {
            "managedFields" if key == "metadata" && !managed => continue,
            "managedFields" => sorted_managers(value(of, managed, name)),
            "nodePort" | "healthCheckNodePort" if (30_000.0..=32_767.0).contains(&port) => {
                Json::Text("<nodePort>".to_owned())
            }
            "targetPort" if of == &Json::Number("6443".to_owned()) => {
                Json::Text("<port>".to_owned())
            }
            _ => value(of, managed, name),
        };
        out.push((text(name), new));
    }
    let was = Json::Map(entries.to_vec());
    let mut out = Json::Map(out);
    let text_of = |key: &str| was.get(key).and_then(Json::text);
    if let (true, Some(prefix), Some(name)) =
        (key == "metadata", text_of("generateName"), text_of("name"))
    {
        let prefix = prefix.get(..58).unwrap_or(prefix);
        if name.starts_with(prefix) && name.len() == prefix.len() + 5 {
            out.set("name", Json::Text(format!("{prefix}<rand>")));
        }
    }
    match text_of("kind") {
        Some("Status") => causes(&mut out),
        Some("Table") => table(&mut out),
        _ => {}
    }
    out
}

fn sorted_managers(mut managers: Json) -> Json {
    if let Json::List(entries) = &mut managers {
        entries.sort_by_cached_key(|entry| {
            ["manager", "operation", "subresource", "apiVersion"]
                .map(|key| entry.get(key).and_then(Json::text).unwrap_or_default().to_owned())
        });
    }
    managers
}

/// Sorts the causes of a Status and their list in the message, because they have no order.
fn causes(status: &mut Json) {
    let Some(Json::List(causes)) =
        status.get_mut("details").and_then(|details| details.get_mut("causes"))
    else {
        return;
    };
    causes.sort_by_cached_key(sorted_print);
    if causes.len() < 2 {
        return;
    }
    if let Some(Json::Text(message)) = status.get_mut("message")
        && message.ends_with(']')
        && let Some(start) = message.find(" is invalid: [")
    {
        message.truncate(start);
        message.push_str(" is invalid: [<causes>]");
    }
}

/// Formats a value so that maps with equal content are equal.
pub(crate) fn sorted_print(value: &Json) -> String {
    let mut value = value.clone();
    if let Json::Map(entries) = &mut value {
        entries.sort_by(|a, b| a.0.cmp(&b.0));
    }
    value.print()
}

fn table(table: &mut Json) {
    if let Some(Json::List(columns)) = table.get_mut("columnDefinitions") {
        for column in columns {
            column.remove("description");
        }
    }
    let Some(Json::List(rows)) = table.get_mut("rows") else { return };
    for row in rows {
        let Some(Json::List(cells)) = row.get_mut("cells") else { continue };
        for cell in cells {
            if cell.text().is_some_and(|text| !text.is_empty() && AGE.is_match(text)) {
                *cell = Json::Text("<age>".to_owned());
            }
        }
    }
}
