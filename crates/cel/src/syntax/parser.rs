//! The grammar: one method per rule, in the order of precedence.

use std::sync::Arc;

use crate::ast::{Ast, Call, Element, Entry, Expr, ExprKind, Field, Id, Literal, Select};

use super::{
    lexer::TokenSpan,
    literal::value,
    macros::{self, Macros},
    recover::{Cursor, Failure, FollowSet, Parsed, Rule},
    token::{EXPRESSION, FACTORS, FIELD, MEMBER, OPTIONAL, RELATIONS, TERMS, Token, TokenSet},
};

/// Reserved identifiers.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

impl Default for Expr {
    fn default() -> Self {
        Self { id: 0, kind: ExprKind::Error }
    }
}

const fn then(tokens: &[Token]) -> FollowSet {
    FollowSet { set: TokenSet::of(tokens), ends: false }
}

const fn maybe(set: TokenSet) -> FollowSet {
    FollowSet { set, ends: true }
}

const NOTHING: FollowSet = maybe(TokenSet::EMPTY);
const OPERAND: FollowSet = FollowSet { set: EXPRESSION, ends: false };
const SUFFIX: TokenSet = TokenSet::of(&[Token::Dot, Token::LeftBracket]);

/// The result of a rule that fails: nothing, or the part that was parsed.
trait Leave: Default {
    fn leave(_: Option<Expr>) -> Self {
        Self::default()
    }
}

impl Leave for Expr {
    fn leave(partial: Option<Expr>) -> Self {
        partial.unwrap_or_default()
    }
}

impl Leave for String {}
impl<T> Leave for Vec<T> {}
impl<A: Default, B: Default> Leave for (A, B) {}

/// The recursive-descent parser.
#[derive(Debug)]
pub(crate) struct Parser<'a> {
    pub(crate) cursor: Cursor<'a>,
    pub(crate) ast: Ast,
    pub(crate) macros: Macros,
    /// The part that a failing rule has parsed.
    pub(crate) partial: Option<Expr>,
}

impl Parser<'_> {
    pub(crate) fn start(&mut self) -> Expr {
        self.rule(Rule::Start, NOTHING, |p| {
            let expr = p.expr(then(&[Token::End]));
            p.cursor.expect(Token::End, NOTHING)?;
            Ok(expr)
        })
    }

    /// Creates a node at a source position.
    pub(crate) fn id(&mut self, place: usize) -> Id {
        self.ast.positions.push(u32::try_from(place).ok());
        self.ast.positions.len() - 1
    }

    pub(crate) fn node(&mut self, place: usize, kind: ExprKind) -> Expr {
        Expr { id: self.id(place), kind }
    }

    fn rule<T: Leave>(
        &mut self,
        rule: Rule,
        follow: FollowSet,
        body: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> T {
        let depth = self.cursor.depth(rule);
        self.cursor.enter(follow);
        let parsed = self.cursor.deepen(rule).and_then(|()| body(self));
        let value = parsed.unwrap_or_else(|failure| {
            self.cursor.fail(rule, failure);
            T::leave(self.partial.take())
        });
        self.cursor.leave(rule, depth);
        value
    }

    fn here(&self) -> usize {
        self.cursor.tokens[self.cursor.at].start
    }

    fn lexeme(&self) -> TokenSpan {
        self.cursor.tokens[self.cursor.at]
    }

    fn text(&self, lexeme: TokenSpan) -> String {
        self.cursor.text[lexeme.start..lexeme.end].iter().collect()
    }

    fn expr(&mut self, follow: FollowSet) -> Expr {
        self.rule(Rule::Expr, follow, |p| {
            let condition = p.or(maybe(TokenSet::of(&[Token::Question])));
            if p.cursor.peek(0) != Token::Question {
                return Ok(condition);
            }
            let place = p.cursor.expect(Token::Question, OPERAND)?;
            let yes = p.or(then(&[Token::Colon]));
            p.partial = Some(p.node(place, ExprKind::Error));
            p.cursor.expect(Token::Colon, OPERAND)?;
            p.partial = None;
            let no = p.expr(NOTHING);
            Ok(p.call(place, "_?_:_", vec![condition, yes, no]))
        })
    }

    fn or(&mut self, follow: FollowSet) -> Expr {
        self.rule(Rule::Or, follow, |p| p.chain(Token::Or, "_||_", Self::and))
    }

    fn and(&mut self, follow: FollowSet) -> Expr {
        self.rule(Rule::And, follow, |p| p.chain(Token::And, "_&&_", |p, f| p.relation(0, f)))
    }

    /// `a op b op c` as a balanced tree, whose depth does not grow with its length.
    fn chain(
        &mut self,
        op: Token,
        function: &str,
        part: fn(&mut Self, FollowSet) -> Expr,
    ) -> Parsed<Expr> {
        let more = maybe(TokenSet::of(&[op]));
        let mut terms = vec![part(self, more)];
        let mut ids = Vec::new();
        while self.cursor.peek(0) == op {
            let place = self.cursor.expect(op, then(&[]))?;
            terms.push(part(self, more));
            ids.push(self.id(place));
        }
        Ok(balance(function, &ids, &mut terms))
    }

    fn relation(&mut self, least: u8, follow: FollowSet) -> Expr {
        self.rule(Rule::Relation, follow, |p| {
            let mut left = p.calc(0, maybe(RELATIONS));
            while least <= 1 && RELATIONS.has(p.cursor.peek(0)) {
                p.cursor.deepen(Rule::Relation)?;
                let op = p.cursor.peek(0);
                let place = p.cursor.expect_any(RELATIONS, then(&[]))?;
                let right = p.relation(2, maybe(RELATIONS));
                let function = match op {
                    Token::Less => "_<_",
                    Token::LessEquals => "_<=_",
                    Token::GreaterEquals => "_>=_",
                    Token::Greater => "_>_",
                    Token::Equals => "_==_",
                    Token::NotEquals => "_!=_",
                    _ => "@in",
                };
                left = p.call(place, function, vec![left, right]);
            }
            Ok(left)
        })
    }

    fn calc(&mut self, least: u8, follow: FollowSet) -> Expr {
        self.rule(Rule::Calc, follow, |p| {
            let mut left = p.unary(maybe(FACTORS.or(TERMS)));
            loop {
                let op = p.cursor.peek(0);
                let (set, next) = if least <= 2 && FACTORS.has(op) {
                    (FACTORS, 3)
                } else if least <= 1 && TERMS.has(op) {
                    (TERMS, 2)
                } else {
                    return Ok(left);
                };
                p.cursor.deepen(Rule::Calc)?;
                let place = p.cursor.expect_any(set, then(&[]))?;
                let right = p.calc(next, maybe(FACTORS.or(TERMS)));
                let function = match op {
                    Token::Star => "_*_",
                    Token::Slash => "_/_",
                    Token::Percent => "_%_",
                    Token::Plus => "_+_",
                    _ => "_-_",
                };
                left = p.call(place, function, vec![left, right]);
            }
        })
    }

    fn unary(&mut self, follow: FollowSet) -> Expr {
        self.rule(Rule::Unary, follow, |p| {
            let place = p.here();
            let fits = p.cursor.sync(EXPRESSION);
            p.kept(fits, |p| p.node(place, ExprKind::Literal(Literal::Text("<<error>>".into()))))?;
            let number = matches!(p.cursor.peek(1), Token::Int | Token::Float);
            match p.cursor.peek(0) {
                Token::Not => p.signs(Token::Not, "!_"),
                Token::Minus if number => Ok(p.member(NOTHING)),
                Token::Minus if !MEMBER.has(p.cursor.peek(1)) => {
                    let from = p.cursor.at;
                    Err(Failure::NoViable { from, to: from + 1 })
                }
                Token::Minus => p.signs(Token::Minus, "-_"),
                _ => Ok(p.member(NOTHING)),
            }
        })
    }

    /// Signs before an operand; an even number of them cancels out.
    fn signs(&mut self, sign: Token, function: &str) -> Parsed<Expr> {
        let place = self.here();
        let mut count = 0;
        while self.cursor.peek(0) == sign {
            self.cursor.expect(sign, then(&[]))?;
            self.cursor.sync_loop(MEMBER.or(TokenSet::of(&[sign])))?;
            count += 1;
        }
        let operand = self.member(NOTHING);
        Ok(if count % 2 == 0 { operand } else { self.call(place, function, vec![operand]) })
    }

    fn member(&mut self, follow: FollowSet) -> Expr {
        self.rule(Rule::Member, follow, |p| {
            let mut operand = p.primary(maybe(SUFFIX));
            while SUFFIX.has(p.cursor.peek(0)) {
                p.cursor.deepen(Rule::Member)?;
                operand = if p.cursor.peek(0) == Token::LeftBracket {
                    p.index(operand)?
                } else {
                    p.dot(operand)?
                };
            }
            Ok(operand)
        })
    }

    fn index(&mut self, operand: Expr) -> Parsed<Expr> {
        let place = self.cursor.expect(Token::LeftBracket, then(&[]))?;
        if let Err(failure) = self.cursor.sync(OPTIONAL) {
            let call = self.call(place, "_[_]", vec![operand, Expr::default()]);
            return self.complete(Some(failure), call);
        }
        let optional = self.optional()?;
        let index = self.expr(then(&[Token::RightBracket]));
        let closed = self.cursor.expect(Token::RightBracket, maybe(SUFFIX));
        let function = if optional { "_[?_]" } else { "_[_]" };
        let call = self.call(place, function, vec![operand, index]);
        self.complete(closed.err(), call)
    }

    /// Returns the parsed expression; after a failure the rule fails, but keeps it as partial result.
    fn complete(&mut self, failure: Option<Failure>, read: Expr) -> Parsed<Expr> {
        let Some(failure) = failure else { return Ok(read) };
        self.partial = Some(read);
        Err(failure)
    }

    /// Like `complete`, for an expression that is created only after a failure.
    fn kept<T>(&mut self, parsed: Parsed<T>, left: impl FnOnce(&mut Self) -> Expr) -> Parsed<T> {
        if parsed.is_err() {
            self.partial = Some(left(self));
        }
        parsed
    }

    /// `.field`, `.?field` or `.function(...)`.
    fn dot(&mut self, operand: Expr) -> Parsed<Expr> {
        let place = self.here();
        let from = self.cursor.at;
        match (self.cursor.peek(1), self.cursor.peek(2)) {
            (Token::Ident, Token::LeftParen) => {
                self.cursor.expect(Token::Dot, then(&[Token::Ident]))?;
                let name = self.text(self.lexeme());
                self.cursor.expect(Token::Ident, then(&[Token::LeftParen]))?;
                let (place, args, closed) = self.arguments(maybe(SUFFIX))?;
                let call = macros::expand(self, place, &name, Some(operand), args);
                self.complete(closed.err(), call)
            }
            (Token::Ident | Token::Quoted | Token::Question, _) => {
                self.cursor.expect(Token::Dot, maybe(FIELD))?;
                self.cursor.sync(FIELD)?;
                let optional = self.optional()?;
                let (at, field) = (self.here(), self.field_name(maybe(SUFFIX)));
                if field.is_empty() {
                    self.cursor.problems.add(u32::try_from(at).ok(), "unsupported ident kind");
                }
                let field: Arc<str> = field.into();
                if !optional {
                    let select = Select { operand, field, test_only: false };
                    return Ok(self.node(place, ExprKind::Select(Box::new(select))));
                }
                let field = self.node(at, ExprKind::Literal(Literal::Text(field)));
                Ok(self.call(place, "_?._", vec![operand, field]))
            }
            _ => self.complete(Some(Failure::NoViable { from, to: from + 1 }), operand),
        }
    }

    /// Parses a `?` if there is one.
    fn optional(&mut self) -> Parsed<bool> {
        let optional = self.cursor.peek(0) == Token::Question;
        if optional {
            self.cursor.expect(Token::Question, then(&[]))?;
        }
        Ok(optional)
    }

    fn field_name(&mut self, follow: FollowSet) -> String {
        self.rule(Rule::EscapeIdent, follow, |p| {
            p.cursor.sync(TokenSet::of(&[Token::Ident, Token::Quoted]))?;
            let lexeme = p.lexeme();
            let text = p.text(lexeme);
            match lexeme.token {
                Token::Ident | Token::Quoted => p.cursor.expect(lexeme.token, NOTHING)?,
                _ => return Err(Failure::NoViable { from: p.cursor.at, to: p.cursor.at }),
            };
            Ok(text.trim_matches('`').to_owned())
        })
    }

    /// `(a, b)`: the position of the parenthesis, the arguments, and whether it is closed.
    fn arguments(&mut self, next: FollowSet) -> Parsed<(usize, Vec<Expr>, Parsed<usize>)> {
        let place = self.cursor.expect(Token::LeftParen, then(&[Token::RightParen]))?;
        if let Err(failure) = self.cursor.sync(EXPRESSION.or(TokenSet::of(&[Token::RightParen]))) {
            return Ok((place, Vec::new(), Err(failure)));
        }
        let mut args = Vec::new();
        if EXPRESSION.has(self.cursor.peek(0)) {
            args = self.rule(Rule::ExprList, then(&[Token::RightParen]), |p| {
                let more = maybe(TokenSet::of(&[Token::Comma]));
                let mut args = vec![p.expr(more)];
                while p.cursor.peek(0) == Token::Comma {
                    p.cursor.expect(Token::Comma, then(&[]))?;
                    args.push(p.expr(more));
                }
                Ok(args)
            });
        }
        let closed = self.cursor.expect(Token::RightParen, next);
        Ok((place, args, closed))
    }

    fn primary(&mut self, follow: FollowSet) -> Expr {
        self.rule(Rule::Primary, follow, |p| {
            p.cursor.sync(MEMBER)?;
            let place = p.here();
            match p.cursor.peek(0) {
                Token::Ident | Token::Dot => p.named(place),
                Token::LeftParen => {
                    p.cursor.expect(Token::LeftParen, then(&[]))?;
                    let inner = p.expr(then(&[Token::RightParen]));
                    p.cursor.expect(Token::RightParen, NOTHING)?;
                    Ok(inner)
                }
                Token::LeftBracket => {
                    let list = p.list(place);
                    p.kept(list, |p| p.node(place, ExprKind::List(Vec::new())))
                }
                Token::LeftBrace => {
                    let map = p.map(place);
                    p.kept(map, |p| p.node(place, ExprKind::Map(Vec::new())))
                }
                token if MEMBER.has(token) => Ok(p.literal()),
                _ => Err(Failure::NoViable { from: p.cursor.at, to: p.cursor.at }),
            }
        })
    }

    /// A variable, a call, or `Type{...}`.
    fn named(&mut self, place: usize) -> Parsed<Expr> {
        let dot = usize::from(self.cursor.peek(0) == Token::Dot);
        if self.cursor.peek(dot) != Token::Ident {
            let from = self.cursor.at;
            return Err(Failure::NoViable { from, to: from + dot });
        }
        let mut names = 1;
        let is_dotted = |p: &Self, names: usize| {
            p.cursor.peek(dot + 2 * names - 1) == Token::Dot
                && p.cursor.peek(dot + 2 * names) == Token::Ident
        };
        while is_dotted(self, names) {
            names += 1;
        }
        let is_message = self.cursor.peek(dot + 2 * names - 1) == Token::LeftBrace;
        if dot == 1 {
            self.cursor.expect(Token::Dot, then(&[Token::Ident]))?;
        }
        let mut name = if dot == 1 { ".".to_owned() } else { String::new() };
        let at = self.here();
        let word = self.text(self.lexeme());
        self.cursor.expect(Token::Ident, NOTHING)?;
        name.push_str(&word);
        if is_message {
            for _ in 1..names {
                self.cursor.expect(Token::Dot, then(&[Token::Ident]))?;
                name.push('.');
                name.push_str(&self.text(self.lexeme()));
                self.cursor.expect(Token::Ident, NOTHING)?;
            }
            let place = self.here();
            let message = self.message(&name);
            let left = ExprKind::Struct(name.as_str().into(), Vec::new());
            return self.kept(message, |p| p.node(place, left));
        }
        let call = self.cursor.peek(0) == Token::LeftParen;
        let arguments = if call { Some(self.arguments(NOTHING)?) } else { None };
        if RESERVED.contains(&word.as_str()) {
            let message = format!("reserved identifier: {word}");
            self.cursor.problems.add(u32::try_from(place).ok(), message);
            return Ok(self.node(place, ExprKind::Error));
        }
        match arguments {
            Some((place, args, closed)) => {
                let call = macros::expand(self, place, &name, None, args);
                self.complete(closed.err(), call)
            }
            None => Ok(self.node(at, ExprKind::Ident(name.into()))),
        }
    }

    fn list(&mut self, place: usize) -> Parsed<Expr> {
        let ends = TokenSet::of(&[Token::Comma, Token::RightBracket]);
        self.cursor.expect(Token::LeftBracket, maybe(OPTIONAL.or(ends)))?;
        self.cursor.sync(OPTIONAL.or(ends))?;
        let mut elements = Vec::new();
        if OPTIONAL.has(self.cursor.peek(0)) {
            elements = self.rule(Rule::ListInit, FollowSet { set: ends, ends: false }, |p| {
                let more = maybe(TokenSet::of(&[Token::Comma]));
                let mut elements = vec![p.optional_expr(more)];
                while p.cursor.peek(0) == Token::Comma && OPTIONAL.has(p.cursor.peek(1)) {
                    p.cursor.expect(Token::Comma, then(&[]))?;
                    elements.push(p.optional_expr(more));
                }
                Ok(elements)
            });
        }
        self.close(Token::RightBracket)?;
        let element = |(optional, value)| Element { value, optional };
        let elements = elements.into_iter().map(element).collect();
        Ok(self.node(place, ExprKind::List(elements)))
    }

    /// An optional comma and the required closing bracket.
    fn close(&mut self, bracket: Token) -> Parsed<()> {
        self.cursor.sync(TokenSet::of(&[Token::Comma, bracket]))?;
        if self.cursor.peek(0) == Token::Comma {
            self.cursor.expect(Token::Comma, then(&[bracket]))?;
        }
        self.cursor.expect(bracket, NOTHING)?;
        Ok(())
    }

    fn optional_expr(&mut self, follow: FollowSet) -> (bool, Expr) {
        self.rule(Rule::OptExpr, follow, |p| {
            p.cursor.sync(OPTIONAL)?;
            let optional = p.optional()?;
            Ok((optional, p.expr(NOTHING)))
        })
    }

    fn map(&mut self, place: usize) -> Parsed<Expr> {
        let ends = TokenSet::of(&[Token::Comma, Token::RightBrace]);
        self.cursor.expect(Token::LeftBrace, maybe(OPTIONAL.or(ends)))?;
        self.cursor.sync(OPTIONAL.or(ends))?;
        let mut entries = Vec::new();
        if OPTIONAL.has(self.cursor.peek(0)) {
            entries = self.rule(Rule::MapInits, FollowSet { set: ends, ends: false }, |p| {
                let mut entries = Vec::new();
                loop {
                    let (optional, key) = p.optional_expr(then(&[Token::Colon]));
                    p.cursor.expect(Token::Colon, OPERAND)?;
                    let value = p.expr(maybe(TokenSet::of(&[Token::Comma])));
                    entries.push(Entry { key, value, optional });
                    let more = p.cursor.peek(0) == Token::Comma;
                    if !more || !OPTIONAL.has(p.cursor.peek(1)) {
                        return Ok(entries);
                    }
                    p.cursor.expect(Token::Comma, then(&[]))?;
                }
            });
        }
        self.close(Token::RightBrace)?;
        Ok(self.node(place, ExprKind::Map(entries)))
    }

    fn message(&mut self, name: &str) -> Parsed<Expr> {
        let ends = TokenSet::of(&[Token::Comma, Token::RightBrace]);
        let place = self.cursor.expect(Token::LeftBrace, maybe(FIELD.or(ends)))?;
        self.cursor.sync(FIELD.or(ends))?;
        let mut fields = Vec::new();
        if FIELD.has(self.cursor.peek(0)) {
            fields = self.rule(Rule::FieldInits, FollowSet { set: ends, ends: false }, |p| {
                let mut fields = Vec::new();
                loop {
                    let (optional, name) = p.rule(Rule::OptField, then(&[Token::Colon]), |p| {
                        p.cursor.sync(FIELD)?;
                        let optional = p.optional()?;
                        Ok((optional, p.field_name(NOTHING)))
                    });
                    let place = p.cursor.expect(Token::Colon, OPERAND)?;
                    let id = p.id(place);
                    let value = p.expr(maybe(TokenSet::of(&[Token::Comma])));
                    fields.push(Field { id, name: name.into(), value, optional });
                    let more = p.cursor.peek(0) == Token::Comma;
                    if !more || !FIELD.has(p.cursor.peek(1)) {
                        return Ok(fields);
                    }
                    p.cursor.expect(Token::Comma, then(&[]))?;
                }
            });
        }
        self.close(Token::RightBrace)?;
        Ok(self.node(place, ExprKind::Struct(name.into(), fields)))
    }

    fn literal(&mut self) -> Expr {
        self.rule(Rule::Literal, NOTHING, |p| {
            let place = p.here();
            let minus = p.cursor.peek(0) == Token::Minus;
            if minus {
                if !matches!(p.cursor.peek(1), Token::Int | Token::Float) {
                    let from = p.cursor.at;
                    return Err(Failure::NoViable { from, to: from + 1 });
                }
                p.cursor.expect(Token::Minus, then(&[]))?;
            }
            let lexeme = p.lexeme();
            p.cursor.expect(lexeme.token, NOTHING)?;
            let text = p.text(lexeme);
            match value(lexeme.token, &text, minus) {
                Ok(literal) => Ok(p.node(place, ExprKind::Literal(literal))),
                Err(message) => {
                    p.cursor.problems.add(u32::try_from(place).ok(), message);
                    Ok(p.node(place, ExprKind::Error))
                }
            }
        })
    }

    pub(crate) fn call(&mut self, place: usize, function: &str, args: Vec<Expr>) -> Expr {
        let call = Call { function: function.into(), target: None, args };
        self.node(place, ExprKind::Call(Box::new(call)))
    }
}

fn balance(function: &str, ids: &[Id], terms: &mut [Expr]) -> Expr {
    if ids.is_empty() {
        return std::mem::take(&mut terms[0]);
    }
    let middle = ids.len() / 2;
    let (left, right) = terms.split_at_mut(middle + 1);
    let args =
        vec![balance(function, &ids[..middle], left), balance(function, &ids[middle + 1..], right)];
    let call = Call { function: function.into(), target: None, args };
    Expr { id: ids[middle], kind: ExprKind::Call(Box::new(call)) }
}
