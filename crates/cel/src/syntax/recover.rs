//! Error recovery of the parser. Messages and recovery are those of ANTLR, the parser generator that upstream uses, so
//! that users see the same errors.
//!
//! A surplus token is dropped if the next one fits. A missing token is inserted if the present one fits after it.
//! Otherwise the rule fails, reports an error, and skips to a token that one of its callers can continue with. Until a
//! token fits again, no further error is reported.

use std::ops::Range;

use crate::source::ErrorCollector;

use super::{
    lexer::{TokenSpan, show},
    token::{Token, TokenSet},
};

/// Maximum nesting depth of each rule.
const DEEPEST: u16 = 250;
/// Maximum number of recoveries before parsing stops.
const MOST_REPAIRS: u16 = 30;
/// Maximum number of tokens that a recovery looks ahead.
const FURTHEST: usize = 256;
const MOST_REPORTS: usize = 100;

/// The rules of the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Start,
    Expr,
    Or,
    And,
    Relation,
    Calc,
    Unary,
    Member,
    Primary,
    ExprList,
    ListInit,
    FieldInits,
    OptField,
    MapInits,
    EscapeIdent,
    OptExpr,
    Literal,
}

const RULES: usize = Rule::Literal as usize + 1;

/// The tokens that may follow a rule in its caller, and whether the caller may end there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowSet {
    pub(crate) set: TokenSet,
    pub(crate) ends: bool,
}

/// Why a rule fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    Mismatch(TokenSet),
    /// No alternative matches the tokens from `from` to `to`.
    NoViable {
        from: usize,
        to: usize,
    },
    /// Parsing stops.
    Halt,
}

pub(crate) type Parsed<T> = Result<T, Failure>;

/// The tokens, the current position, and the errors found.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) text: &'a [char],
    pub(crate) tokens: Vec<TokenSpan>,
    pub(crate) at: usize,
    /// The ranges that are no tokens.
    gaps: Vec<Range<usize>>,
    pub(crate) problems: ErrorCollector,
    follow: Vec<FollowSet>,
    depth: [u16; RULES],
    recovering: bool,
    last_failure: Option<(usize, Vec<Rule>)>,
    repairs: u16,
    reports: usize,
    halted: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(
        text: &'a [char],
        tokens: Vec<TokenSpan>,
        gaps: Vec<Range<usize>>,
        problems: ErrorCollector,
    ) -> Self {
        let reports = problems.len();
        Self {
            text,
            tokens,
            at: 0,
            gaps,
            problems,
            follow: Vec::new(),
            depth: [0; RULES],
            recovering: false,
            last_failure: None,
            repairs: 0,
            reports,
            halted: false,
        }
    }

    pub(crate) fn peek(&self, ahead: usize) -> Token {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].token
    }

    /// Enters a rule that is followed by `follow`.
    pub(crate) fn enter(&mut self, follow: FollowSet) {
        self.follow.push(follow);
    }

    pub(crate) fn depth(&self, rule: Rule) -> u16 {
        self.depth[rule as usize]
    }

    /// Increments the depth of `rule`, up to the limit.
    pub(crate) fn deepen(&mut self, rule: Rule) -> Parsed<()> {
        let depth = &mut self.depth[rule as usize];
        *depth += 1;
        if *depth > DEEPEST && !self.halted {
            self.problems.add(None, format!("expression recursion limit exceeded: {DEEPEST}"));
            self.halt();
        }
        if self.halted { Err(Failure::Halt) } else { Ok(()) }
    }

    /// Leaves a rule and restores the depth.
    pub(crate) fn leave(&mut self, rule: Rule, depth: u16) {
        self.depth[rule as usize] = depth;
        self.follow.pop();
    }

    /// Consumes `token`, or recovers. Returns its position.
    pub(crate) fn expect(&mut self, token: Token, next: FollowSet) -> Parsed<usize> {
        self.expect_any(TokenSet::of(&[token]), next)
    }

    pub(crate) fn expect_any(&mut self, set: TokenSet, next: FollowSet) -> Parsed<usize> {
        let place = self.tokens[self.at].start;
        if set.has(self.peek(0)) {
            self.recovering = false;
            self.advance();
            return Ok(place);
        }
        self.repair()?;
        if set.has(self.peek(1)) {
            self.unwanted(set);
            self.advance();
            let place = self.tokens[self.at].start;
            self.recovering = false;
            self.advance();
            return Ok(place);
        }
        if self.after(next).has(self.peek(0)) {
            if !self.recovering {
                self.recovering = true;
                let found = self.found();
                self.report(self.at, &format!("missing {set} at {found}"));
            }
            return Ok(place);
        }
        Err(Failure::Mismatch(set))
    }

    /// Before a token of `set`: drops a surplus token, or fails.
    pub(crate) fn sync(&mut self, set: TokenSet) -> Parsed<()> {
        if self.recovering || set.has(self.peek(0)) {
            return Ok(());
        }
        if set.has(self.peek(1)) {
            self.unwanted(set);
            self.advance();
            self.recovering = false;
            return Ok(());
        }
        Err(Failure::Mismatch(set))
    }

    /// At the end of an iteration, before a token of `set`: skips to it.
    pub(crate) fn sync_loop(&mut self, set: TokenSet) -> Parsed<()> {
        if self.recovering || set.has(self.peek(0)) {
            return Ok(());
        }
        self.unwanted(set);
        let stop = set.or(self.recovery());
        self.skip(stop)
    }

    /// Reports why a rule failed, and skips to a token that a caller can continue with.
    pub(crate) fn fail(&mut self, rule: Rule, failure: Failure) {
        if self.halted {
            return;
        }
        if !self.recovering {
            self.recovering = true;
            match failure {
                Failure::Mismatch(set) => {
                    let found = self.found();
                    self.report(self.at, &format!("mismatched input {found} expecting {set}"));
                }
                Failure::NoViable { from, to } => self.report_alternatives(from, to),
                Failure::Halt => {}
            }
        }
        if self.repair().is_err() {
            return;
        }
        match &mut self.last_failure {
            Some((at, rules)) if *at == self.at && rules.contains(&rule) => {
                self.advance();
                self.last_failure = Some((self.at, vec![rule]));
            }
            Some((at, rules)) if *at == self.at => rules.push(rule),
            _ => self.last_failure = Some((self.at, vec![rule])),
        }
        let stop = self.recovery();
        // The reason is reported already.
        self.skip(stop).ok();
    }

    fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn halt(&mut self) {
        self.halted = true;
        self.recovering = true;
        self.at = self.tokens.len() - 1;
    }

    fn repair(&mut self) -> Parsed<()> {
        if self.repairs == MOST_REPAIRS {
            let message = format!("error recovery attempt limit exceeded: {MOST_REPAIRS}");
            self.report(self.at, &message);
            self.halt();
        }
        self.repairs += 1;
        if self.halted { Err(Failure::Halt) } else { Ok(()) }
    }

    fn skip(&mut self, stop: TokenSet) -> Parsed<()> {
        for _ in 0..=FURTHEST {
            if self.peek(0) == Token::End || stop.has(self.peek(0)) {
                return Ok(());
            }
            self.advance();
        }
        let message = format!("error recovery token lookahead limit exceeded: {FURTHEST}");
        self.problems.add(None, message);
        self.halt();
        Err(Failure::Halt)
    }

    /// The tokens that any of the callers can continue with.
    fn recovery(&self) -> TokenSet {
        self.follow.iter().fold(TokenSet::EMPTY, |all, follow| all.or(follow.set))
    }

    /// The tokens that may come next, including those after the end of the current rules.
    fn after(&self, next: FollowSet) -> TokenSet {
        let (mut set, mut ends) = (next.set, next.ends);
        for follow in self.follow.iter().rev() {
            if !ends {
                break;
            }
            (set, ends) = (set.or(follow.set), follow.ends);
        }
        set
    }

    fn found(&self) -> String {
        let lexeme = self.tokens[self.at];
        match lexeme.token {
            Token::End => "'<EOF>'".to_owned(),
            _ => format!("'{}'", show(&self.text[lexeme.start..lexeme.end])),
        }
    }

    fn unwanted(&mut self, expected: TokenSet) {
        if !self.recovering {
            self.recovering = true;
            let found = self.found();
            self.report(self.at, &format!("extraneous input {found} expecting {expected}"));
        }
    }

    fn report_alternatives(&mut self, from: usize, to: usize) {
        let last = self.tokens.len() - 1;
        let (from, to) = (from.min(last), to.min(last));
        let span = self.tokens[from].start..self.tokens[to].end;
        let inside = |at: &usize| !self.gaps.iter().any(|gap| gap.contains(at));
        let text: Vec<char> = span.filter(inside).map(|at| self.text[at]).collect();
        let text = show(&text);
        let text = if self.tokens[from].token == Token::End { "<EOF>".into() } else { text };
        let reserved = matches!(text.as_str(), ".true" | ".false" | ".null");
        let message = if reserved {
            format!("mismatched input '{}' expecting IDENTIFIER", &text[1..])
        } else {
            format!("no viable alternative at input '{text}'")
        };
        self.report(to, &message);
    }

    fn report(&mut self, at: usize, message: &str) {
        if self.halted {
            return;
        }
        let place = u32::try_from(self.tokens[at].start).ok();
        self.reports += 1;
        if self.reports > MOST_REPORTS {
            let message = format!("Syntax error: More than {MOST_REPORTS} syntax errors");
            self.problems.add(place, message);
            self.halt();
        } else {
            self.problems.add(place, format!("Syntax error: {message}"));
        }
    }
}
