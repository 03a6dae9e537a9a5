//! The abstract syntax tree of an expression.

use std::sync::Arc;

use crate::{source::SourcePosition, value::Value};

/// The id of a node; positions, types and overloads are looked up by it.
pub(crate) type Id = usize;

/// A node of the syntax tree.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: Id,
    pub(crate) kind: ExprKind,
}

/// The kind of a node, with its children.
#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    /// A part of the source that could not be parsed.
    Error,
    Literal(Literal),
    /// A constant, computed by constant folding.
    Folded(Value<'static>),
    Ident(Arc<str>),
    Select(Box<Select>),
    Call(Box<Call>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    Struct(Arc<str>, Vec<Field>),
    Fold(Box<Comprehension>),
}

/// The value of a literal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// `operand.field`, or a test whether the field is present.
#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) operand: Expr,
    pub(crate) field: Arc<str>,
    pub(crate) test_only: bool,
}

/// `function(args)` or `target.function(args)`.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: Arc<str>,
    pub(crate) target: Option<Expr>,
    pub(crate) args: Vec<Expr>,
}

/// An element of a list literal; it may be optional (`?x`).
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// An entry of a map literal; it may be optional.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A field of an object literal; it may be optional.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) id: Id,
    pub(crate) name: Arc<str>,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A comprehension, which macros expand to: `accu = init; for iter in range { if !condition break; accu = step };
/// result`.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) iter: Arc<str>,
    /// The second variable, if any: then `iter` is the index or key, and this the value.
    pub(crate) iter2: Option<Arc<str>>,
    pub(crate) accu: Arc<str>,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

/// The accumulator of macros; no source can refer to it.
pub(crate) const ACCUMULATOR: &str = "@result";

/// A parsed expression.
#[derive(Debug)]
pub(crate) struct Ast {
    pub(crate) root: Expr,
    /// Source positions by node id.
    pub(crate) positions: Vec<SourcePosition>,
}

impl Ast {
    pub(crate) fn position(&self, id: Id) -> SourcePosition {
        self.positions.get(id).copied().flatten()
    }
}

impl Expr {
    /// The child nodes, in source order.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Error | ExprKind::Literal(_) | ExprKind::Folded(_) | ExprKind::Ident(_) => {
                Vec::new()
            }
            ExprKind::Select(select) => vec![&select.operand],
            ExprKind::Call(call) => call.target.iter().chain(&call.args).collect(),
            ExprKind::List(elements) => elements.iter().map(|element| &element.value).collect(),
            ExprKind::Map(entries) => {
                entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect()
            }
            ExprKind::Struct(_, fields) => fields.iter().map(|field| &field.value).collect(),
            ExprKind::Fold(fold) => {
                vec![&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result]
            }
        }
    }

    /// The child nodes, mutable.
    pub(crate) fn children_mut(&mut self) -> Vec<&mut Expr> {
        match &mut self.kind {
            ExprKind::Error | ExprKind::Literal(_) | ExprKind::Folded(_) | ExprKind::Ident(_) => {
                Vec::new()
            }
            ExprKind::Select(select) => vec![&mut select.operand],
            ExprKind::Call(call) => call.target.iter_mut().chain(&mut call.args).collect(),
            ExprKind::List(elements) => {
                elements.iter_mut().map(|element| &mut element.value).collect()
            }
            ExprKind::Map(entries) => {
                entries.iter_mut().flat_map(|entry| [&mut entry.key, &mut entry.value]).collect()
            }
            ExprKind::Struct(_, fields) => {
                fields.iter_mut().map(|field| &mut field.value).collect()
            }
            ExprKind::Fold(fold) => vec![
                &mut fold.range,
                &mut fold.init,
                &mut fold.condition,
                &mut fold.step,
                &mut fold.result,
            ],
        }
    }

    /// Whether the tree is deeper than `limit` levels.
    pub(crate) fn exceeds(&self, limit: usize) -> bool {
        limit == 0 || self.children().into_iter().any(|part| part.exceeds(limit - 1))
    }

    /// The depth of the tree.
    pub(crate) fn height(&self) -> usize {
        1 + self.children().into_iter().map(Self::height).max().unwrap_or(0)
    }

    /// Calls `visit` with every node, parents first.
    pub(crate) fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Expr)) {
        visit(self);
        for child in self.children() {
            child.walk(visit);
        }
    }
}
