//! Compiled expressions and their variable bindings.

use std::sync::Arc;

use object::depth;

use crate::{
    ast::{Ast, Expr, ExprKind, Id, Literal},
    check::TypeInfo,
    cost::{self, CostRange},
    decl_type::DeclType,
    environment::Environment,
    error::Error,
    eval,
    function::Overload,
    pattern::RegexCache,
    plan::ConstantFolder,
    types::Type,
    value::{Value, from_tree, to_tree},
};

/// Cost limit of one evaluation, about a tenth of a second.
pub const CALL_LIMIT: u64 = 1_000_000;

/// Prefix of the error message of `instantiation_error`.
pub const INSTANTIATION_FAILED: &str = "program instantiation failed: ";

/// A compiled and type-checked expression.
#[derive(Debug)]
pub struct Program {
    ast: Ast,
    checked: TypeInfo,
    patterns: RegexCache,
    environment: Arc<Environment>,
    cost: CostRange,
    instantiation_error: Option<Error>,
    height: usize,
}

impl Program {
    pub(crate) fn new(mut ast: Ast, checked: TypeInfo, environment: Arc<Environment>) -> Self {
        let cost = cost::estimate(&ast, &checked, &environment);
        let mut patterns = RegexCache::new();
        let mut plan = ConstantFolder {
            checked: &checked,
            environment: &environment,
            patterns: &mut patterns,
        };
        let flaw = plan.fold(&mut ast.root).err();
        let height = ast.root.height();
        Self { ast, checked, patterns, environment, cost, instantiation_error: flaw, height }
    }

    /// The depth of the tree, which is the recursion depth of its evaluation.
    pub(crate) fn height(&self) -> usize {
        self.height
    }

    pub fn output_type(&self) -> &Type {
        &self.checked.types[self.ast.root.id]
    }

    /// Error that makes every evaluation fail, found by constant folding at compile time: a literal that cannot be
    /// converted, or an invalid regular expression.
    pub fn instantiation_error(&self) -> Option<&Error> {
        self.instantiation_error.as_ref()
    }

    /// The program, or its instantiation error.
    pub(crate) fn require_valid(self) -> Result<Self, String> {
        match &self.instantiation_error {
            Some(flaw) => Err(format!("{INSTANTIATION_FAILED}{flaw}")),
            None => Ok(self),
        }
    }

    /// The estimated cost of an evaluation.
    pub fn cost(&self) -> CostRange {
        self.cost
    }

    /// Evaluates with `bindings`, with at most `budget` and `CALL_LIMIT` as cost. Returns the value and its cost.
    pub fn evaluate<'a>(
        &'a self,
        bindings: &'a Bindings<'a>,
        budget: u64,
    ) -> (Result<Value<'a>, Error>, u64) {
        eval::run(self, bindings, budget.min(CALL_LIMIT))
    }

    /// Whether the expression reads the variable `name`.
    pub fn uses(&self, name: &str) -> bool {
        let mut found = false;
        let mut visit = |expr: &Expr| {
            found |= matches!(&expr.kind, ExprKind::Ident(other) if &**other == name);
        };
        self.ast.root.walk(&mut visit);
        found
    }

    /// The fields of the variable `name` that the expression reads.
    pub fn fields_of(&self, name: &str) -> Vec<&str> {
        let mut found = Vec::new();
        self.ast.root.walk(&mut |expr| {
            let (operand, field): (_, &str) = match &expr.kind {
                ExprKind::Select(select) => (&select.operand, &select.field),
                ExprKind::Call(call) if &*call.function == "_?._" => match &call.args[..] {
                    [operand, Expr { kind: ExprKind::Literal(Literal::Text(field)), .. }] => {
                        (operand, field)
                    }
                    _ => return,
                },
                _ => return,
            };
            if matches!(&operand.kind, ExprKind::Ident(other) if &**other == name)
                && !found.contains(&field)
            {
                found.push(field);
            }
        });
        found
    }

    pub(crate) fn root(&self) -> &Expr {
        &self.ast.root
    }

    pub(crate) fn overloads(&self, id: Id) -> &[Arc<Overload>] {
        &self.checked.overloads[id]
    }

    /// Whether the types of all arguments are known.
    pub(crate) fn has_known_types(&self, args: &[Expr], target: Option<&Expr>) -> bool {
        target.into_iter().chain(args).all(|arg| self.checked.types[arg.id].is_known())
    }

    pub(crate) fn patterns(&self) -> &RegexCache {
        &self.patterns
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }
}

/// The values of variables.
#[derive(Debug, Default)]
pub struct Bindings<'a> {
    bound: Vec<(&'a str, Binding<'a>)>,
}

/// The value of a variable.
#[derive(Debug)]
pub(crate) enum Binding<'a> {
    Value(Value<'a>),
    /// Fields that are computed when they are read.
    Computed(&'a dyn LazyFields<'a>),
}

/// An object whose fields are computed when they are read.
pub(crate) trait LazyFields<'a> {
    /// `None` if there is no such field.
    fn get(&self, name: &str, bindings: &'a Bindings<'a>) -> Option<Result<Value<'a>, Error>>;
}

impl<'a> std::fmt::Debug for dyn LazyFields<'a> + 'a {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Computed")
    }
}

impl<'a> Bindings<'a> {
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds `name` to a part of an object, typed by `node` or else by its JSON.
    pub fn tree(
        mut self,
        name: &'a str,
        tree: &'a object::Value,
        node: Option<&'a DeclType>,
    ) -> Result<Self, Error> {
        self.bound.push((name, Binding::Value(from_tree(tree, node)?)));
        Ok(self)
    }

    pub fn value(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.bound.push((name, Binding::Value(value)));
        self
    }

    pub(crate) fn computed(mut self, name: &'a str, fields: &'a dyn LazyFields<'a>) -> Self {
        self.bound.push((name, Binding::Computed(fields)));
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Binding<'a>> {
        self.bound.iter().find(|(other, _)| *other == name).map(|(_, bound)| bound)
    }
}

impl Value<'_> {
    /// Converts the value to JSON, where that is possible.
    pub fn to_tree(&self) -> Result<object::Value, Error> {
        let tree = to_tree(self)?;
        if depth::exceeds(&tree, depth::MAX_DOCUMENT) {
            let max = depth::MAX_DOCUMENT;
            return Err(Error::new(format!("value exceeded max depth of {max}")));
        }
        Ok(tree)
    }
}

impl<'a> Value<'a> {
    /// An optional with a part of an object, or an empty one.
    pub fn optional_tree(
        tree: Option<(&'a object::Value, Option<&'a DeclType>)>,
    ) -> Result<Self, Error> {
        match tree {
            Some((tree, node)) => Ok(Self::some(from_tree(tree, node)?)),
            None => Ok(Self::NONE),
        }
    }
}
