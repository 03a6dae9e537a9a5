//! Type unification: whether a type is assignable to another, and the resulting substitution of type parameters.

use std::{collections::HashMap, sync::Arc};

use object::depth;

use crate::types::Type;

/// The types assigned to type parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Substitution {
    types: HashMap<Arc<str>, Type>,
    /// The changes of the assignment in progress, with the previous values.
    changes: Vec<(Arc<str>, Option<Type>)>,
}

/// Maximum number of parts of a type: a chain of macros can create a type that grows or doubles with each link.
const MOST_PARTS: usize = 500;

impl Substitution {
    pub(crate) fn set(&mut self, param: &Arc<str>, to: Type) {
        let before = self.types.insert(param.clone(), to);
        self.changes.push((param.clone(), before));
    }

    /// Whether `a` is assignable to `b`. The substitution is changed only in that case.
    pub(crate) fn assign(&mut self, a: &Type, b: &Type) -> bool {
        self.changes.clear();
        let fits = self.fits(a, b);
        self.keep(fits)
    }

    pub(crate) fn assign_all(&mut self, a: &[Type], b: &[Type]) -> bool {
        self.changes.clear();
        let fits = self.fit_all(a, b);
        self.keep(fits)
    }

    /// Reverts the changes unless `fits`.
    fn keep(&mut self, fits: bool) -> bool {
        for (param, before) in self.changes.drain(..).rev().filter(|_| !fits) {
            match before {
                Some(before) => self.types.insert(param, before),
                None => self.types.remove(&param),
            };
        }
        fits
    }

    /// Whether a type, after substitution, has too many parts or is nested more deeply than values may be.
    pub(crate) fn is_too_large(&self, ty: &Type) -> bool {
        let mut left = MOST_PARTS;
        !self.counts(ty, depth::MAX, &mut left)
    }

    fn counts(&self, ty: &Type, depth: usize, left: &mut usize) -> bool {
        let (Some(depth), Some(fewer)) = (depth.checked_sub(1), left.checked_sub(1)) else {
            return false;
        };
        *left = fewer;
        match ty {
            Type::Param(name) => self.types.get(name).is_none_or(|to| self.counts(to, depth, left)),
            Type::List(of) | Type::Type(Some(of)) => self.counts(of, depth, left),
            Type::Map(of) => self.counts(&of.0, depth, left) && self.counts(&of.1, depth, left),
            Type::Opaque(_, params) => params.iter().all(|of| self.counts(of, depth, left)),
            _ => true,
        }
    }

    /// Substitutes parameters in `ty`; unknown ones become dyn if `dynamic`.
    pub(crate) fn apply(&self, ty: &Type, dynamic: bool) -> Type {
        match ty {
            Type::Param(name) => match self.types.get(name) {
                Some(to) => self.apply(to, dynamic),
                None if dynamic => Type::Dyn,
                None => ty.clone(),
            },
            Type::List(of) => Type::list(self.apply(of, dynamic)),
            Type::Map(of) => Type::map(self.apply(&of.0, dynamic), self.apply(&of.1, dynamic)),
            Type::Opaque(name, params) => {
                let params = params.iter().map(|param| self.apply(param, dynamic)).collect();
                Type::Opaque(name.clone(), params)
            }
            Type::Type(Some(of)) => Type::Type(Some(Arc::new(self.apply(of, dynamic)))),
            other => other.clone(),
        }
    }

    fn fit_all(&mut self, a: &[Type], b: &[Type]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.fits(a, b))
    }

    fn fits(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Param(param) = b {
            match self.substitute(a, param, b) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Param(param) = a {
            return self.substitute(b, param, a).0;
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) => self.fits(a, b),
            (Type::Map(a), Type::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            (Type::Opaque(a, of_a), Type::Opaque(b, of_b)) => a == b && self.fit_all(of_a, of_b),
            (a, b) => a == b,
        }
    }

    /// Whether the parameter `param` may be assigned `ty`, and whether it was assigned already.
    fn substitute(&mut self, ty: &Type, param: &Arc<str>, itself: &Type) -> (bool, bool) {
        if ty == itself {
            return (true, true);
        }
        if let Some(known) = self.types.get(param).cloned() {
            if *ty == known {
                return (true, true);
            }
            if !self.fits(ty, &known) {
                return (false, true);
            }
            let general = most_general(ty, &known);
            if !self.occurs(param, general) {
                self.set(param, general.clone());
            }
            return (true, true);
        }
        if self.occurs(param, ty) {
            return (false, false);
        }
        self.set(param, ty.clone());
        (true, false)
    }

    /// Whether `param` occurs within `ty`, which would make the type infinite.
    fn occurs(&self, param: &Arc<str>, ty: &Type) -> bool {
        match ty {
            Type::Param(name) if name == param => true,
            Type::Param(name) => self.types.get(name).is_some_and(|to| self.occurs(param, to)),
            Type::List(of) | Type::Type(Some(of)) => self.occurs(param, of),
            Type::Map(of) => self.occurs(param, &of.0) || self.occurs(param, &of.1),
            Type::Opaque(_, params) => params.iter().any(|of| self.occurs(param, of)),
            _ => false,
        }
    }
}

/// The more general of two compatible types.
pub(crate) fn most_general<'a>(a: &'a Type, b: &'a Type) -> &'a Type {
    if says_no_more(a, b) { a } else { b }
}

fn says_no_more(a: &Type, b: &Type) -> bool {
    let open = |ty: &Type| matches!(ty, Type::Dyn | Type::Any | Type::Param(_));
    match (a, b) {
        (a, _) if open(a) => true,
        (_, b) if open(b) => false,
        (Type::List(a), Type::List(b)) => says_no_more(a, b),
        (Type::Map(a), Type::Map(b)) => says_no_more(&a.0, &b.0) && says_no_more(&a.1, &b.1),
        (Type::Opaque(a, of_a), Type::Opaque(b, of_b)) => {
            a == b
                && of_a.len() == of_b.len()
                && of_a.iter().zip(&**of_b).all(|(a, b)| says_no_more(a, b))
        }
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a == b,
    }
}

fn is_nullable(ty: &Type) -> bool {
    matches!(ty, Type::Null | Type::Opaque(..) | Type::Struct(_) | Type::Duration | Type::Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_take_on_types() {
        let mut bound = Substitution::default();
        let param = Type::Param("A".into());
        assert!(bound.assign(&Type::list(Type::Int), &Type::list(param.clone())));
        assert!(!bound.assign(&Type::Text, &param));
        assert!(bound.assign(&Type::Int, &param));
        assert_eq!(bound.apply(&Type::list(param.clone()), true), Type::list(Type::Int));
        assert!(!bound.assign(&Type::Null, &Type::Text));
        assert!(bound.assign(&Type::Null, &Type::Timestamp));
        assert!(!Substitution::default().assign(&Type::list(param.clone()), &param));
    }
}
