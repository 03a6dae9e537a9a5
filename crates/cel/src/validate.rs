//! Validation of literals after type checking.

use crate::{
    ast::{Ast, Call, Expr, ExprKind, Literal},
    check::TypeInfo,
    library::check_format,
    pattern::compile,
    source::ErrorCollector,
    types::Type,
    value::{Timestamp, parse_duration},
};

/// Reports invalid literals, and lists and maps with mixed types.
pub(crate) fn validate(ast: &Ast, checked: &TypeInfo, problems: &mut ErrorCollector) {
    let mut validator = Validator { ast, checked, problems };
    validator.visit(&ast.root, false);
}

/// The regular expression literal of a call.
pub(crate) fn pattern(call: &Call) -> Option<&str> {
    let at = match (&*call.function, call.target.is_some()) {
        ("matches", false) => 1,
        ("matches" | "find" | "findAll", true) => 0,
        _ => return None,
    };
    call.args.get(at).and_then(literal)
}

fn literal(expr: &Expr) -> Option<&str> {
    if let ExprKind::Literal(Literal::Text(text)) = &expr.kind { Some(text) } else { None }
}

struct Validator<'a> {
    ast: &'a Ast,
    checked: &'a TypeInfo,
    problems: &'a mut ErrorCollector,
}

impl Validator<'_> {
    /// `mixed`: lists and maps may have mixed types here.
    fn visit(&mut self, expr: &Expr, mixed: bool) {
        let mut inner = mixed;
        match &expr.kind {
            ExprKind::Call(call) => {
                self.call(expr, call);
                inner |= &*call.function == "format";
            }
            ExprKind::List(elements) if !mixed => {
                let parts = elements.iter().map(|element| (&element.value, element.optional));
                self.alike(parts, true);
            }
            ExprKind::Map(entries) if !mixed => {
                self.alike(entries.iter().map(|entry| (&entry.key, false)), false);
                self.alike(entries.iter().map(|entry| (&entry.value, entry.optional)), false);
            }
            _ => {}
        }
        for child in expr.children() {
            self.visit(child, inner);
        }
    }

    fn call(&mut self, expr: &Expr, call: &Call) {
        let Some(first) = call.args.first() else { return };
        let valid: Option<fn(&str) -> bool> = match &*call.function {
            "duration" => Some(|text| parse_duration(text).is_some()),
            "timestamp" => Some(|text| Timestamp::parse(text).is_some()),
            "matches" => Some(|text| compile(text).is_ok()),
            _ => None,
        };
        if let (Some(valid), Some(text)) = (valid, literal(first))
            && !valid(text)
        {
            self.report(first, format!("invalid {} argument", call.function));
        }
        if let ("timestamp", ExprKind::Literal(Literal::Int(seconds))) =
            (&*call.function, &first.kind)
            && Timestamp::new(*seconds, 0).is_err()
        {
            self.report(first, "invalid timestamp argument".to_owned());
        }
        if &*call.function == "format"
            && let Some(format) = call.target.as_ref().and_then(literal)
            && let ExprKind::List(elements) = &first.kind
        {
            let args: Vec<&Expr> = elements.iter().map(|element| &element.value).collect();
            if let Some((id, message)) = check_format(expr.id, format, &args, self.checked) {
                self.problems.add(self.ast.position(id), message);
            }
        }
    }

    /// Reports elements whose type differs from that of the first one; only the first such element if `once`.
    fn alike<'e>(&mut self, parts: impl Iterator<Item = (&'e Expr, bool)>, once: bool) {
        let mut expected: Option<Type> = None;
        for (part, optional) in parts {
            let ty = &self.checked.types[part.id];
            let ty = ty.in_optional().filter(|_| optional).unwrap_or(ty);
            match &expected {
                None => expected = Some(ty.clone()),
                Some(expected) if expected == ty => {}
                Some(expected) => {
                    let message = format!("expected type '{expected}' but found '{ty}'");
                    self.report(part, message);
                    if once {
                        return;
                    }
                }
            }
        }
    }

    fn report(&mut self, expr: &Expr, message: String) {
        self.problems.add(self.ast.position(expr.id), message);
    }
}
