//! Placeholders in the texts of bodies: for values that are too large or too deep to be kept as a tree, and for
//! values that only the running server knows. A placeholder is a JSON string: `"⟦deep 4000 object⟧"`.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// Maximum size in bytes of a body after expansion: twice what the server accepts.
const LARGEST: usize = 8 << 20;

/// What a placeholder nests: the opening of a level, the innermost value, the closing of a level.
const NESTS: &[(&str, [&str; 3])] = &[
    ("object", [r#"{"a":"#, "1", "}"]),
    ("list", ["[", "", "]"]),
    ("fields", [r#"{"f:a":"#, "{}", "}"]),
    ("properties", [r#"{"type":"object","properties":{"a":"#, r#"{"type":"string"}"#, "}}"]),
    ("items", [r#"{"type":"array","items":"#, r#"{"type":"string"}"#, "}"]),
    ("map", [r#"{"type":"object","additionalProperties":"#, r#"{"type":"string"}"#, "}"]),
    ("not", [r#"{"not":"#, r#"{"type":"string"}"#, "}"]),
    ("allOf", [r#"{"allOf":["#, r#"{"type":"string"}"#, "]}"]),
    // within strings: expressions, patterns, paths
    ("parentheses", ["(", "1", ")"]),
    ("brackets", ["[", "1", "]"]),
    ("minus", ["-", "1", ""]),
    ("bang", ["!", "true", ""]),
    ("ternary", ["true ? 1 : ", "1", ""]),
    ("plus", ["1 + ", "1", ""]),
    ("fieldpath", ["a.", "a", ""]),
    ("quantifier", ["(a", "b", "{1,9})"]),
    ("alternation", ["(a|", "b", ")*"]),
];

/// Looks up values of the running server: `uid PATH`, `version PATH`, `hostile`, `hostile-ca`.
pub(crate) trait Known {
    fn lookup(&self, word: &str, argument: &str) -> Option<String>;
}

/// A lookup without values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nothing;

impl Known for Nothing {
    fn lookup(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// Replaces the placeholders of a text.
pub(crate) fn expand(text: &str, known: &dyn Known) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('⟦') {
        let Some((inside, behind)) = after.split_once('⟧') else { break };
        out.extend(before.as_bytes());
        let mut words = inside.splitn(3, ' ');
        let (word, first) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let second = words.next().unwrap_or_default();
        let whole = out.last() == Some(&b'"') && behind.starts_with('"');
        let replaced = replace(word, first, second, known);
        let is_value =
            !matches!(word, "long" | "nest" | "uid" | "version" | "hostile" | "hostile-ca");
        rest = if whole && is_value {
            out.pop();
            &behind[1..]
        } else {
            behind
        };
        out.extend(replaced.as_bytes().iter().take(LARGEST.saturating_sub(out.len())));
    }
    out.extend(rest.as_bytes());
    out
}

/// Expands one placeholder. `deep N KIND` nests JSON, `nest N KIND` nests text within a string, `long N TEXT` repeats
/// a text, `many N TEXT` is a list of copies in which `#` is the index, `keys N` is a map with many keys, `raw TEXT`
/// is not quoted.
fn replace(word: &str, first: &str, second: &str, known: &dyn Known) -> String {
    let count = first.parse::<usize>().unwrap_or_default().min(LARGEST);
    match word {
        "deep" | "nest" => {
            let nest = NESTS.iter().find(|(name, _)| *name == second).unwrap_or(&NESTS[0]);
            let [open, inner, close] = nest.1;
            let count = count.min(LARGEST / (open.len() + close.len()).max(1));
            [&open.repeat(count), inner, &close.repeat(count)].concat()
        }
        "long" => second.repeat(count.min(LARGEST / second.len().max(1))),
        "many" => {
            let item = URL_SAFE_NO_PAD.decode(second).unwrap_or_default();
            let item = String::from_utf8(item).unwrap_or_default();
            let count = count.min(LARGEST / (item.len() + 8));
            let items: Vec<_> = (0..count).map(|n| item.replace('#', &n.to_string())).collect();
            format!("[{}]", items.join(","))
        }
        "keys" => {
            let keys: Vec<_> =
                (0..count.min(LARGEST / 16)).map(|n| format!(r#""k{n}":"v""#)).collect();
            format!("{{{}}}", keys.join(","))
        }
        "raw" => [first, if second.is_empty() { "" } else { " " }, second].concat(),
        word => known.lookup(word, first).unwrap_or_default(),
    }
}

/// A placeholder for a list of `count` copies of a JSON text, in which `#` is the index.
pub(crate) fn many(count: usize, item: &str) -> String {
    format!("⟦many {count} {}⟧", URL_SAFE_NO_PAD.encode(item))
}

#[test]
fn placeholders_become_what_they_say() {
    let text = |text: &str| String::from_utf8(expand(text, &Nothing)).expect("text");
    assert_eq!(
        text(r#"{"a":"⟦deep 2 object⟧","b":"x⟦long 3 y⟧"}"#),
        r#"{"a":{"a":{"a":1}},"b":"xyyy"}"#
    );
    assert_eq!(text(r#"["⟦raw 1e400⟧","⟦nest 2 parentheses⟧"]"#), r#"[1e400,"((1))"]"#);
    assert_eq!(text(&format!("\"{}\"", many(2, r#"{"n":#}"#))), r#"[{"n":0},{"n":1}]"#);
    assert_eq!(text(r#"{"uid":"⟦uid /x⟧"}"#), r#"{"uid":""}"#);
    assert_eq!(expand("⟦long 99999999 aaaa⟧", &Nothing).len(), LARGEST);
}
