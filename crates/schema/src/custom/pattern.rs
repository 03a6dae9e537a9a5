//! Regular expressions of schemas, as Go reads them.

use regex::Regex;

/// What a compiled expression may take in memory.
const SIZE: usize = 1 << 20;

/// An expression, or why it is none.
#[derive(Debug)]
pub(super) struct Pattern {
    text: String,
    compiled: Result<Regex, String>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), compiled: compile(text) }
    }

    /// The error is what should have been matched.
    pub(super) fn check(&self, value: &str) -> Result<(), String> {
        match &self.compiled {
            Ok(pattern) if pattern.is_match(value) => Ok(()),
            Ok(_) => Err(self.text.clone()),
            Err(why) => Err(format!("{}, but pattern is invalid: {why}", self.text)),
        }
    }
}

/// The error is Go's.
pub(super) fn compile(text: &str) -> Result<Regex, String> {
    let pattern = regex::RegexBuilder::new(text).size_limit(SIZE).build();
    pattern.map_err(|error| format!("error parsing regexp: {}", explain(text, &error)))
}

/// What Go says of the same mistake.
fn explain(text: &str, error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return "expression too large".to_owned();
    }
    if let Some(at) = ["(?=", "(?!", "(?<=", "(?<!"].iter().filter_map(|look| text.find(look)).min()
    {
        let end = if text[at..].starts_with("(?<") { 4 } else { 3 };
        return format!("invalid or unsupported Perl syntax: `{}`", &text[at..at + end]);
    }
    let said = error.to_string();
    let has = |words: &str| said.contains(words);
    if has("unclosed group") {
        format!("missing closing ): `{text}`")
    } else if has("unopened group") {
        format!("unexpected ): `{text}`")
    } else if has("unclosed character class") {
        let from = text.rfind('[').unwrap_or_default();
        format!("missing closing ]: `{}`", &text[from..])
    } else if has("repetition operator missing expression") {
        let at = text.find(['*', '+', '?']).unwrap_or_default();
        let end = (at + 1).min(text.len());
        format!("missing argument to repetition operator: `{}`", &text[at..end])
    } else if has("invalid character class range") {
        format!("invalid character class range: `{}`", range_in(text))
    } else if has("incomplete escape sequence") {
        "trailing backslash at end of expression: ``".to_owned()
    } else if has("unrecognized escape sequence") || has("backreferences are not supported") {
        let at = text.find('\\').unwrap_or_default();
        let escape: String = text[at..].chars().take(2).collect();
        format!("invalid escape sequence: `{escape}`")
    } else {
        format!("invalid regular expression: `{text}`")
    }
}

/// The first range that ends before it begins.
fn range_in(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let found = chars.windows(3).find(|part| part[1] == '-' && part[0] > part[2]);
    found.map(|part| part.iter().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told_as_go_tells_them() {
        for (text, why) in [
            ("(", "missing closing ): `(`"),
            ("[a", "missing closing ]: `[a`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("[z-a]", "invalid character class range: `z-a`"),
        ] {
            let error = compile(text).map(drop).expect_err(text);
            assert_eq!(error, format!("error parsing regexp: {why}"), "{text}");
        }
    }
}
