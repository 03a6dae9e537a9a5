//! Evaluation of attributes: variables, field selection, indexing and conditionals. Each step costs one; an attribute
//! that is evaluated on its own, not within a conditional or as an index, costs one more.

use crate::{
    ast::{Call, Expr, ExprKind, Literal, Select},
    cost,
    error::Error,
    eval::{EvalResult, Evaluator},
    program::{Binding, LazyFields},
    types::Type,
    value::{Key, Value},
};

/// Whether an expression is an attribute.
fn is_attribute(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Ident(_) | ExprKind::Select(_) => true,
        ExprKind::Call(call) => matches!(&*call.function, "_?_:_" | "_[_]" | "_[?_]" | "_?._"),
        _ => false,
    }
}

/// Whether an attribute begins with a conditional.
fn begins_with_choice(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Select(select) => begins_with_choice(&select.operand),
        ExprKind::Call(call) => match &*call.function {
            "_?_:_" => true,
            "_[_]" | "_[?_]" | "_?._" => call.args.first().is_some_and(begins_with_choice),
            _ => false,
        },
        _ => false,
    }
}

impl<'a> Evaluator<'a> {
    /// Evaluates an attribute on its own.
    pub(crate) fn attribute(&mut self, expr: &'a Expr) -> EvalResult<'a> {
        let value = self.resolve(expr);
        if matches!(&value, Err(error) if error.is_fatal()) {
            return value;
        }
        let tests = matches!(&expr.kind, ExprKind::Select(select) if select.test_only);
        match (tests, begins_with_choice(expr)) {
            (false, false) => self.context.charge(cost::SELECT_COST)?,
            (true, true) => self.context.refund(cost::SELECT_COST),
            _ => {}
        }
        value
    }

    /// Evaluates an attribute and charges for its steps.
    fn resolve(&mut self, expr: &'a Expr) -> EvalResult<'a> {
        match &expr.kind {
            ExprKind::Ident(name) => self.name(name),
            ExprKind::Select(select) => self.select(select),
            ExprKind::Call(call) => self.read(call),
            _ => Err(Error::no_overload()),
        }
    }

    /// Evaluates an operand, which may or may not be an attribute.
    fn part(&mut self, expr: &'a Expr) -> EvalResult<'a> {
        if is_attribute(expr) { self.resolve(expr) } else { self.eval(expr) }
    }

    fn read(&mut self, call: &'a Call) -> EvalResult<'a> {
        match (&*call.function, call.args.as_slice()) {
            ("_?_:_", [condition, yes, no]) => match self.eval(condition)? {
                Value::Bool(true) => self.part(yes),
                Value::Bool(false) => self.part(no),
                _ => Err(Error::no_overload()),
            },
            ("_?._", [operand, field]) => {
                let ExprKind::Literal(Literal::Text(field)) = &field.kind else {
                    return Err(Error::no_overload());
                };
                if let Some(fields) = self.computed(operand) {
                    return self.found(fields.get(field, self.bindings));
                }
                match self.part(operand)? {
                    Value::Optional(None) => Ok(Value::NONE),
                    Value::Optional(Some(held)) => self.found(get_field(&held, field)),
                    operand => self.found(get_field(&operand, field)),
                }
            }
            (function, [operand, index]) => self.index(operand, index, function == "_[?_]"),
            _ => Err(Error::no_overload()),
        }
    }

    /// The lazily computed fields that the operand names, if it is such a variable.
    fn computed(&self, operand: &Expr) -> Option<&'a dyn LazyFields<'a>> {
        let ExprKind::Ident(name) = &operand.kind else { return None };
        match self.bindings.get(name)? {
            Binding::Computed(fields) => Some(*fields),
            Binding::Value(_) => None,
        }
    }

    fn name(&mut self, name: &'a str) -> EvalResult<'a> {
        let global = name.strip_prefix('.');
        if global.is_none()
            && let Some(at) = self.slots.iter().rposition(|slot| slot.name == name)
        {
            return self.slot(at);
        }
        let name = global.unwrap_or(name);
        match self.bindings.get(name) {
            Some(Binding::Value(value)) => Ok(value.clone()),
            Some(Binding::Computed(_)) => Err(Error::no_overload()),
            None => match Type::called(name).or_else(|| self.program.environment().structure(name))
            {
                Some(ty) => Ok(Value::Type(ty.runtime_name().into())),
                None => Err(Error::new(format!("no such attribute(s): {name}"))),
            },
        }
    }

    fn select(&mut self, select: &'a Select) -> EvalResult<'a> {
        let Select { operand, field, test_only: test } = select;
        if let Some(fields) = self.computed(operand) {
            self.context.charge(cost::SELECT_COST)?;
            let found = fields.get(field, self.bindings).transpose()?;
            return match found {
                found if *test => Ok(Value::Bool(found.is_some())),
                Some(value) => Ok(value),
                None => Err(Error::no_such_key(field)),
            };
        }
        let operand = self.part(operand)?;
        match operand {
            Value::Optional(None) if *test => Ok(Value::Bool(false)),
            Value::Optional(None) => Ok(Value::NONE),
            operand if *test => {
                self.context.charge(cost::SELECT_COST)?;
                present(&operand, field).map(Value::Bool)
            }
            Value::Optional(Some(held)) => self.found(get_field(&held, field)),
            operand => {
                self.context.charge(cost::SELECT_COST)?;
                get_field(&operand, field).unwrap_or_else(|| Err(Error::no_such_key(field)))
            }
        }
    }

    fn index(&mut self, operand: &'a Expr, index: &'a Expr, opt: bool) -> EvalResult<'a> {
        let (operand, opt) = match self.part(operand)? {
            Value::Optional(None) => return Ok(Value::NONE),
            Value::Optional(Some(held)) => ((*held).clone(), true),
            operand => (operand, opt),
        };
        let index = self.part(index);
        if !opt {
            self.context.charge(cost::SELECT_COST)?;
        }
        let index = index?;
        let found = get_index(&operand, &index)?;
        match found {
            found if opt => self.found(found),
            Some(value) => value,
            None => Err(missing(&operand, &index)),
        }
    }

    /// Wraps the value in an optional. A missing value costs nothing. An optional is not wrapped again.
    fn found(&mut self, found: Option<EvalResult<'a>>) -> EvalResult<'a> {
        let Some(value) = found.transpose()? else { return Ok(Value::NONE) };
        self.context.charge(cost::SELECT_COST)?;
        Ok(if let Value::Optional(_) = value { value } else { Value::some(value) })
    }
}

fn get_field<'a>(operand: &Value<'a>, field: &str) -> Option<EvalResult<'a>> {
    match operand {
        Value::Map(map) => map.field(field),
        Value::Message(message) => {
            let found = message.fields.iter().find(|(name, _)| &**name == field);
            found.map(|(_, value)| Ok(value.clone()))
        }
        Value::List(_) => Some(Err(no_index("string"))),
        _ => None,
    }
}

fn no_index(ty: &str) -> Error {
    Error::new(format!("unsupported index type '{ty}' in list"))
}

fn present(operand: &Value<'_>, field: &str) -> Result<bool, Error> {
    match operand {
        Value::Map(map) => Ok(map.field(field).transpose()?.is_some()),
        Value::Message(message) => Ok(message.fields.iter().any(|(name, _)| &**name == field)),
        Value::Optional(Some(held)) => present(held, field),
        Value::List(_) => Err(no_index("string")),
        _ => Ok(false),
    }
}

fn get_index<'a>(operand: &Value<'a>, index: &Value<'a>) -> Result<Option<EvalResult<'a>>, Error> {
    match operand {
        Value::List(list) => {
            let Some(Key::Number { value: at, .. }) = Key::of(index) else {
                return Err(no_index(index.type_name()));
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
