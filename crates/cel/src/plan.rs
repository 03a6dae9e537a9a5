//! Constant folding at compile time: literals become values, conversions of constants are computed, and regular
//! expression literals are compiled.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    ast::{Expr, ExprKind, Literal},
    check::TypeInfo,
    environment::Environment,
    error::Error,
    eval::{self, EvalContext},
    pattern::RegexCache,
    program::CALL_LIMIT,
    types::Type,
    validate::pattern,
    value::{Key, Map, Text, Value},
};

/// The type conversion functions.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

static NO_PATTERNS: RegexCache = RegexCache::new();

/// Folds the constants of a checked expression.
pub(crate) struct ConstantFolder<'a> {
    pub(crate) checked: &'a TypeInfo,
    pub(crate) environment: &'a Environment,
    pub(crate) patterns: &'a mut RegexCache,
}

impl ConstantFolder<'_> {
    /// Replaces constant subexpressions. Returns the first error, innermost and leftmost.
    pub(crate) fn fold(&mut self, expr: &mut Expr) -> Result<(), Error> {
        for child in expr.children_mut() {
            self.fold(child)?;
        }
        if let ExprKind::Call(call) = &expr.kind
            && let Some(pattern) = pattern(call)
        {
            return self.patterns.add(pattern).map_err(Error::new);
        }
        if let Some(value) = self.value(expr)? {
            expr.kind = ExprKind::Folded(value);
        }
        Ok(())
    }

    fn value(&self, expr: &Expr) -> Result<Option<Value<'static>>, Error> {
        match &expr.kind {
            ExprKind::Ident(name) if matches!(self.checked.types[expr.id], Type::Type(_)) => {
                let name = name.strip_prefix('.').unwrap_or(name);
                let named = Type::called(name).or_else(|| self.environment.structure(name));
                let unknown = || Error::new(format!("reference to undefined type: {name}"));
                let ty = named.ok_or_else(unknown)?;
                Ok(Some(Value::Type(ty.runtime_name().into())))
            }
            ExprKind::List(elements) => {
                let items = elements
                    .iter()
                    .map(|element| constant(&element.value).filter(|_| !element.optional));
                Ok(items.collect::<Option<Vec<_>>>().map(Value::list))
            }
            ExprKind::Map(entries) => {
                let entries = entries.iter().map(|entry| {
                    let key = Key::of(&constant(&entry.key)?)?;
                    Some((key, constant(&entry.value).filter(|_| !entry.optional)?))
                });
                let entries = entries.collect::<Option<BTreeMap<_, _>>>();
                Ok(entries.map(|entries| Value::Map(Map::from(entries))))
            }
            ExprKind::Call(call) if call.target.is_none() => {
                let [only] = &call.args[..] else { return Ok(None) };
                let converts = CONVERSIONS.contains(&&*call.function);
                let Some(value) = constant(only).filter(|_| converts) else { return Ok(None) };
                let overloads: &[Arc<_>] = &self.checked.overloads[expr.id];
                let known = self.checked.types[only.id].is_known();
                let mut context = EvalContext::new(&NO_PATTERNS, CALL_LIMIT);
                let args = &mut [value];
                eval::apply(&mut context, &call.function, overloads, args, known).map(Some)
            }
            _ => Ok(None),
        }
    }
}

fn constant(expr: &Expr) -> Option<Value<'static>> {
    Some(match &expr.kind {
        ExprKind::Folded(value) => value.clone(),
        ExprKind::Literal(Literal::Null) => Value::Null,
        ExprKind::Literal(Literal::Bool(b)) => Value::Bool(*b),
        ExprKind::Literal(Literal::Int(n)) => Value::Int(*n),
        ExprKind::Literal(Literal::Uint(n)) => Value::Uint(*n),
        ExprKind::Literal(Literal::Double(n)) => Value::Double(*n),
        ExprKind::Literal(Literal::Text(text)) => Value::Text(Text::from(text)),
        ExprKind::Literal(Literal::Bytes(bytes)) => Value::Bytes(bytes.clone()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Environment, Type};

    #[test]
    fn constants_are_converted_before_they_are_used() {
        let environment = Arc::new(Environment::new().with_variable("self", Type::Dyn));
        let flaw = |source: &str| {
            let program = environment.compile(source).expect("it compiles");
            program.instantiation_error().map(ToString::to_string)
        };
        for (source, why) in [
            ("false && int('x') == 1", "type conversion error from 'string' to 'int'"),
            ("self.all(x, uint(-1) == x)", "unsigned integer overflow"),
            ("int(string(1.5e300)) == 1", "type conversion error from 'string' to 'int'"),
            ("self.a.find('(') == ''", "error parsing regexp: missing closing ): `(`"),
        ] {
            assert_eq!(flaw(source).as_deref(), Some(why), "{source}");
        }
        for source in ["int(self.a) == int('5')", "self.a.find('a+') == string(1)", "1 / 0 == 1"] {
            assert_eq!(flaw(source), None, "{source}");
        }
    }
}
