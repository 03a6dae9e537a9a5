//! Macro expansion.

use std::sync::Arc;

use crate::ast::{ACCUMULATOR, Call, Comprehension, Element, Expr, ExprKind, Id, Literal, Select};

use super::parser::Parser;
use crate::source::BEFORE_START;

/// The optional macros of an environment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Macros {
    /// `cel.bind(name, value, expression)`.
    pub(crate) bind: bool,
}

/// The iteration variable of a comprehension over nothing.
const UNUSED: &str = "#unused";
/// Maximum number of nodes of an expression. Some macros copy their target, so a chain of them doubles its size with
/// every link.
const MOST_NODES: usize = 250_000;
const SORT_INPUT: &str = "@__sortBy_input__";

/// An error message, and its node.
type MacroError = (Id, String);

/// The call, or its expansion if it is a macro.
pub(crate) fn expand(
    parser: &mut Parser<'_>,
    place: usize,
    function: &str,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Expr {
    let receiver = target.is_some();
    let mut make = MacroExpander { parser, place };
    let expanded = match (function, args.len(), receiver) {
        ("has", 1, false) => make.has(args),
        ("all" | "exists" | "exists_one", 2 | 3, true) | ("existsOne", 3, true) => {
            make.quantifier(function, target, args)
        }
        ("map", 2 | 3, true) => make.map(target, args),
        ("filter", 2, true) => make.filter(target, args),
        ("optMap" | "optFlatMap", 2, true) => make.opt_map(function, target, args),
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4, true) => {
            make.transform(function, target, args)
        }
        ("sortBy", 2, true) => make.sort_by(target, args),
        ("bind", 3, true) if make.parser.macros.bind && is_cel(target.as_ref()) => make.bind(args),
        _ => {
            let call = Call { function: function.into(), target, args };
            return parser.node(place, ExprKind::Call(Box::new(call)));
        }
    };
    expanded.unwrap_or_else(|(id, message)| {
        let place = parser.ast.position(id).unwrap_or(BEFORE_START);
        parser.cursor.problems.add(Some(place), message);
        Expr::default()
    })
}

fn is_cel(target: Option<&Expr>) -> bool {
    target.is_some_and(|target| matches!(&target.kind, ExprKind::Ident(name) if &**name == "cel"))
}

struct MacroExpander<'p, 'a> {
    parser: &'p mut Parser<'a>,
    place: usize,
}

impl MacroExpander<'_, '_> {
    fn has(&mut self, mut args: Vec<Expr>) -> Result<Expr, MacroError> {
        let arg = args.pop().unwrap_or_default();
        let ExprKind::Select(select) = arg.kind else {
            return Err((arg.id, "invalid argument to has() macro".to_owned()));
        };
        Ok(self.node(ExprKind::Select(Box::new(Select { test_only: true, ..*select }))))
    }

    fn quantifier(
        &mut self,
        function: &str,
        target: Option<Expr>,
        mut args: Vec<Expr>,
    ) -> Result<Expr, MacroError> {
        let predicate = args.pop().unwrap_or_default();
        let (iter, iter2) = variables(&args, "argument must be a simple name")?;
        let (init, condition, step, result) = match function {
            "all" => {
                let condition = vec![self.accu()];
                let step = vec![self.accu(), predicate];
                (
                    self.literal(Literal::Bool(true)),
                    self.call("@not_strictly_false", condition),
                    self.call("_&&_", step),
                    self.accu(),
                )
            }
            "exists" => {
                let not = vec![self.accu()];
                let not = vec![self.call("!_", not)];
                let step = vec![self.accu(), predicate];
                (
                    self.literal(Literal::Bool(false)),
                    self.call("@not_strictly_false", not),
                    self.call("_||_", step),
                    self.accu(),
                )
            }
            _ => {
                let plus = vec![self.accu(), self.literal(Literal::Int(1))];
                let step = vec![predicate, self.call("_+_", plus), self.accu()];
                let result = vec![self.accu(), self.literal(Literal::Int(1))];
                (
                    self.literal(Literal::Int(0)),
                    self.literal(Literal::Bool(true)),
                    self.call("_?_:_", step),
                    self.call("_==_", result),
                )
            }
        };
        let range = target.unwrap_or_default();
        let accu = ACCUMULATOR.into();
        Ok(self.fold(Comprehension { range, iter, iter2, accu, init, condition, step, result }))
    }

    fn map(&mut self, target: Option<Expr>, mut args: Vec<Expr>) -> Result<Expr, MacroError> {
        let value = args.pop().unwrap_or_default();
        let filter = if args.len() == 2 { args.pop() } else { None };
        let (iter, _) = variables(&args, "argument is not an identifier")?;
        let list = self.list(vec![value]);
        let step = vec![self.accu(), list];
        let step = self.call("_+_", step);
        Ok(self.collect(target, (iter, None), (filter, step), false))
    }

    fn filter(&mut self, target: Option<Expr>, mut args: Vec<Expr>) -> Result<Expr, MacroError> {
        let filter = args.pop();
        let (iter, _) = variables(&args, "argument is not an identifier")?;
        let list = self.list(args);
        let step = vec![self.accu(), list];
        let step = self.call("_+_", step);
        Ok(self.collect(target, (iter, None), (filter, step), false))
    }

    fn transform(
        &mut self,
        function: &str,
        target: Option<Expr>,
        mut args: Vec<Expr>,
    ) -> Result<Expr, MacroError> {
        let value = args.pop().unwrap_or_default();
        let filter = if args.len() == 3 { args.pop() } else { None };
        let (iter, iter2) = variables(&args, "argument must be a simple name")?;
        let step = match function {
            "transformList" => {
                let list = self.list(vec![value]);
                let step = vec![self.accu(), list];
                self.call("_+_", step)
            }
            "transformMap" => {
                let step = vec![self.accu(), self.ident(&iter), value];
                self.call("cel.@mapInsert", step)
            }
            _ => {
                let step = vec![self.accu(), value];
                self.call("cel.@mapInsert", step)
            }
        };
        Ok(self.collect(target, (iter, iter2), (filter, step), function != "transformList"))
    }

    /// A comprehension that collects a list or a map.
    fn collect(
        &mut self,
        target: Option<Expr>,
        (iter, iter2): (Arc<str>, Option<Arc<str>>),
        (filter, mut step): (Option<Expr>, Expr),
        map: bool,
    ) -> Expr {
        if let Some(filter) = filter {
            let branches = vec![filter, step, self.accu()];
            step = self.call("_?_:_", branches);
        }
        let init = if map { self.node(ExprKind::Map(Vec::new())) } else { self.list(Vec::new()) };
        let condition = self.literal(Literal::Bool(true));
        let result = self.accu();
        let range = target.unwrap_or_default();
        let accu = ACCUMULATOR.into();
        self.fold(Comprehension { range, iter, iter2, accu, init, condition, step, result })
    }

    fn opt_map(
        &mut self,
        function: &str,
        target: Option<Expr>,
        mut args: Vec<Expr>,
    ) -> Result<Expr, MacroError> {
        let result = args.pop().unwrap_or_default();
        let Some(ExprKind::Ident(name)) = args.first().map(|arg| &arg.kind) else {
            let id = args.first().map_or(0, |arg| arg.id);
            return Err((id, format!("{function}() variable name must be a simple identifier")));
        };
        let name = name.clone();
        let target = target.unwrap_or_default();
        let mut nodes = self.parser.ast.positions.len();
        target.walk(&mut |_| nodes += 1);
        if nodes > MOST_NODES {
            return Err((target.id, format!("expression node limit exceeded: {MOST_NODES}")));
        }
        let again = self.copy(&target);
        let init = self.member_call("value", again);
        let bound = self.bound(name, init, result);
        let some = if function == "optMap" { self.call("optional.of", vec![bound]) } else { bound };
        let test = self.member_call("hasValue", target);
        let none = self.call("optional.none", Vec::new());
        Ok(self.call("_?_:_", vec![test, some, none]))
    }

    fn sort_by(&mut self, target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, MacroError> {
        let target = target.unwrap_or_default();
        let sortable = matches!(
            target.kind,
            ExprKind::List(_)
                | ExprKind::Select(_)
                | ExprKind::Ident(_)
                | ExprKind::Fold(_)
                | ExprKind::Call(_)
        );
        if !sortable {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err((target.id, message.to_owned()));
        }
        let input = self.ident(SORT_INPUT);
        let keys = self.map(Some(input), args)?;
        let input = self.ident(SORT_INPUT);
        let call = Call {
            function: "@sortByAssociatedKeys".into(),
            target: Some(input),
            args: vec![keys],
        };
        let call = self.node(ExprKind::Call(Box::new(call)));
        Ok(self.bound(SORT_INPUT.into(), target, call))
    }

    fn bind(&mut self, mut args: Vec<Expr>) -> Result<Expr, MacroError> {
        let result = args.pop().unwrap_or_default();
        let init = args.pop().unwrap_or_default();
        let name = args.pop().unwrap_or_default();
        let ExprKind::Ident(variable) = name.kind else {
            let message = "cel.bind() variable names must be simple identifiers";
            return Err((name.id, message.to_owned()));
        };
        Ok(self.bound(variable, init, result))
    }

    /// `result`, with `name` bound to `init`: a comprehension over nothing.
    fn bound(&mut self, name: Arc<str>, init: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(&name);
        let iter = UNUSED.into();
        self.fold(Comprehension {
            range,
            iter,
            iter2: None,
            accu: name,
            init,
            condition,
            step,
            result,
        })
    }

    fn node(&mut self, kind: ExprKind) -> Expr {
        self.parser.node(self.place, kind)
    }

    fn fold(&mut self, fold: Comprehension) -> Expr {
        self.node(ExprKind::Fold(Box::new(fold)))
    }

    fn accu(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.node(ExprKind::Ident(name.into()))
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.node(ExprKind::Literal(literal))
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.parser.call(self.place, function, args)
    }

    fn member_call(&mut self, function: &str, target: Expr) -> Expr {
        let call = Call { function: function.into(), target: Some(target), args: Vec::new() };
        self.node(ExprKind::Call(Box::new(call)))
    }

    fn list(&mut self, values: Vec<Expr>) -> Expr {
        let elements = values.into_iter().map(|value| Element { value, optional: false });
        self.node(ExprKind::List(elements.collect()))
    }

    /// A copy of an expression with new node ids.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        copy
    }

    fn renumber(&mut self, expr: &mut Expr) {
        let place = self.parser.ast.position(expr.id).and_then(|place| usize::try_from(place).ok());
        expr.id = self.parser.id(place.unwrap_or(self.place));
        expr.children_mut().into_iter().for_each(|part| self.renumber(part));
    }
}

/// The one or two variables that a macro declares.
fn variables(args: &[Expr], unnamed: &str) -> Result<(Arc<str>, Option<Arc<str>>), MacroError> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for arg in args {
        let ExprKind::Ident(name) = &arg.kind else { return Err((arg.id, unnamed.to_owned())) };
        if names.contains(name) {
            return Err((arg.id, format!("duplicate variable name: {name}")));
        }
        if &**name == ACCUMULATOR || &**name == "__result__" {
            let message = "iteration variable overwrites accumulator variable";
            return Err((arg.id, message.to_owned()));
        }
        names.push(name.clone());
    }
    let second = if names.len() > 1 { names.pop() } else { None };
    let first = names.pop().unwrap_or_else(|| UNUSED.into());
    Ok((first, second))
}
