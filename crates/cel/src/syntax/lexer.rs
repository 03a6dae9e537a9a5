//! The lexer. Invalid characters are reported and skipped, as upstream does.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::ops::Range;

use crate::source::ErrorCollector;

use super::token::Token;

/// A token with its source range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenSpan {
    pub(crate) token: Token,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Splits `text` into tokens, the last of which is the end. Also returns the skipped ranges.
pub(crate) fn tokenize(
    text: &[char],
    problems: &mut ErrorCollector,
) -> (Vec<TokenSpan>, Vec<Range<usize>>) {
    let mut lexer = Lexer { text, at: 0 };
    let (mut found, mut gaps) = (Vec::new(), Vec::new());
    while lexer.at < text.len() {
        let start = lexer.at;
        match lexer.next() {
            Ok(Some(token)) => found.push(TokenSpan { token, start, end: lexer.at }),
            Ok(None) => {}
            Err(stop) => {
                let end = (stop + 1).min(text.len());
                let shown = show(text.get(start..end).unwrap_or_default());
                let place = u32::try_from(start).ok();
                problems.add(place, format!("Syntax error: token recognition error at: '{shown}'"));
                lexer.at = end.max(start + 1);
                gaps.push(start..lexer.at);
            }
        }
    }
    found.push(TokenSpan { token: Token::End, start: text.len(), end: text.len() });
    (found, gaps)
}

/// Formats text on one line for error messages.
pub(crate) fn show(text: &[char]) -> String {
    let text: String = text.iter().collect();
    text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

struct Lexer<'a> {
    text: &'a [char],
    at: usize,
}

/// The position where a token became invalid.
type Stop = usize;

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> char {
        self.text.get(self.at + ahead).copied().unwrap_or('\0')
    }

    /// The next token; `None` for white space and comments.
    fn next(&mut self) -> Result<Option<Token>, Stop> {
        let c = self.peek(0);
        match c {
            ' ' | '\t' | '\r' | '\n' | '\u{c}' => {
                self.at += 1;
                Ok(None)
            }
            '/' if self.peek(1) == '/' => {
                self.at += self.text.iter().skip(self.at).take_while(|c| **c != '\n').count();
                Ok(None)
            }
            '"' | '\'' => self.string(0).map(|end| Some(self.take(end, Token::Text))),
            'r' | 'R' | 'b' | 'B' if self.is_string() => Ok(Some(self.prefixed())),
            'a'..='z' | 'A'..='Z' | '_' => Ok(Some(self.word())),
            '0'..='9' => Ok(Some(self.number())),
            '.' if self.peek(1).is_ascii_digit() => Ok(Some(self.number())),
            '`' => self.quoted(),
            _ => self.symbol(),
        }
    }

    fn take(&mut self, end: usize, token: Token) -> Token {
        self.at = end;
        token
    }

    /// Whether a string prefix is followed by a quote.
    fn is_string(&self) -> bool {
        let quote = |at| matches!(self.peek(at), '"' | '\'');
        let raw = |at| matches!(self.peek(at), 'r' | 'R');
        quote(1) || matches!(self.peek(0), 'b' | 'B') && raw(1) && quote(2)
    }

    /// A string with a prefix; if it is not terminated, the prefix is an identifier.
    fn prefixed(&mut self) -> Token {
        let bytes = matches!(self.peek(0), 'b' | 'B');
        let letters = if matches!(self.peek(1), '"' | '\'') { 1 } else { 2 };
        let raw = !bytes || letters == 2;
        let end = if raw { self.raw(letters) } else { self.string(letters) };
        let Ok(end) = end else { return self.word() };
        self.take(end, if bytes { Token::Bytes } else { Token::Text })
    }

    /// The end of a string whose quote is `skip` characters ahead.
    fn string(&self, skip: usize) -> Result<usize, Stop> {
        let start = self.at + skip;
        let Some(&quote) = self.text.get(start) else { return Err(start) };
        let is = |at: usize| self.text.get(at) == Some(&quote);
        if is(start + 1) && is(start + 2) {
            // If not terminated, it is an empty string followed by something else.
            return Ok(self.body(start + 3, quote, true).unwrap_or(start + 2));
        }
        self.body(start + 1, quote, false)
    }

    fn body(&self, mut at: usize, quote: char, long: bool) -> Result<usize, Stop> {
        loop {
            let Some(&c) = self.text.get(at) else { return Err(at) };
            let is = |at: usize| self.text.get(at) == Some(&quote);
            if c == quote && !long {
                return Ok(at + 1);
            } else if c == quote && is(at + 1) && is(at + 2) {
                return Ok(at + 3);
            } else if c == '\\' {
                at = self.escape(at + 1)?;
            } else if !long && matches!(c, '\n' | '\r') {
                return Err(at);
            } else {
                at += 1;
            }
        }
    }

    /// The end of an escape sequence.
    fn escape(&self, at: usize) -> Result<usize, Stop> {
        let digits = |from: usize, count: usize, ok: fn(&char) -> bool| {
            (from..from + count)
                .find(|at| !self.text.get(*at).is_some_and(ok))
                .map_or(Ok(from + count), Err)
        };
        match self.text.get(at).copied().unwrap_or('\0') {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Ok(at + 1),
            'x' | 'X' => digits(at + 1, 2, char::is_ascii_hexdigit),
            'u' => digits(at + 1, 4, char::is_ascii_hexdigit),
            'U' => digits(at + 1, 8, char::is_ascii_hexdigit),
            '0'..='3' => digits(at + 1, 2, |c| matches!(c, '0'..='7')),
            _ => Err(at),
        }
    }

    /// The end of a raw string.
    fn raw(&self, letters: usize) -> Result<usize, Stop> {
        let start = self.at + letters;
        let Some(&quote) = self.text.get(start) else { return Err(start) };
        let is = |at: usize| self.text.get(at) == Some(&quote);
        if is(start + 1) && is(start + 2) {
            let end = (start + 3..self.text.len()).find(|at| is(*at) && is(at + 1) && is(at + 2));
            return Ok(end.map_or(start + 2, |end| end + 3));
        }
        for (at, c) in self.text.iter().enumerate().skip(start + 1) {
            match c {
                c if *c == quote => return Ok(at + 1),
                '\n' | '\r' => return Err(at),
                _ => {}
            }
        }
        Err(self.text.len())
    }

    fn word(&mut self) -> Token {
        let start = self.at;
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == '_' {
            self.at += 1;
        }
        let text: String = self.text.iter().take(self.at).skip(start).collect();
        match text.as_str() {
            "in" => Token::In,
            "true" => Token::True,
            "false" => Token::False,
            "null" => Token::Null,
            _ => Token::Ident,
        }
    }

    fn number(&mut self) -> Token {
        let hex = |lexer: &Self, at: usize| lexer.peek(at).is_ascii_hexdigit();
        if self.peek(0) == '0' && self.peek(1) == 'x' && hex(self, 2) {
            self.at += 2;
            while hex(self, 0) {
                self.at += 1;
            }
            return self.unsigned(Token::Int);
        }
        let mut token = Token::Int;
        self.digits();
        if self.peek(0) == '.' && self.peek(1).is_ascii_digit() {
            self.at += 1;
            self.digits();
            token = Token::Float;
        }
        let sign = usize::from(matches!(self.peek(1), '+' | '-'));
        if matches!(self.peek(0), 'e' | 'E') && self.peek(1 + sign).is_ascii_digit() {
            self.at += 1 + sign;
            self.digits();
            token = Token::Float;
        }
        if token == Token::Int { self.unsigned(token) } else { token }
    }

    fn digits(&mut self) {
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    fn unsigned(&mut self, token: Token) -> Token {
        if matches!(self.peek(0), 'u' | 'U') {
            self.at += 1;
            return Token::Uint;
        }
        token
    }

    /// An identifier in backticks.
    fn quoted(&mut self) -> Result<Option<Token>, Stop> {
        let inside =
            |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
        let mut end = self.at + 1;
        while self.text.get(end).is_some_and(inside) {
            end += 1;
        }
        if end == self.at + 1 || self.text.get(end) != Some(&'`') {
            return Err(end);
        }
        Ok(Some(self.take(end + 1, Token::Quoted)))
    }

    fn symbol(&mut self) -> Result<Option<Token>, Stop> {
        let next = self.peek(1);
        let (length, token) = match self.peek(0) {
            '=' if next == '=' => (2, Token::Equals),
            '!' if next == '=' => (2, Token::NotEquals),
            '<' if next == '=' => (2, Token::LessEquals),
            '>' if next == '=' => (2, Token::GreaterEquals),
            '&' if next == '&' => (2, Token::And),
            '|' if next == '|' => (2, Token::Or),
            '=' | '&' | '|' => return Err(self.at + 1),
            '<' => (1, Token::Less),
            '>' => (1, Token::Greater),
            '!' => (1, Token::Not),
            '[' => (1, Token::LeftBracket),
            ']' => (1, Token::RightBracket),
            '{' => (1, Token::LeftBrace),
            '}' => (1, Token::RightBrace),
            '(' => (1, Token::LeftParen),
            ')' => (1, Token::RightParen),
            '.' => (1, Token::Dot),
            ',' => (1, Token::Comma),
            '-' => (1, Token::Minus),
            '?' => (1, Token::Question),
            ':' => (1, Token::Colon),
            '+' => (1, Token::Plus),
            '*' => (1, Token::Star),
            '/' => (1, Token::Slash),
            '%' => (1, Token::Percent),
            _ => return Err(self.at),
        };
        Ok(Some(self.take(self.at + length, token)))
    }
}
