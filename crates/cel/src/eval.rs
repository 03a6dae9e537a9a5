//! The evaluator: walks the checked tree.

use std::{collections::BTreeMap, sync::Arc};

use object::depth;
use schema::pattern::Pattern;

use crate::{
    ast::{ACCUMULATOR, Call, Comprehension, Element, Entry, Expr, ExprKind, Field, Id, Literal},
    cost,
    error::Error,
    function::Overload,
    pattern::RegexCache,
    program::{Bindings, Program},
    validate::pattern,
    value::{Key, List, Map, Message, Text, Value},
};

pub(crate) type EvalResult<'a> = Result<Value<'a>, Error>;

/// The evaluation state that functions can access.
#[derive(Debug)]
pub(crate) struct EvalContext<'a> {
    pub(crate) patterns: &'a RegexCache,
    /// The overload that is being called.
    pub(crate) overload: &'static str,
    spent: u64,
    budget: u64,
    /// Number of bytes of all strings created so far.
    made: u64,
}

/// Maximum size of a value in bytes; a shared part counts each time.
pub(crate) const LARGEST_VALUE: usize = 32 << 20;
/// Maximum number of bytes of all strings that one evaluation creates.
const MOST_MADE: u64 = 256 << 20;

impl<'a> EvalContext<'a> {
    pub(crate) fn new(patterns: &'a RegexCache, budget: u64) -> Self {
        Self { patterns, overload: "", spent: 0, budget, made: 0 }
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), Error> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.budget { Err(Error::cost()) } else { Ok(()) }
    }

    /// The compiled regular expression, from the cache if possible.
    pub(crate) fn pattern(&mut self, text: &str) -> Result<Result<Pattern, String>, Error> {
        let (pattern, cost) = self.patterns.get(text);
        self.charge(cost)?;
        Ok(pattern)
    }

    pub(crate) fn refund(&mut self, cost: u64) {
        self.spent = self.spent.saturating_sub(cost);
    }
}

/// Evaluates a program. Returns the value and its cost.
pub(crate) fn run<'a>(
    program: &'a Program,
    bindings: &'a Bindings<'a>,
    budget: u64,
) -> (EvalResult<'a>, u64) {
    let context = EvalContext::new(program.patterns(), budget);
    let mut evaluator = Evaluator { program, bindings, context, slots: Vec::new() };
    let outcome = evaluator.eval(program.root());
    (outcome, evaluator.context.spent)
}

/// Calls a function. If the argument types were `known` at compile time, they fit; otherwise an error names them.
pub(crate) fn apply<'a>(
    context: &mut EvalContext<'a>,
    function: &str,
    overloads: &[Arc<Overload>],
    args: &mut [Value<'a>],
    known: bool,
) -> EvalResult<'a> {
    let types: Vec<String> = if known {
        Vec::new()
    } else {
        args.iter().map(|arg| arg.type_name().to_owned()).collect()
    };
    let mut outcome = Err(Error::no_overload());
    let mut tried: Vec<crate::function::Body> = Vec::new();
    for overload in overloads {
        if tried.iter().any(|body| std::ptr::fn_addr_eq(*body, overload.body)) {
            continue;
        }
        tried.push(overload.body);
        context.overload = overload.id;
        outcome = (overload.body)(context, args);
        if !matches!(&outcome, Err(error) if error.is_no_overload()) {
            break;
        }
    }
    outcome.map_err(|error| if error.is_no_overload() { refused(function, &types) } else { error })
}

/// The state of an evaluation.
pub(crate) struct Evaluator<'a> {
    pub(crate) program: &'a Program,
    pub(crate) bindings: &'a Bindings<'a>,
    pub(crate) context: EvalContext<'a>,
    /// Variables of comprehensions, innermost last.
    pub(crate) slots: Vec<ScopeVariable<'a>>,
}

/// A variable of a comprehension.
pub(crate) struct ScopeVariable<'a> {
    pub(crate) name: &'a str,
    value: EvalResult<'a>,
    /// The initial value of an accumulator, evaluated on first use.
    begin: Option<&'a Expr>,
    /// Set if the next use is the last one: the step of a comprehension then takes the old accumulator, so that a list
    /// grows in place.
    last_use: bool,
}

impl<'a> ScopeVariable<'a> {
    fn new(name: &'a str, value: EvalResult<'a>) -> Self {
        Self { name, value, begin: None, last_use: false }
    }
}

impl<'a> Evaluator<'a> {
    pub(crate) fn eval(&mut self, expr: &'a Expr) -> EvalResult<'a> {
        match &expr.kind {
            ExprKind::Error => Err(Error::new("invalid expression")),
            ExprKind::Literal(literal) => Ok(constant(literal)),
            ExprKind::Folded(value) => Ok(value.clone()),
            ExprKind::Ident(_) | ExprKind::Select(_) => self.attribute(expr),
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(elements) => {
                let made = self.list(elements);
                self.make(cost::LIST_CREATE_COST, made)
            }
            ExprKind::Map(entries) => {
                let made = self.map(entries);
                self.make(cost::MAP_CREATE_COST, made)
            }
            ExprKind::Struct(name, fields) => {
                let made = self.message(name, fields);
                self.make(cost::STRUCT_CREATE_COST, made)
            }
            ExprKind::Fold(fold) => self.fold(fold),
        }
    }

    /// The value of a comprehension variable. An accumulator is initialized on first use.
    pub(crate) fn slot(&mut self, at: usize) -> EvalResult<'a> {
        let slot = &mut self.slots[at];
        let Some(begin) = slot.begin.take() else {
            return if slot.last_use {
                std::mem::replace(&mut slot.value, Ok(Value::Null))
            } else {
                slot.value.clone()
            };
        };
        let inner = self.slots.split_off(at);
        let value = self.eval(begin);
        self.slots.extend(inner);
        if !self.slots[at].last_use {
            self.slots[at].value.clone_from(&value);
        }
        value
    }

    fn call(&mut self, expr: &'a Expr, call: &'a Call) -> EvalResult<'a> {
        match (&*call.function, call.args.as_slice()) {
            ("_?_:_" | "_[_]" | "_[?_]" | "_?._", _) => self.attribute(expr),
            ("_&&_", [left, right]) => self.logic(left, right, false),
            ("_||_", [left, right]) => self.logic(left, right, true),
            ("@not_strictly_false", [value]) => {
                let value = self.eval(value);
                self.context.charge(1)?;
                match value {
                    Err(error) if error.is_fatal() => Err(error),
                    value => Ok(Value::Bool(!matches!(value, Ok(Value::Bool(false))))),
                }
            }
            ("or" | "orValue", [other]) if call.target.is_some() => self.or(call, other),
            // `in` an empty list is false for any value.
            ("@in", [_, list]) if is_constant(list, |size| size == 0) => Ok(Value::Bool(false)),
            _ => self.function(expr.id, call),
        }
    }

    /// `||` if `decides` is true, `&&` otherwise. If one side decides, errors of the other are ignored.
    fn logic(&mut self, left: &'a Expr, right: &'a Expr, decides: bool) -> EvalResult<'a> {
        let left = self.eval(left);
        match left {
            Ok(Value::Bool(b)) if b == decides => return left,
            Err(ref error) if error.is_fatal() => return left,
            _ => {}
        }
        let right = self.eval(right);
        match (left, right) {
            (_, Err(error)) if error.is_fatal() => Err(error),
            (_, Ok(Value::Bool(b))) if b == decides => Ok(Value::Bool(b)),
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decides)),
            _ => Err(Error::no_overload()),
        }
    }

    fn or(&mut self, call: &'a Call, other: &'a Expr) -> EvalResult<'a> {
        let target = call.target.as_ref().map(|target| self.eval(target)).transpose()?;
        let value = &*call.function == "orValue";
        match target {
            Some(Value::Optional(Some(held))) if value => Ok((*held).clone()),
            Some(some @ Value::Optional(Some(_))) => Ok(some),
            Some(Value::Optional(None)) => self.eval(other),
            _ => Err(Error::no_overload()),
        }
    }

    fn function(&mut self, id: Id, call: &'a Call) -> EvalResult<'a> {
        let parts = call.target.iter().chain(&call.args);
        // Up to two arguments are all evaluated even if the first fails, unless one is a regular expression literal. A
        // call whose arguments were all evaluated is charged even if it fails.
        let count = parts.clone().count();
        let few = count <= 2 && pattern(call).is_none();
        let mut args = Vec::with_capacity(call.args.len() + 1);
        let mut failed = None;
        for (at, part) in parts.enumerate() {
            match self.eval(part) {
                Ok(value) => args.push(value),
                Err(error) if !few && at + 1 < count || error.is_fatal() => return Err(error),
                Err(error) => {
                    failed.get_or_insert(error);
                    args.push(Value::Null);
                }
            }
        }
        let overloads = self.program.overloads(id);
        let only = if let [only] = overloads { only.id } else { "" };
        // A constant list is looked up in, not traversed.
        let looked_up = only == "in_list" && is_constant(&call.args[1], |_| true);
        if !looked_up {
            self.context.charge(cost::argument_cost(&call.function, only, &args)?)?;
        }
        let known = self.program.has_known_types(&call.args, call.target.as_ref());
        let outcome = match failed {
            Some(error) => Err(error),
            None => apply(&mut self.context, &call.function, overloads, &mut args, known),
        };
        self.context.charge(cost::result_cost(&call.function, only, outcome.as_ref().ok()))?;
        if let Ok(made @ (Value::Text(_) | Value::Bytes(_))) = &outcome {
            self.context.made = self.context.made.saturating_add(made.weight());
            if self.context.made > MOST_MADE {
                return Err(Error::cost());
            }
        }
        outcome.and_then(bounded)
    }

    /// Charges the cost of a created value, whether it succeeds or not.
    fn make(&mut self, cost: u64, made: EvalResult<'a>) -> EvalResult<'a> {
        match made {
            Err(error) if error.is_fatal() => Err(error),
            made => self.context.charge(cost).and(made).and_then(bounded),
        }
    }

    fn list(&mut self, elements: &'a [Element]) -> EvalResult<'a> {
        let mut items = Vec::with_capacity(elements.len());
        for element in elements {
            let value = self.eval(&element.value)?;
            items.extend(unwrap(value, element.optional)?);
        }
        Ok(Value::List(List::from(items)))
    }

    fn map(&mut self, entries: &'a [Entry]) -> EvalResult<'a> {
        let mut made = BTreeMap::new();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            let Some(key) = Key::of(&key) else {
                let ty = key.type_name();
                return Err(Error::new(format!("unsupported key type: {ty}")));
            };
            match unwrap(value, entry.optional)? {
                Some(value) => made.insert(key, value),
                None => made.remove(&key),
            };
        }
        Ok(Value::Map(Map::from(made)))
    }

    fn message(&mut self, name: &'a Arc<str>, fields: &'a [Field]) -> EvalResult<'a> {
        let mut made = Vec::with_capacity(fields.len());
        for field in fields {
            let value = self.eval(&field.value)?;
            if let Some(value) = unwrap(value, field.optional)? {
                made.push((field.name.clone(), value));
            }
        }
        let name = name.strip_prefix('.').unwrap_or(name).into();
        Ok(Value::Message(Arc::new(Message::new(name, made))))
    }

    fn fold(&mut self, fold: &'a Comprehension) -> EvalResult<'a> {
        let range = self.eval(&fold.range)?;
        let accu = self.slots.len();
        self.slots.push(ScopeVariable {
            begin: Some(&fold.init),
            ..ScopeVariable::new(&fold.accu, Ok(Value::Null))
        });
        let done = match range {
            Value::List(list) => self.over_list(fold, accu, &list),
            Value::Map(map) => self.over_map(fold, accu, &map),
            other if fold.iter2.is_some() => {
                let ty = other.go_name();
                Err(Error::new(format!("unsupported comprehension range type: {ty}")))
            }
            other => {
                let ty = other.go_name();
                Err(Error::new(format!("got '{ty}', expected iterable type")))
            }
        };
        self.slots.truncate(accu + 1);
        let outcome = done.and_then(|()| self.eval(&fold.result));
        self.slots.truncate(accu);
        outcome
    }

    fn over_list(
        &mut self,
        fold: &'a Comprehension,
        accu: usize,
        list: &List<'a>,
    ) -> Result<(), Error> {
        for at in 0..list.len() {
            let Some(item) = list.get(at) else { break };
            let pair = match &fold.iter2 {
                Some(_) => (Ok(Value::Int(i64::try_from(at).unwrap_or(i64::MAX))), Some(item)),
                None => (item, None),
            };
            if !self.round(fold, accu, pair)? {
                break;
            }
        }
        Ok(())
    }

    fn over_map(
        &mut self,
        fold: &'a Comprehension,
        accu: usize,
        map: &Map<'a>,
    ) -> Result<(), Error> {
        for key in map.keys() {
            let value = fold
                .iter2
                .as_ref()
                .map(|_| map.get(&key).unwrap_or_else(|| Err(Error::no_such_key(&key))));
            if !self.round(fold, accu, (Ok(key.value()), value))? {
                break;
            }
        }
        Ok(())
    }

    /// One iteration of a comprehension; returns whether to continue.
    fn round(
        &mut self,
        fold: &'a Comprehension,
        accu: usize,
        (first, second): (EvalResult<'a>, Option<EvalResult<'a>>),
    ) -> Result<bool, Error> {
        self.slots.truncate(accu + 1);
        self.slots.push(ScopeVariable::new(&fold.iter, first));
        if let (Some(name), Some(value)) = (&fold.iter2, second) {
            self.slots.push(ScopeVariable::new(name, value));
        }
        if !matches!(self.eval(&fold.condition)?, Value::Bool(true)) {
            return Ok(false);
        }
        self.slots[accu].last_use = &*fold.accu == ACCUMULATOR;
        let step = self.eval(&fold.step);
        self.slots[accu].last_use = false;
        match step {
            Err(error) if error.is_fatal() => Err(error),
            step => {
                self.slots[accu].value = step;
                self.slots[accu].begin = None;
                Ok(true)
            }
        }
    }
}

/// The value, unless it is nested too deeply or too large.
fn bounded(value: Value<'_>) -> EvalResult<'_> {
    let weight = match &value {
        Value::List(List::Tree { .. }) | Value::Map(Map::Tree { .. }) | Value::Preserved(_) => 0,
        made => made.weight(),
    };
    if usize::try_from(weight).map_or(true, |weight| weight > LARGEST_VALUE) {
        return Err(Error::cost());
    }
    if usize::from(value.height()) > depth::MAX {
        return Err(Error::new(format!("value exceeded max depth of {}", depth::MAX)));
    }
    Ok(value)
}

/// Whether an expression is a constant list of scalars whose length satisfies `size`.
fn is_constant(expr: &Expr, size: impl Fn(usize) -> bool) -> bool {
    let ExprKind::Folded(Value::List(List::Owned(items))) = &expr.kind else { return false };
    let simple = |item: &Value<'_>| {
        use Value::{Bool, Double, Int, Text, Uint};
        matches!(item, Bool(_) | Int(_) | Uint(_) | Double(_) | Text(_))
    };
    size(items.len()) && items.iter().all(simple)
}

fn constant(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(b) => Value::Bool(*b),
        Literal::Int(n) => Value::Int(*n),
        Literal::Uint(n) => Value::Uint(*n),
        Literal::Double(n) => Value::Double(*n),
        Literal::Text(text) => Value::Text(Text::Borrowed(text)),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}

/// The value of an optional element of a literal, if it has one.
fn unwrap(value: Value<'_>, optional: bool) -> Result<Option<Value<'_>>, Error> {
    match value {
        Value::Optional(held) if optional => Ok(held.map(|held| (*held).clone())),
        other if optional => {
            let ty = other.type_name();
            Err(Error::new(format!(
                "cannot initialize optional element from non-optional value {ty}"
            )))
        }
        value => Ok(Some(value)),
    }
}

/// Upstream's error for argument types that a function does not accept: it names the types, unless the first one
/// decides.
fn refused(function: &str, types: &[String]) -> Error {
    let first = types.first().map_or("", String::as_str);
    let added = matches!(
        first,
        "int"
            | "uint"
            | "double"
            | "string"
            | "bytes"
            | "list"
            | "google.protobuf.Duration"
            | "google.protobuf.Timestamp"
    );
    let takes = match function {
        "_+_" => added,
        "_-_" => added && !matches!(first, "string" | "bytes" | "list"),
        "_*_" | "_/_" => matches!(first, "int" | "uint" | "double"),
        "_%_" => matches!(first, "int" | "uint"),
        "_<_" | "_<=_" | "_>_" | "_>=_" => added && first != "list" || first == "bool",
        "@in" | "!_" | "matches" | "contains" | "startsWith" | "endsWith" => true,
        "-_" => added && !matches!(first, "uint" | "bytes" | "list") || first == "bool",
        "size" | "sort" | "@sortByAssociatedKeys" => false,
        _ => return Error::no_overload_for(&format!("{function}({})", types.join(", "))),
    };
    if takes { Error::no_overload() } else { Error::no_overload_for(function) }
}
