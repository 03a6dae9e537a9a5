//! Type checker: resolves every name, and every call to its overloads.

use std::sync::Arc;

use crate::{
    ast::{Ast, Call, Comprehension, Expr, ExprKind, Field, Id, Literal, Select},
    environment::Environment,
    function::Overload,
    source::{ErrorCollector, SourcePosition},
    types::Type,
    unify::{Substitution, most_general},
};

/// The results of type checking, by node id.
#[derive(Debug, Default)]
pub(crate) struct TypeInfo {
    pub(crate) types: Vec<Type>,
    pub(crate) overloads: Vec<Vec<Arc<Overload>>>,
}

/// Type-checks `ast` against the declarations of `environment`; names in it become qualified.
pub(crate) fn type_check(
    ast: &mut Ast,
    environment: &Environment,
    problems: &mut ErrorCollector,
) -> TypeInfo {
    let count = ast.positions.len();
    let mut root = std::mem::take(&mut ast.root);
    let mut checker = TypeChecker {
        environment,
        places: &ast.positions,
        problems,
        bound: Substitution::default(),
        fresh: 0,
        scopes: Vec::new(),
        checked: TypeInfo { types: vec![Type::Dyn; count], overloads: vec![Vec::new(); count] },
    };
    checker.check(&mut root);
    let TypeChecker { mut checked, bound, .. } = checker;
    for ty in &mut checked.types {
        *ty = bound.apply(ty, true);
    }
    ast.root = root;
    checked
}

struct TypeChecker<'a> {
    environment: &'a Environment,
    places: &'a [SourcePosition],
    problems: &'a mut ErrorCollector,
    bound: Substitution,
    fresh: usize,
    /// Variables of comprehensions, innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    checked: TypeInfo,
}

impl TypeChecker<'_> {
    fn check(&mut self, expr: &mut Expr) -> Type {
        let id = expr.id;
        let ty = match &mut expr.kind {
            ExprKind::Error | ExprKind::Folded(_) => Type::Error,
            ExprKind::Literal(literal) => type_of(literal),
            ExprKind::Ident(_) | ExprKind::Select(_) => self.name_or_select(expr),
            ExprKind::Call(_) => self.call(expr),
            ExprKind::List(elements) => {
                let mut of = None;
                for element in elements {
                    let ty = self.check(&mut element.value);
                    let ty = self.unwrap(element.optional, element.value.id, ty);
                    of = Some(self.join(of, ty));
                }
                Type::list(of.unwrap_or_else(|| self.fresh()))
            }
            ExprKind::Map(entries) => {
                let (mut key, mut value) = (None, None);
                for entry in entries {
                    let ty = self.check(&mut entry.key);
                    key = Some(self.join(key, ty));
                    let ty = self.check(&mut entry.value);
                    let ty = self.unwrap(entry.optional, entry.value.id, ty);
                    value = Some(self.join(value, ty));
                }
                let key = key.unwrap_or_else(|| self.fresh());
                Type::map(key, value.unwrap_or_else(|| self.fresh()))
            }
            ExprKind::Struct(name, fields) => {
                let name = name.clone();
                self.message(id, &name, fields)
            }
            ExprKind::Fold(fold) => self.fold(fold),
        };
        let ty = if self.bound.is_too_large(&ty) {
            self.report(id, "the type of the expression exceeded max depth".to_owned());
            Type::Error
        } else {
            ty
        };
        self.checked.types[id] = ty.clone();
        ty
    }

    fn report(&mut self, id: Id, message: String) {
        let place = self.places.get(id).copied().flatten();
        self.problems.add(place, message);
    }

    fn undeclared(&mut self, id: Id, name: &str) -> Type {
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn fresh(&mut self) -> Type {
        self.fresh += 1;
        Type::Param(format!("_var{}", self.fresh - 1).into())
    }

    fn local(&self, name: &str) -> Option<&Type> {
        self.scopes.iter().rev().find(|(other, _)| &**other == name).map(|(_, ty)| ty)
    }

    /// The type of a variable of the environment, or of a type name.
    fn global(&self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let variable = self.environment.variable(name).cloned();
        variable.or_else(|| {
            let named = Type::called(name).or_else(|| self.environment.structure(name));
            named.map(|ty| Type::Type(Some(Arc::new(ty))))
        })
    }

    fn name_or_select(&mut self, expr: &mut Expr) -> Type {
        if let ExprKind::Ident(name) = &expr.kind {
            let name = name.clone();
            let local = self.local(&name).filter(|_| !name.starts_with('.')).cloned();
            let found = local.or_else(|| self.global(&name));
            return found.unwrap_or_else(|| self.undeclared(expr.id, &name));
        }
        if let Some(name) = qualified(expr)
            && self.local(name.split('.').next().unwrap_or_default()).is_none()
            && let Some(ty) = self.global(&name)
        {
            expr.kind = ExprKind::Ident(name.into());
            return ty;
        }
        let ExprKind::Select(select) = &mut expr.kind else { return Type::Error };
        let Select { operand, field, test_only: test } = &mut **select;
        let operand = self.check(operand);
        let ty = self.field(expr.id, &operand, field, false);
        if *test { Type::Bool } else { self.bound.apply(&ty, false) }
    }

    /// The type of a field of a value of type `operand`.
    fn field(&mut self, id: Id, operand: &Type, field: &str, optional: bool) -> Type {
        let operand = self.bound.apply(operand, false);
        let target = operand.in_optional().unwrap_or(&operand);
        let ty = match target {
            Type::Map(of) => of.1.clone(),
            Type::Struct(name) => self.environment.field(name, field).unwrap_or_else(|| {
                let known = self.environment.structure(name).is_some();
                let message = if known {
                    format!("undefined field '{field}'")
                } else {
                    format!("unexpected failed resolution of '{name}'")
                };
                self.report(id, message);
                Type::Error
            }),
            Type::Param(_) => {
                self.bound.assign(&Type::Dyn, target);
                Type::Dyn
            }
            target => {
                if !target.is_dyn_or_error() {
                    let message = format!("type '{target}' does not support field selection");
                    self.report(id, message);
                }
                Type::Dyn
            }
        };
        if optional || operand.in_optional().is_some() { Type::optional(ty) } else { ty }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let id = expr.id;
        let ExprKind::Call(call) = &mut expr.kind else { return Type::Error };
        let Call { function, target, args } = &mut **call;
        if &**function == "_?._" {
            return self.optional_select(id, args);
        }
        for arg in args.iter_mut() {
            self.check(arg);
        }
        if let Some(name) = target.as_ref().and_then(qualified) {
            let name = format!("{name}.{function}");
            if self.environment.functions().get(&name).is_some() {
                (*function, *target) = (name.trim_start_matches('.').into(), None);
            }
        }
        if let Some(target) = target {
            self.check(target);
        }
        let Some(overloads) = self.environment.functions().get(function).map(<[_]>::to_vec) else {
            let function = function.clone();
            return self.undeclared(id, &function);
        };
        *function = function.trim_start_matches('.').into();
        let ids = target.iter().chain(args.iter()).map(|arg| arg.id).collect::<Vec<_>>();
        let (function, member) = (function.clone(), target.is_some());
        self.resolve(id, (&function, member), &overloads, &ids)
    }

    fn optional_select(&mut self, id: Id, args: &mut [Expr]) -> Type {
        let [operand, field] = args else { return Type::Error };
        let ExprKind::Literal(Literal::Text(field)) = &field.kind else { return Type::Error };
        let field = field.clone();
        let operand = self.check(operand);
        let ty = self.field(id, &operand, &field, true);
        if let Some(overloads) = self.environment.functions().get("_?._") {
            self.checked.overloads[id] = overloads.to_vec();
        }
        self.bound.apply(&ty, false)
    }

    fn resolve(
        &mut self,
        id: Id,
        (function, member): (&str, bool),
        overloads: &[Arc<Overload>],
        ids: &[Id],
    ) -> Type {
        let mut args: Vec<Type> = ids.iter().map(|id| self.checked.types[*id].clone()).collect();
        if matches!(function, "_&&_" | "_||_") {
            return self.logic(id, overloads, ids, &args);
        }
        let mut result: Option<Type> = None;
        let mut found = Vec::new();
        for overload in overloads.iter().filter(|overload| overload.member == member) {
            let mut fresh = Substitution::default();
            for param in &overload.params {
                let stand_in = self.fresh();
                fresh.set(param, stand_in);
            }
            let wanted: Vec<Type> =
                overload.args.iter().map(|arg| fresh.apply(arg, false)).collect();
            if !self.bound.assign_all(&args, &wanted) {
                continue;
            }
            found.push(overload.clone());
            let ty = self.bound.apply(&fresh.apply(&overload.result, false), false);
            result = Some(match result {
                None => ty,
                Some(result) if result.is_dyn() || result == ty => result,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            self.checked.overloads[id] = found;
            return result;
        }
        for arg in &mut args {
            *arg = self.bound.apply(arg, true);
        }
        let names: Vec<String> = args.iter().map(Type::to_string).collect();
        let shown = match names.split_first() {
            Some((target, rest)) if member => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", names.join(", ")),
        };
        let message = format!("found no matching overload for '{function}' applied to '{shown}'");
        self.report(id, message);
        Type::Error
    }

    fn logic(&mut self, id: Id, overloads: &[Arc<Overload>], ids: &[Id], args: &[Type]) -> Type {
        let mut result = Type::Bool;
        for (id, arg) in ids.iter().zip(args) {
            if !self.bound.assign(arg, &Type::Bool) {
                self.mismatch(*id, &Type::Bool, arg);
                result = Type::Error;
            }
        }
        self.checked.overloads[id] = overloads.to_vec();
        result
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{found}'"));
    }

    /// The type that an optional element adds to a literal.
    fn unwrap(&mut self, optional: bool, id: Id, ty: Type) -> Type {
        if !optional {
            return ty;
        }
        if let Some(of) = ty.in_optional() {
            return of.clone();
        }
        if !ty.is_dyn() {
            self.mismatch(id, &Type::optional(ty.clone()), &ty);
        }
        ty
    }

    /// The common type of the elements of a literal; whether they must agree is checked later.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.bound.assign(&previous, &current) {
            return most_general(&previous, &current).clone();
        }
        Type::Dyn
    }

    fn message(&mut self, id: Id, name: &Arc<str>, fields: &mut [Field]) -> Type {
        let bare = name.strip_prefix('.').unwrap_or(name);
        let structure = self.environment.structure(bare);
        let Some(ty) = structure.or_else(|| Type::called(bare)) else {
            return self.undeclared(id, name);
        };
        let Type::Struct(known) = &ty else {
            self.report(id, format!("'{ty}' is not a message type"));
            return Type::Error;
        };
        for field in fields {
            let value = self.check(&mut field.value);
            let wanted = self.environment.field(known, &field.name);
            if wanted.is_none() {
                self.report(field.id, format!("undefined field '{}'", field.name));
            }
            let wanted = wanted.unwrap_or(Type::Error);
            let value = self.unwrap(field.optional, field.value.id, value);
            if !self.bound.assign(&wanted, &value) {
                let name = &field.name;
                let message = format!(
                    "expected type of field '{name}' is '{wanted}' but provided type is '{value}'"
                );
                self.report(field.id, message);
            }
        }
        ty
    }

    fn fold(&mut self, fold: &mut Comprehension) -> Type {
        let range = self.check(&mut fold.range);
        let init = self.check(&mut fold.init);
        let range = self.bound.apply(&range, false);
        let pair = fold.iter2.is_some();
        let (first, second) = match &range {
            Type::List(of) if pair => (Type::Int, (**of).clone()),
            Type::List(of) => ((**of).clone(), Type::Error),
            Type::Map(of) => (of.0.clone(), of.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.bound.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            range => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        let outer = self.scopes.len();
        self.scopes.push((fold.accu.clone(), init.clone()));
        self.scopes.push((fold.iter.clone(), first));
        if let Some(iter2) = &fold.iter2 {
            self.scopes.push((iter2.clone(), second));
        }
        let condition = self.check(&mut fold.condition);
        self.assert(fold.condition.id, &Type::Bool, &condition);
        let step = self.check(&mut fold.step);
        self.assert(fold.step.id, &init, &step);
        self.scopes.truncate(outer + 1);
        let result = self.check(&mut fold.result);
        self.scopes.truncate(outer);
        self.bound.apply(&result, false)
    }

    fn assert(&mut self, id: Id, expected: &Type, found: &Type) {
        if !self.bound.assign(expected, found) {
            self.mismatch(id, expected, found);
        }
    }
}

fn type_of(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::Text(_) => Type::Text,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// `a.b.c` as one qualified name, if the expression consists only of names.
fn qualified(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.to_string()),
        ExprKind::Select(select) if !select.test_only => {
            Some(format!("{}.{}", qualified(&select.operand)?, select.field))
        }
        _ => None,
    }
}
