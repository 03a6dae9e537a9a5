//! JSON paths to fields, as CEL rules and selectable fields use them: `.spec.color`, `['a.b']`.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use object::Text;

use super::schema::{AdditionalProperties, JsonSchema};

/// Resolves a path to its schema node, and returns the field names on the way. `indices`: whether
/// `[…]` is allowed. The error is upstream's.
pub fn resolve_field_path<'a>(
    schema: &'a JsonSchema,
    path: &str,
    indices: bool,
) -> Result<(Vec<Text>, &'a JsonSchema), String> {
    let mut tokens = Tokens(path);
    let (mut names, mut at) = (Vec::new(), schema);
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.expect()?.into(),
            "[" if !indices => return Err("array notation is not allowed".to_owned()),
            "[" => unquoted(tokens.expect()?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        at = child(at, &name).ok_or("does not refer to a valid field")?;
        names.push(name);
        if token == "[" {
            match tokens.expect()? {
                "]" => {}
                other => return Err(format!("expected ] but got {other}")),
            }
        }
    }
    Ok((names, at))
}

fn child<'a>(schema: &'a JsonSchema, name: &str) -> Option<&'a JsonSchema> {
    match schema.additional() {
        _ if schema.properties().len() > 0 => schema.property(name),
        AdditionalProperties::Schema(inner) => Some(inner),
        _ => None,
    }
}

fn unquoted(token: &str) -> Result<Text, String> {
    let inner = token.strip_prefix('\'').and_then(|token| token.strip_suffix('\''));
    match inner.filter(|_| token.len() > 1) {
        Some(inner) => Ok(inner.replace("\\'", "'").replace("\\\\", "\\").into()),
        None => Err(format!("expected single quoted string but got {token}")),
    }
}

/// The tokens of a path: `.`, `[`, `]` and the text between them.
struct Tokens<'a>(&'a str);

impl<'a> Tokens<'a> {
    fn expect(&mut self) -> Result<&'a str, String> {
        self.next().ok_or_else(|| "unexpected end of JSON path".to_owned())
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0;
        let end = match text.chars().next()? {
            '.' | '[' | ']' => 1,
            '\'' => {
                let mut pairs = text.as_bytes().windows(2);
                let end =
                    pairs.position(|pair| matches!(pair, [before, b'\''] if *before != b'\\'));
                end.map_or(text.len(), |at| at + 2)
            }
            _ => text.find(['.', '[', ']']).unwrap_or(text.len()),
        };
        let (token, rest) = text.split_at(end);
        self.0 = rest;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tree;

    #[test]
    fn paths_lead_to_fields() {
        let schema = r#"{"properties":{"spec":{"properties":{"a":{"type":"string"},"m":{"additionalProperties":{"type":"integer"}}}}}}"#;
        let schema = JsonSchema::from(tree(schema));
        let found = |path: &str| {
            resolve_field_path(&schema, path, true).map(|found| found.1.ty().to_owned())
        };
        assert_eq!(found(".spec.a"), Ok("string".to_owned()));
        assert_eq!(found(".spec.m['x.y']"), Ok("integer".to_owned()));
        assert_eq!(found(".spec.z"), Err("does not refer to a valid field".to_owned()));
        assert_eq!(found("spec.a"), Err("expected [ or . but got: spec".to_owned()));
        let refused = resolve_field_path(&schema, "['spec']", false).map(drop);
        assert_eq!(refused, Err("array notation is not allowed".to_owned()));
    }
}
