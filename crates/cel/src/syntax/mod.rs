//! The CEL parser.

mod lexer;
mod literal;
mod macros;
mod parser;
mod recover;
mod token;

use std::thread;

pub(crate) use self::macros::Macros;

use self::{lexer::TokenSpan, parser::Parser, recover::Cursor, token::Token};
use crate::{
    ast::{Ast, Expr},
    source::{CompileErrors, ErrorCollector},
};

/// Maximum length of a source in characters.
const LONGEST: usize = 100_000;
/// Sources that are nested more deeply are parsed on a larger stack.
const DEEP: usize = 40;
const STACK: usize = 64 << 20;
/// Maximum depth of the tree after macro expansion: the type checker, the cost estimation and the evaluator recurse on
/// the caller's stack.
const DEEPEST: usize = 400;

/// Parses `source` and expands macros.
pub(crate) fn parse(source: &str, macros: Macros) -> Result<Ast, CompileErrors> {
    let mut problems = ErrorCollector::default();
    let text: Vec<char> = source.chars().collect();
    if text.len() > LONGEST {
        let size = text.len();
        let message =
            format!("expression code point size exceeds limit: size: {size}, limit {LONGEST}");
        problems.add(None, message);
        return Err(problems.show(source));
    }
    let (tokens, gaps) = lexer::tokenize(&text, &mut problems);
    let deep = nesting(&tokens) > DEEP;
    let ast = Ast { root: Expr::default(), positions: vec![None] };
    let cursor = Cursor::new(&text, tokens, gaps, problems);
    let mut parser = Parser { cursor, ast, macros, partial: None };
    parser.ast.root = with_stack(deep, || {
        let root = parser.start();
        if root.exceeds(DEEPEST) {
            parser.cursor.problems.add(None, "expression recursion limit exceeded: 250");
            return Expr::default();
        }
        root
    });
    if parser.cursor.problems.is_empty() {
        Ok(parser.ast)
    } else {
        Err(parser.cursor.problems.show(source))
    }
}

/// Runs `work`, on a larger stack if `deep`.
pub(crate) fn with_stack<T: Send>(deep: bool, work: impl FnOnce() -> T + Send) -> T {
    if !deep {
        return work();
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.expect("a thread can be started");
        thread.join().expect("parsing does not panic")
    })
}

/// The nesting depth of brackets and conditionals.
fn nesting(tokens: &[TokenSpan]) -> usize {
    let (mut depth, mut deepest, mut choices) = (0_usize, 0, 0);
    for lexeme in tokens {
        match lexeme.token {
            Token::LeftParen | Token::LeftBracket | Token::LeftBrace => depth += 1,
            Token::RightParen | Token::RightBracket | Token::RightBrace => {
                depth = depth.saturating_sub(1);
            }
            Token::Question => choices += 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest + choices
}
