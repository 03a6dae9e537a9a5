//! Token kinds, and sets of them.

use std::fmt;

/// Token kinds, in the order in which error messages list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Token {
    End,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    Text,
    Bytes,
    Ident,
    Quoted,
}

use Token::{
    And, Bytes, Colon, Comma, Dot, End, Equals, False, Float, Greater, GreaterEquals, Ident, In,
    Int, LeftBrace, LeftBracket, LeftParen, Less, LessEquals, Minus, Not, NotEquals, Null, Or,
    Percent, Plus, Question, Quoted, RightBrace, RightBracket, RightParen, Slash, Star, Text, True,
    Uint,
};

/// Every kind and its name in error messages.
const NAMES: [(Token, &str); 36] = [
    (End, "<EOF>"),
    (Equals, "'=='"),
    (NotEquals, "'!='"),
    (In, "'in'"),
    (Less, "'<'"),
    (LessEquals, "'<='"),
    (GreaterEquals, "'>='"),
    (Greater, "'>'"),
    (And, "'&&'"),
    (Or, "'||'"),
    (LeftBracket, "'['"),
    (RightBracket, "']'"),
    (LeftBrace, "'{'"),
    (RightBrace, "'}'"),
    (LeftParen, "'('"),
    (RightParen, "')'"),
    (Dot, "'.'"),
    (Comma, "','"),
    (Minus, "'-'"),
    (Not, "'!'"),
    (Question, "'?'"),
    (Colon, "':'"),
    (Plus, "'+'"),
    (Star, "'*'"),
    (Slash, "'/'"),
    (Percent, "'%'"),
    (True, "'true'"),
    (False, "'false'"),
    (Null, "'null'"),
    (Float, "NUM_FLOAT"),
    (Int, "NUM_INT"),
    (Uint, "NUM_UINT"),
    (Text, "STRING"),
    (Bytes, "BYTES"),
    (Ident, "IDENTIFIER"),
    (Quoted, "ESC_IDENTIFIER"),
];

/// A set of token kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenSet(u64);

impl TokenSet {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) const fn of(tokens: &[Token]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < tokens.len() {
            bits |= 1 << tokens[at] as u64;
            at += 1;
        }
        Self(bits)
    }

    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, token: Token) -> bool {
        self.0 & (1 << token as u64) != 0
    }
}

impl fmt::Display for TokenSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.iter().filter(|(token, _)| self.has(*token)).map(|(_, name)| *name);
        let names: Vec<&str> = names.collect();
        match names.as_slice() {
            [one] => f.write_str(one),
            names => write!(f, "{{{}}}", names.join(", ")),
        }
    }
}

/// Tokens that may begin an operand without `!`.
pub(crate) const MEMBER: TokenSet = TokenSet::of(&[
    LeftBracket,
    LeftBrace,
    LeftParen,
    Dot,
    Minus,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    Text,
    Bytes,
    Ident,
]);
/// Tokens that may begin an expression.
pub(crate) const EXPRESSION: TokenSet = MEMBER.or(TokenSet::of(&[Not]));
/// Tokens that may begin an optional element.
pub(crate) const OPTIONAL: TokenSet = EXPRESSION.or(TokenSet::of(&[Question]));
/// Tokens that may begin a field name.
pub(crate) const FIELD: TokenSet = TokenSet::of(&[Question, Ident, Quoted]);
pub(crate) const RELATIONS: TokenSet =
    TokenSet::of(&[Less, LessEquals, GreaterEquals, Greater, Equals, NotEquals, In]);
pub(crate) const FACTORS: TokenSet = TokenSet::of(&[Star, Slash, Percent]);
pub(crate) const TERMS: TokenSet = TokenSet::of(&[Plus, Minus]);
