//! Field selectors.

use std::fmt;

use super::SelectorError;
use crate::Text;

/// A field selector: requirements on fields that the server supports by name; all must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    pub terms: Vec<FieldTerm>,
}

/// One requirement on a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    pub field: Text,
    pub value: Text,
    /// Whether the field must be equal or unequal to the value.
    pub equal: bool,
}

impl FieldSelector {
    /// Parses `a.b=c,d!=e`, with `\` before `,`, `=` and `\` in values.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (field, equal, value) = split_term(part).ok_or_else(|| {
                SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            terms.push(FieldTerm { field: field.into(), value: unescape(value)?, equal });
        }
        Ok(Self { terms })
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether the selector matches fields that `field` looks up; an absent field is an empty string.
    pub fn matches(&self, field: impl Fn(&str) -> Text) -> bool {
        self.terms.iter().all(|term| (field(&term.field) == term.value) == term.equal)
    }

    /// The value that the selector requires for `field`, if any.
    pub fn required_value(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| &*term.value)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            let value = term.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{}{}{value}", term.field, if term.equal { "=" } else { "!=" })?;
        }
        Ok(())
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    let separates = |c: char| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    };
    text.split(separates).collect()
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let (left, right) = term.split_once('=')?;
    // The first operator counts, and `!=` begins before its `=`.
    if let Some(field) = left.strip_suffix('!') {
        return Some((field, false, right));
    }
    Some((left, true, right.strip_prefix('=').unwrap_or(right)))
}

fn unescape(value: &str) -> Result<Text, SelectorError> {
    let wrong = |text: String| SelectorError(format!("invalid field selector: {text}"));
    let (mut out, mut escaped) = (Text::default(), false);
    for c in value.chars() {
        match c {
            '\\' | ',' | '=' if escaped => out.push(c),
            c if escaped => return Err(wrong(format!("invalid escape sequence: \\{c}"))),
            '\\' => {}
            ',' | '=' => {
                return Err(wrong(format!("unescaped character in value: {}", c as u32)));
            }
            c => out.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    if escaped {
        return Err(wrong("invalid escape sequence: \\".to_owned()));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let selector = FieldSelector::parse(r"b!=x\,y,a.b==c,,d=").expect("well formed");
        assert_eq!(selector.to_string(), r"a.b=c,b!=x\,y,d=");
        assert_eq!(selector.required_value("a.b"), Some("c"));
        let field = |name: &str| if name == "a.b" { "c".into() } else { Text::default() };
        assert!(selector.matches(field));
        let wrong = |text| FieldSelector::parse(text).expect_err("malformed").to_string();
        assert_eq!(wrong("a"), "invalid selector: 'a'; can't understand 'a'");
        assert_eq!(wrong(r"a=\x"), r"invalid field selector: invalid escape sequence: \x");
        assert_eq!(wrong("a=b=c"), "invalid field selector: unescaped character in value: 61");
    }
}
