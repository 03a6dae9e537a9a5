//! What is found out before an expression is evaluated for the first time: conversions of
//! constants are done at once, and patterns are read.

use crate::{
    ast::{Expr, Kind},
    error::Error,
    eval,
    program::Program,
    validate::pattern,
};

/// The functions that make a value of one type from one of another.
const CONVERSIONS: [&str; 9] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"];

/// What fails of it, the innermost and leftmost first.
pub(crate) fn flaw(program: &Program, expr: &Expr) -> Option<Error> {
    let inner = expr.children().into_iter().find_map(|child| flaw(program, child));
    inner.or_else(|| match pattern(expr) {
        Some(pattern) => program.patterns().regex(pattern).err(),
        None if is_conversion(expr) => eval::failure(program, expr),
        None => None,
    })
}

/// Whether a constant is converted.
fn is_conversion(expr: &Expr) -> bool {
    let Kind::Call(call) = &expr.kind else { return false };
    let [only] = &call.args[..] else { return false };
    call.target.is_none()
        && CONVERSIONS.contains(&&*call.function)
        && (matches!(only.kind, Kind::Literal(_)) || is_conversion(only))
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
            program.flaw().map(|error| error.to_string())
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
