//! Parser for label selectors.

use super::{Operator, Requirement, Selector};
use crate::{Text, names, quote::quote};

/// Parses a selector; the error is upstream's.
pub(super) fn parse(text: &str) -> Result<Selector, String> {
    Parser { tokens: scan(text), at: 0 }.selector()
}

/// A token of the selector language. The end is a token as well, because it can be expected.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Symbol(&'a str),
    Identifier(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::Symbol(text) | Token::Identifier(text) => text,
            Token::End => "",
        }
    }
}

fn scan(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text.split('\0').next().unwrap_or_default();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next() else { break };
        if is_sign(first) {
            let known = ["==", "!=", ")", ",", "!", "=", ">", "<", "("];
            let found = known.iter().find_map(|sign| Some((sign, rest.strip_prefix(sign)?)));
            let Some((sign, after)) = found else { break };
            tokens.push(Token::Symbol(sign));
            rest = after;
        } else {
            let ends = |c: char| is_sign(c) || matches!(c, ' ' | '\t' | '\r' | '\n');
            let (word, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
            tokens.push(Token::Identifier(word));
            rest = after;
        }
    }
    tokens.push(Token::End);
    tokens
}

fn is_sign(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Selector, String> {
        let mut all = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(Selector::new(all)),
                Token::Identifier(_) | Token::Symbol("!") => {}
                Token::Symbol(found) => {
                    return Err(format!(
                        "found '{found}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            let requirement = self.requirement();
            all.push(requirement.map_err(|error| format!("unable to parse requirement: {error}"))?);
            match self.next() {
                Token::End => return Ok(Selector::new(all)),
                Token::Symbol(",") => {
                    let next = self.peek();
                    if !matches!(next, Token::Identifier(_) | Token::Symbol("!")) {
                        let found = next.text();
                        return Err(format!("found '{found}', expected: identifier after ','"));
                    }
                }
                other => {
                    let found = other.text();
                    return Err(format!("found '{found}', expected: ',' or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let absent = token == Token::Symbol("!");
        if absent {
            token = self.next();
        }
        let Token::Identifier(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        let bad = names::qualified_name(key);
        if !bad.is_empty() {
            return Err(format!("<nil>: Invalid value: {}: {}", quote(key), bad.join("; ")));
        }
        let made =
            |operator, values| Requirement::new(key, operator, values).map_err(|error| error.0);
        if absent {
            return made(Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return made(Operator::Exists, Vec::new());
        }
        let operator = match self.next() {
            Token::Identifier("in") => Operator::In,
            Token::Identifier("notin") => Operator::NotIn,
            Token::Symbol("=") => Operator::Equals,
            Token::Symbol("==") => Operator::DoubleEquals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            other => {
                let found = other.text();
                return Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        };
        let mut values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.value()?],
        };
        values.sort();
        values.dedup();
        made(operator, values)
    }

    fn value(&mut self) -> Result<Text, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Text::default());
        }
        match self.next() {
            Token::Identifier(value) => Ok(value.into()),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn values(&mut self) -> Result<Vec<Text>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        match self.peek() {
            Token::Identifier(_) | Token::Symbol(",") => {}
            Token::Symbol(")") => {
                self.next();
                return Ok(vec![Text::default()]);
            }
            other => {
                let found = other.text();
                return Err(format!("found '{found}', expected: ',', ')' or identifier"));
            }
        }
        let mut values: Vec<Text> = Vec::new();
        loop {
            match self.next() {
                Token::Identifier(value) => {
                    values.push(value.into());
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other => {
                            return Err(format!("found '{}', expected: ',' or ')'", other.text()));
                        }
                    }
                }
                Token::Symbol(",") => {
                    let next = self.peek();
                    if values.is_empty() || matches!(next, Token::Symbol("," | ")")) {
                        values.push(Text::default());
                    }
                    if next == Token::Symbol(")") {
                        break;
                    }
                }
                other => {
                    return Err(format!("found '{}', expected: ',', or identifier", other.text()));
                }
            }
        }
        self.next();
        Ok(values)
    }
}
