//! Evaluation: a walk over the checked tree.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    ast::{ACCUMULATOR, Call, Element, Entry, Expr, Field, Fold, Id, Kind, Literal},
    cost,
    error::Error,
    pattern::Patterns,
    program::{Bindings, Bound, CALL_LIMIT, Program},
    types::Type,
    value::{Key, List, Map, Message, Text, Value},
};

type Outcome<'a> = Result<Value<'a>, Error>;

/// What functions see of an evaluation.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) patterns: &'a Patterns,
    /// The overload that is called.
    pub(crate) overload: &'static str,
    spent: u64,
    budget: u64,
}

impl Context<'_> {
    fn charge(&mut self, cost: u64) -> Result<(), Error> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.budget { Err(Error::cost()) } else { Ok(()) }
    }
}

/// The value of a program, and what it cost.
pub(crate) fn run<'a>(
    program: &'a Program,
    bindings: &'a Bindings<'a>,
    budget: u64,
) -> (Outcome<'a>, u64) {
    let context = Context { patterns: program.patterns(), overload: "", spent: 0, budget };
    let mut evaluator = Evaluator { program, bindings, context, slots: Vec::new() };
    let outcome = evaluator.eval(program.root());
    (outcome, evaluator.context.spent)
}

/// What is wrong with a part that needs no variables.
pub(crate) fn failure(program: &Program, expr: &Expr) -> Option<Error> {
    let (bindings, budget) = (Bindings::new(), CALL_LIMIT);
    let context = Context { patterns: program.patterns(), overload: "", spent: 0, budget };
    let mut evaluator = Evaluator { program, bindings: &bindings, context, slots: Vec::new() };
    evaluator.eval(expr).err()
}

struct Evaluator<'a> {
    program: &'a Program,
    bindings: &'a Bindings<'a>,
    context: Context<'a>,
    /// Variables of folds, innermost last.
    slots: Vec<Slot<'a>>,
}

struct Slot<'a> {
    name: &'a str,
    value: Outcome<'a>,
    /// The next use is the last: a step that makes the next value of an accumulator
    /// takes the old one, so that a list grows in place.
    last_use: bool,
}

impl<'a> Evaluator<'a> {
    fn eval(&mut self, expr: &'a Expr) -> Outcome<'a> {
        match &expr.kind {
            Kind::Error => Err(Error::new("invalid expression")),
            Kind::Literal(literal) => Ok(constant(literal)),
            Kind::Ident(name) => self.name(name),
            Kind::Select(select) => self.select(&select.operand, &select.field, select.test),
            Kind::Call(call) => self.call(expr.id, call),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct(name, fields) => self.message(name, fields),
            Kind::Fold(fold) => self.fold(fold),
        }
    }

    fn name(&mut self, name: &'a str) -> Outcome<'a> {
        self.context.charge(cost::SELECT)?;
        let global = name.strip_prefix('.');
        if global.is_none()
            && let Some(slot) = self.slots.iter_mut().rev().find(|slot| slot.name == name)
        {
            return if slot.last_use {
                std::mem::replace(&mut slot.value, Ok(Value::Null))
            } else {
                slot.value.clone()
            };
        }
        let name = global.unwrap_or(name);
        match self.bindings.get(name) {
            Some(Bound::Value(value)) => Ok(value.clone()),
            Some(Bound::Fields(_)) => Err(Error::no_overload()),
            None => match Type::called(name).or_else(|| self.program.environment().structure(name))
            {
                Some(ty) => Ok(Value::Type(ty.runtime_name().into())),
                None => Err(Error::new(format!("no such attribute(s): {name}"))),
            },
        }
    }

    fn select(&mut self, operand: &'a Expr, field: &'a str, test: bool) -> Outcome<'a> {
        if let Kind::Ident(name) = &operand.kind
            && let Some(Bound::Fields(fields)) = self.bindings.get(name)
        {
            self.context.charge(2 * cost::SELECT)?;
            let found = fields.iter().find(|(other, _)| &**other == field);
            return match found {
                _ if test => Ok(Value::Bool(found.is_some())),
                Some((_, value)) => value.clone(),
                None => Err(Error::no_such_key(field)),
            };
        }
        let operand = self.eval(operand)?;
        if test {
            return present(&operand, field).map(Value::Bool);
        }
        self.context.charge(cost::SELECT)?;
        match operand {
            Value::Optional(None) => Ok(Value::NONE),
            Value::Optional(Some(held)) => optional(get_field(&held, field)),
            operand => get_field(&operand, field).unwrap_or_else(|| Err(Error::no_such_key(field))),
        }
    }

    fn call(&mut self, id: Id, call: &'a Call) -> Outcome<'a> {
        match (&*call.function, call.args.as_slice()) {
            ("_&&_", [left, right]) => self.logic(left, right, false),
            ("_||_", [left, right]) => self.logic(left, right, true),
            ("_?_:_", [condition, yes, no]) => match self.eval(condition)? {
                Value::Bool(true) => self.eval(yes),
                Value::Bool(false) => self.eval(no),
                _ => Err(Error::no_overload()),
            },
            ("@not_strictly_false", [value]) => {
                let value = self.eval(value);
                self.context.charge(1)?;
                match value {
                    Err(error) if error.is_cost() => Err(error),
                    value => Ok(Value::Bool(!matches!(value, Ok(Value::Bool(false))))),
                }
            }
            ("_[_]", [operand, index]) => self.index(operand, index, false),
            ("_[?_]", [operand, index]) => self.index(operand, index, true),
            ("_?._", [operand, field]) => {
                let operand = self.eval(operand)?;
                self.context.charge(cost::SELECT)?;
                let Kind::Literal(Literal::Text(field)) = &field.kind else {
                    return Err(Error::no_overload());
                };
                match operand {
                    Value::Optional(None) => Ok(Value::NONE),
                    Value::Optional(Some(held)) => optional(get_field(&held, field)),
                    operand => optional(get_field(&operand, field)),
                }
            }
            ("or" | "orValue", [other]) if call.target.is_some() => self.or(call, other),
            _ => self.function(id, call),
        }
    }

    /// `||` if `decides` is true, `&&` otherwise. One side is enough where it decides,
    /// whatever became of the other.
    fn logic(&mut self, left: &'a Expr, right: &'a Expr, decides: bool) -> Outcome<'a> {
        let left = self.eval(left);
        match left {
            Ok(Value::Bool(b)) if b == decides => return left,
            Err(ref error) if error.is_cost() => return left,
            _ => {}
        }
        let right = self.eval(right);
        match (left, right) {
            (_, Err(error)) if error.is_cost() => Err(error),
            (_, Ok(Value::Bool(b))) if b == decides => Ok(Value::Bool(b)),
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decides)),
            _ => Err(Error::no_overload()),
        }
    }

    fn index(&mut self, operand: &'a Expr, index: &'a Expr, opt: bool) -> Outcome<'a> {
        let operand = self.eval(operand)?;
        let index = self.eval(index)?;
        self.context.charge(cost::SELECT)?;
        let (operand, opt) = match operand {
            Value::Optional(None) => return Ok(Value::NONE),
            Value::Optional(Some(held)) => ((*held).clone(), true),
            operand => (operand, opt),
        };
        let found = get_index(&operand, &index)?;
        match found {
            found if opt => optional(found),
            Some(value) => value,
            None => Err(missing(&operand, &index)),
        }
    }

    fn or(&mut self, call: &'a Call, other: &'a Expr) -> Outcome<'a> {
        let target = call.target.as_ref().map(|target| self.eval(target)).transpose()?;
        let value = &*call.function == "orValue";
        match target {
            Some(Value::Optional(Some(held))) if value => Ok((*held).clone()),
            Some(some @ Value::Optional(Some(_))) => Ok(some),
            Some(Value::Optional(None)) => self.eval(other),
            _ => Err(Error::no_overload()),
        }
    }

    fn function(&mut self, id: Id, call: &'a Call) -> Outcome<'a> {
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for arg in call.target.iter().chain(&call.args) {
            args.push(self.eval(arg)?);
        }
        let overloads = self.program.overloads(id);
        let only = if let [only] = overloads { only.id } else { "" };
        self.context.charge(cost::before(&call.function, only, &args))?;
        // Values whose types were known before fit; others are named if they do not.
        let known = self.program.knows(&call.args, call.target.as_ref());
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
            self.context.overload = overload.id;
            outcome = (overload.body)(&mut self.context, &mut args);
            if !matches!(&outcome, Err(error) if error.is_overload()) {
                break;
            }
        }
        let value = outcome.map_err(|error| {
            if error.is_overload() { refused(&call.function, &types) } else { error }
        })?;
        self.context.charge(cost::after(&call.function, &value))?;
        Ok(value)
    }

    fn list(&mut self, elements: &'a [Element]) -> Outcome<'a> {
        let mut items = Vec::with_capacity(elements.len());
        for element in elements {
            let value = self.eval(&element.value)?;
            items.extend(unwrap(value, element.optional)?);
        }
        self.context.charge(cost::LIST)?;
        Ok(Value::List(List::from(items)))
    }

    fn map(&mut self, entries: &'a [Entry]) -> Outcome<'a> {
        let mut made = BTreeMap::new();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            let Some(key) = Key::of(&key).filter(|_| !matches!(key, Value::Double(_))) else {
                let ty = key.type_name();
                return Err(Error::new(format!("unsupported key type: {ty}")));
            };
            if let Some(value) = unwrap(value, entry.optional)?
                && made.insert(key.clone(), value).is_some()
            {
                return Err(Error::new(format!("Failed with repeated key: {key}")));
            }
        }
        self.context.charge(cost::MAP)?;
        Ok(Value::Map(Map::from(made)))
    }

    fn message(&mut self, name: &'a Arc<str>, fields: &'a [Field]) -> Outcome<'a> {
        let mut made = Vec::with_capacity(fields.len());
        for field in fields {
            let value = self.eval(&field.value)?;
            if let Some(value) = unwrap(value, field.optional)? {
                made.push((field.name.clone(), value));
            }
        }
        self.context.charge(cost::STRUCT)?;
        let name = name.strip_prefix('.').unwrap_or(name).into();
        Ok(Value::Message(Arc::new(Message { name, fields: made })))
    }

    fn fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        let init = self.eval(&fold.init);
        if let Err(error) = &init
            && error.is_cost()
        {
            return init;
        }
        let accu = self.slots.len();
        self.slots.push(Slot { name: &fold.accu, value: init, last_use: false });
        let done = match range {
            Value::List(list) => self.over_list(fold, accu, &list),
            Value::Map(map) => self.over_map(fold, accu, &map),
            other => {
                let ty = other.type_name();
                Err(Error::new(format!("got '{ty}', expected iterable type")))
            }
        };
        self.slots.truncate(accu + 1);
        let outcome = done.and_then(|()| self.eval(&fold.result));
        self.slots.truncate(accu);
        outcome
    }

    fn over_list(&mut self, fold: &'a Fold, accu: usize, list: &List<'a>) -> Result<(), Error> {
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

    fn over_map(&mut self, fold: &'a Fold, accu: usize, map: &Map<'a>) -> Result<(), Error> {
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

    /// One round of a fold; whether there may be another.
    fn round(
        &mut self,
        fold: &'a Fold,
        accu: usize,
        (first, second): (Outcome<'a>, Option<Outcome<'a>>),
    ) -> Result<bool, Error> {
        self.slots.truncate(accu + 1);
        self.slots.push(Slot { name: &fold.iter, value: first, last_use: false });
        if let (Some(name), Some(value)) = (&fold.iter2, second) {
            self.slots.push(Slot { name, value, last_use: false });
        }
        if !matches!(self.eval(&fold.condition)?, Value::Bool(true)) {
            return Ok(false);
        }
        self.slots[accu].last_use = &*fold.accu == ACCUMULATOR;
        let step = self.eval(&fold.step);
        self.slots[accu].last_use = false;
        match step {
            Err(error) if error.is_cost() => Err(error),
            step => {
                self.slots[accu].value = step;
                Ok(true)
            }
        }
    }
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

/// An optional part of a literal: its value, if it has one.
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

/// What was found as an optional; what is optional itself stays one.
fn optional(found: Option<Outcome<'_>>) -> Result<Value<'_>, Error> {
    match found {
        None => Ok(Value::NONE),
        Some(Ok(already @ Value::Optional(_))) => Ok(already),
        Some(Ok(value)) => Ok(Value::some(value)),
        Some(Err(error)) => Err(error),
    }
}

fn get_field<'a>(operand: &Value<'a>, field: &str) -> Option<Outcome<'a>> {
    match operand {
        Value::Map(map) => map.field(field),
        Value::Message(message) => {
            let found = message.fields.iter().find(|(name, _)| &**name == field);
            found.map(|(_, value)| Ok(value.clone()))
        }
        _ => None,
    }
}

fn present(operand: &Value<'_>, field: &str) -> Result<bool, Error> {
    match operand {
        Value::Map(map) => Ok(map.field(field).is_some()),
        Value::Message(message) => Ok(message.fields.iter().any(|(name, _)| &**name == field)),
        Value::Optional(Some(held)) => present(held, field),
        _ => Ok(false),
    }
}

fn get_index<'a>(operand: &Value<'a>, index: &Value<'a>) -> Result<Option<Outcome<'a>>, Error> {
    match operand {
        Value::List(list) => {
            let Some(Key::Number { value: at, .. }) = Key::of(index) else {
                let ty = index.type_name();
                return Err(Error::new(format!("unsupported index type '{ty}' in list")));
            };
            Ok(usize::try_from(at).ok().and_then(|at| list.get(at)))
        }
        Value::Map(map) => Ok(Key::of(index).and_then(|key| map.get(&key))),
        Value::Message(_) => match index {
            Value::Text(name) => Ok(get_field(operand, name)),
            _ => Err(Error::no_overload()),
        },
        _ => Ok(None),
    }
}

fn missing(operand: &Value<'_>, index: &Value<'_>) -> Error {
    let shown = Key::of(index).map_or_else(|| index.type_name().to_owned(), |key| key.to_string());
    match operand {
        Value::List(_) => Error::new(format!("index out of bounds: {shown}")),
        _ => Error::no_such_key(shown),
    }
}

/// Why a function does not take values of these types, in upstream's words: it names the
/// types, unless what the first of them can do decides.
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
        "@in" => true,
        "!_" | "-_" | "size" | "matches" | "sort" | "@sortByAssociatedKeys" => false,
        _ => return Error::no_overload_for(&format!("{function}({})", types.join(", "))),
    };
    if takes { Error::no_overload() } else { Error::no_overload_for(function) }
}
