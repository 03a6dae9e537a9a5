//! Cost estimation: walks the tree and tracks the possible sizes of values. Size limits of the schema are found by the
//! path from a variable.

use std::{collections::HashMap, sync::Arc};

use super::{CostRange, LIST_CREATE_COST, MAP_CREATE_COST, SELECT_COST, STRUCT_CREATE_COST, calls};
use crate::{
    ast::{ACCUMULATOR, Ast, Call, Comprehension, Expr, ExprKind, Id, Literal},
    check::TypeInfo,
    decl_type::{DeclKind, DeclType},
    environment::Environment,
    types::Type,
};

/// The minimum and maximum cost of `ast`.
pub(crate) fn estimate(ast: &Ast, checked: &TypeInfo, environment: &Environment) -> CostRange {
    let mut coster = CostEstimator {
        checked,
        environment,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    coster.cost(&ast.root)
}

/// A path from a variable through fields, `@items`, `@keys` and `@values`.
pub(super) type Path = Arc<[Arc<str>]>;

/// The sizes of the keys and values of a list or a map.
#[derive(Clone, Copy)]
struct Entries {
    is_list: bool,
    key: CostRange,
    value: CostRange,
}

struct LocalVariable {
    name: Arc<str>,
    path: Option<Path>,
    size: Option<CostRange>,
    entries: Option<Entries>,
}

/// An argument with its type and possible size.
pub(super) struct SizedExpr<'a> {
    pub(super) expr: Option<&'a Expr>,
    pub(super) ty: Type,
    path: Option<Path>,
    size: Option<CostRange>,
}

/// The state of a cost estimation.
pub(super) struct CostEstimator<'a> {
    checked: &'a TypeInfo,
    environment: &'a Environment,
    paths: HashMap<Id, Path>,
    sizes: HashMap<Id, CostRange>,
    entries: HashMap<Id, Entries>,
    locals: Vec<LocalVariable>,
}

impl<'a> CostEstimator<'a> {
    fn cost(&mut self, expr: &'a Expr) -> CostRange {
        match &expr.kind {
            ExprKind::Error | ExprKind::Literal(_) | ExprKind::Folded(_) => CostRange::ZERO,
            ExprKind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => Some([name.clone()].into()),
                };
                self.set_path(expr.id, path);
                CostRange::fixed(SELECT_COST)
            }
            ExprKind::Select(select) => {
                let operand = self.cost(&select.operand);
                if select.test_only {
                    return operand;
                }
                let ty = &self.checked.types[select.operand.id];
                let counted = matches!(ty, Type::Map(_) | Type::Struct(_) | Type::Param(_));
                self.extend_path(expr.id, &select.operand, &select.field);
                if counted { operand.plus(CostRange::fixed(SELECT_COST)) } else { operand }
            }
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(elements) => {
                let parts = elements.iter().map(|element| &element.value);
                let (cost, value) = self.parts(parts);
                let entries = Entries { is_list: true, key: CostRange::fixed(1), value };
                self.entries.insert(expr.id, entries);
                cost.plus(CostRange::fixed(LIST_CREATE_COST))
            }
            ExprKind::Map(entries) => {
                let (keys, key) = self.parts(entries.iter().map(|entry| &entry.key));
                let (values, value) = self.parts(entries.iter().map(|entry| &entry.value));
                self.entries.insert(expr.id, Entries { is_list: false, key, value });
                keys.plus(values).plus(CostRange::fixed(MAP_CREATE_COST))
            }
            ExprKind::Struct(_, fields) => {
                let (cost, _) = self.parts(fields.iter().map(|field| &field.value));
                cost.plus(CostRange::fixed(STRUCT_CREATE_COST))
            }
            ExprKind::Fold(fold) if is_bind(fold) => self.bind(expr, fold),
            ExprKind::Fold(fold) => self.fold(expr, fold),
        }
    }

    /// The cost of the elements of a literal, and their sizes.
    fn parts(&mut self, parts: impl Iterator<Item = &'a Expr>) -> (CostRange, CostRange) {
        let (mut cost, mut size) = (CostRange::ZERO, None);
        for part in parts {
            cost = cost.plus(self.cost(part));
            let part = self.size_or_unknown(part);
            size = Some(size.map_or(part, |size: CostRange| size.union(part)));
        }
        (cost, size.unwrap_or(CostRange::ZERO))
    }

    fn call(&mut self, expr: &'a Expr, call: &'a Call) -> CostRange {
        if &*call.function == "dyn"
            && let Some(arg) = call.args.first()
        {
            let cost = self.cost(arg);
            self.copy_sizes(expr.id, arg);
            return cost.plus(CostRange::fixed(1));
        }
        let costs: Vec<CostRange> = call.args.iter().map(|arg| self.cost(arg)).collect();
        let args: Vec<SizedExpr<'a>> = call.args.iter().map(|arg| self.part(arg)).collect();
        let overloads = &self.checked.overloads[expr.id];
        if overloads.is_empty() {
            return CostRange::ZERO;
        }
        let mut total = CostRange::ZERO;
        let target = call.target.as_ref().map(|target| {
            total = self.cost(target);
            self.part(target)
        });
        let mut cost = CostRange { min: u64::MAX, max: 0 };
        let mut size: Option<CostRange> = None;
        for overload in overloads {
            let signature = calls::Call {
                function: &call.function,
                overload: overload.id,
                target: target.as_ref(),
                args: &args,
                costs: &costs,
            };
            let (of_overload, result) = calls::estimate(self, &signature);
            self.track_entries(expr, overload.id, &call.args);
            cost = cost.union(of_overload);
            size = match (size, result) {
                (Some(size), Some(result)) => Some(size.union(result)),
                (size, result) => size.or(result),
            };
            if let ("index_list" | "index_map", Some(operand)) = (overload.id, call.args.first()) {
                size = self.entries_of(operand).map(|entries| entries.value);
                let step = if overload.id == "index_list" { "@items" } else { "@values" };
                self.extend_path(expr.id, operand, step);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        total.plus(cost)
    }

    /// Derives the element sizes of a result from those of the arguments.
    fn track_entries(&mut self, expr: &Expr, overload: &str, args: &[Expr]) {
        let pair = match (overload, args) {
            ("conditional", [_, a, b]) | ("add_string" | "add_bytes" | "add_list", [a, b]) => {
                (a, b)
            }
            _ => return,
        };
        if let (Some(a), Some(b)) = (self.entries_of(pair.0), self.entries_of(pair.1)) {
            let entries = Entries {
                is_list: a.is_list,
                key: a.key.union(b.key),
                value: a.value.union(b.value),
            };
            self.entries.insert(expr.id, entries);
        }
    }

    fn fold(&mut self, expr: &'a Expr, fold: &'a Comprehension) -> CostRange {
        let mut total = self.cost(&fold.range).plus(self.cost(&fold.init));
        let outer = self.locals.len();
        self.push_value(&fold.accu, &fold.init);
        match &fold.iter2 {
            Some(iter2) => {
                self.push_iter(&fold.iter, &fold.range, Iter::Key);
                self.push_iter(iter2, &fold.range, Iter::Value);
            }
            None => self.push_iter(&fold.iter, &fold.range, Iter::Single),
        }
        let round = self.cost(&fold.condition);
        let round = round.plus(self.cost(&fold.step));
        self.locals.truncate(outer + 1);
        total = total.plus(self.cost(&fold.result));
        self.locals.truncate(outer);
        let rounds = self.size_or_unknown(&fold.range);
        match &fold.init.kind {
            ExprKind::Literal(_) => {
                if let Some(size) = self.size(&fold.init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.sizes.insert(expr.id, rounds);
                if let Some(entries) = self.entries_of(&fold.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        total.plus(rounds.times(round))
    }

    fn bind(&mut self, expr: &'a Expr, fold: &'a Comprehension) -> CostRange {
        let mut total = self.cost(&fold.range).plus(self.cost(&fold.init));
        let outer = self.locals.len();
        self.push_value(&fold.accu, &fold.init);
        total = total.plus(self.cost(&fold.result));
        self.copy_sizes(expr.id, &fold.result);
        self.locals.truncate(outer);
        total
    }

    fn push_value(&mut self, name: &Arc<str>, value: &Expr) {
        let path = self.path(value);
        let (size, entries) = (self.size(value), self.entries_of(value));
        self.locals.push(LocalVariable { name: name.clone(), path, size, entries });
    }

    fn push_iter(&mut self, name: &Arc<str>, range: &Expr, iter: Iter) {
        let entries = self.entries_of(range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.types[range.id], Type::List(_)),
        };
        let (step, size) = match (iter, is_list) {
            (Iter::Key, true) => ("@indices", entries.map(|entries| entries.key)),
            (Iter::Key | Iter::Single, false) => ("@keys", entries.map(|entries| entries.key)),
            (Iter::Value | Iter::Single, true) => ("@items", entries.map(|entries| entries.value)),
            (Iter::Value, false) => ("@values", entries.map(|entries| entries.value)),
        };
        let path = extended(self.path(range).as_ref(), step);
        self.locals.push(LocalVariable {
            name: name.clone(),
            path: Some(path),
            size,
            entries: None,
        });
    }

    fn local(&self, name: &str) -> Option<&LocalVariable> {
        self.locals.iter().rev().find(|local| &*local.name == name)
    }

    fn path(&self, expr: &Expr) -> Option<Path> {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned()
    }

    fn set_path(&mut self, id: Id, path: Option<Path>) {
        if let Some(path) = path {
            self.paths.insert(id, path);
        }
    }

    fn extend_path(&mut self, id: Id, operand: &Expr, step: &str) {
        let path = extended(self.path(operand).as_ref(), step);
        self.paths.insert(id, path);
    }

    fn part(&mut self, expr: &'a Expr) -> SizedExpr<'a> {
        let hidden = |path: &Path| path.first().is_some_and(|first| &**first == ACCUMULATOR);
        SizedExpr {
            expr: Some(expr),
            ty: self.checked.types[expr.id].clone(),
            path: self.path(expr).filter(|path| !hidden(path)),
            size: self.size(expr),
        }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> CostRange {
        self.size(expr).unwrap_or(CostRange::UNKNOWN)
    }

    fn size(&mut self, expr: &Expr) -> Option<CostRange> {
        if let Some(size) = self.sizes.get(&expr.id).copied().or_else(|| literal_size(expr)) {
            return Some(size);
        }
        let ty = &self.checked.types[expr.id];
        if let Some(size) = self.declared(self.path(expr).as_ref()) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(ty) {
            return Some(CostRange::fixed(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    /// The size limit that the schema declares at a path. Like upstream, this assumes that the path begins at the
    /// variable that has the schema.
    fn declared(&self, path: Option<&Path>) -> Option<CostRange> {
        let (_, rest) = path?.split_first()?;
        let mut node: &DeclType = self.environment.root()?;
        let mut keys = false;
        for step in rest {
            if keys {
                return None;
            }
            match (&node.kind, &**step) {
                (DeclKind::List { items: Some(items), .. }, "@items" | "@values") => node = items,
                (DeclKind::Map(of), "@items" | "@values") => node = of,
                (DeclKind::Map(_), "@keys") => keys = true,
                (DeclKind::Map(of), _) if matches!(of.kind, DeclKind::Plain) => node = of,
                (DeclKind::Object { fields, .. }, step) => node = &fields.get(step)?.1,
                _ => return None,
            }
        }
        Some(CostRange { min: 0, max: if keys { 0 } else { node.max } })
    }

    fn entries_of(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        }
    }

    fn copy_sizes(&mut self, id: Id, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(id, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(id, entries);
        }
    }

    /// The size of an argument, as functions see it.
    pub(super) fn size_of(&self, part: &SizedExpr<'_>) -> CostRange {
        part.size.or_else(|| self.declared(part.path.as_ref())).unwrap_or(CostRange::UNKNOWN)
    }

    /// The elements of an argument that is a list.
    pub(super) fn items_of(part: &SizedExpr<'_>) -> Option<SizedExpr<'a>> {
        let ty = match &part.ty {
            Type::List(of) => (**of).clone(),
            Type::Map(of) => of.0.clone(),
            Type::Opaque(_, params) => params.first()?.clone(),
            _ => return None,
        };
        let path = part.path.as_ref().map(|path| extended(Some(path), "@items"));
        Some(SizedExpr { expr: None, ty, path, size: None })
    }
}

impl SizedExpr<'_> {
    /// The size that is known without the schema.
    pub(super) fn computed(&self) -> Option<CostRange> {
        self.size
    }

    pub(super) fn computed_or_unknown(&self) -> CostRange {
        self.size.unwrap_or(CostRange::UNKNOWN)
    }

    /// The value of an integer literal.
    pub(super) fn literal(&self) -> Option<i64> {
        match self.expr.map(|expr| &expr.kind) {
            Some(ExprKind::Literal(Literal::Int(n))) => Some(*n),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Iter {
    Key,
    Value,
    Single,
}

fn extended(path: Option<&Path>, step: &str) -> Path {
    path.iter().flat_map(|path| path.iter().cloned()).chain([step.into()]).collect()
}

/// Whether a comprehension is the expansion of `cel.bind`.
fn is_bind(fold: &Comprehension) -> bool {
    let empty = matches!(&fold.range.kind, ExprKind::List(elements) if elements.is_empty());
    let never = matches!(fold.condition.kind, ExprKind::Literal(Literal::Bool(false)));
    empty && never && &*fold.accu != "__result__"
}

fn literal_size(expr: &Expr) -> Option<CostRange> {
    let size = match &expr.kind {
        ExprKind::Literal(Literal::Text(text)) => text.chars().count(),
        ExprKind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        ExprKind::Literal(_) => 1,
        ExprKind::List(elements) => elements.len(),
        ExprKind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(CostRange::fixed(u64::try_from(size).unwrap_or(u64::MAX)))
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        ty => ty.in_optional().is_some_and(is_scalar),
    }
}
