//! Declarations of functions: name, signatures and implementation.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use crate::{error::Error, eval::EvalContext, types::Type, value::Value};

/// The implementation of a function; the target of a member call is the first argument. It may take values out of
/// `args`.
pub(crate) type Body =
    for<'a> fn(&mut EvalContext<'a>, &mut [Value<'a>]) -> Result<Value<'a>, Error>;

/// A function of a library.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// The id of each overload and its signature: `string.(int) -> bool` for a member function, `(string, int) -> bool`
    /// for a global one.
    pub(crate) overloads: &'static [(&'static str, &'static str)],
    pub(crate) body: Body,
}

/// One overload of a function.
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) params: Vec<Arc<str>>,
    pub(crate) body: Body,
}

impl fmt::Debug for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// A set of functions that an environment may include.
pub(crate) type Library = &'static [Function];

/// All functions of an environment, by name.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    by_name: HashMap<&'static str, Vec<Arc<Overload>>>,
}

impl Functions {
    /// The functions of `libraries`, cached for each combination.
    pub(crate) fn of(libraries: &[Library]) -> Arc<Self> {
        /// By the addresses of the libraries, which identify them.
        type Made = Vec<(Vec<usize>, Arc<Functions>)>;
        static MADE: LazyLock<Mutex<Made>> = LazyLock::new(Mutex::default);
        let key: Vec<usize> = libraries.iter().map(|library| library.as_ptr().addr()).collect();
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, functions)) = made.iter().find(|(other, _)| *other == key) {
            return functions.clone();
        }
        let functions = Arc::new(Self::merge(libraries));
        made.push((key, functions.clone()));
        functions
    }

    pub(crate) fn get(&self, name: &str) -> Option<&[Arc<Overload>]> {
        self.by_name.get(name.strip_prefix('.').unwrap_or(name)).map(Vec::as_slice)
    }

    fn merge(libraries: &[Library]) -> Self {
        let mut all = Self::default();
        for function in libraries.iter().flat_map(|library| library.iter()) {
            let overloads = all.by_name.entry(function.name).or_default();
            for (id, signature) in function.overloads {
                overloads.push(Arc::new(read(id, signature, function.body)));
            }
        }
        all
    }
}

fn read(id: &'static str, signature: &str, body: Body) -> Overload {
    let (call, result) = signature.split_once(" -> ").expect("a signature has an arrow");
    let open = call_start(call);
    let target = call[..open].strip_suffix('.');
    let inner = call[open + 1..].strip_suffix(')').expect("a signature has parentheses");
    let mut params = Vec::new();
    let mut args: Vec<Type> = target.iter().map(|text| read_type(text, &mut params)).collect();
    args.extend(split(inner).into_iter().map(|text| read_type(text, &mut params)));
    let result = read_type(result, &mut params);
    Overload { id, member: target.is_some(), args, result, params, body }
}

/// The position of the opening parenthesis of the arguments: the last one at depth 0.
fn call_start(call: &str) -> usize {
    let mut depth = 0;
    for (at, c) in call.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' if depth == 1 => return at,
            '(' => depth -= 1,
            _ => {}
        }
    }
    unreachable!("a signature has parentheses: {call}")
}

fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

fn read_type(text: &str, params: &mut Vec<Arc<str>>) -> Type {
    let inner = |name: &str| {
        text.strip_prefix(name).and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')'))
    };
    if let Some(of) = inner("list") {
        return Type::list(read_type(of, params));
    } else if let Some(of) = inner("optional") {
        return Type::optional(read_type(of, params));
    } else if let Some(of) = inner("type") {
        return Type::Type(Some(Arc::new(read_type(of, params))));
    } else if let Some(of) = inner("map") {
        let parts = split(of);
        return Type::map(read_type(parts[0], params), read_type(parts[1], params));
    }
    match text {
        "dyn" => Type::Dyn,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        _ if text.len() == 1 => {
            let name: Arc<str> = text.into();
            if !params.contains(&name) {
                params.push(name.clone());
            }
            Type::Param(name)
        }
        _ => Type::called(text)
            .or_else(|| Type::called(&format!("kubernetes.{text}")))
            .or_else(|| Type::called(&format!("kubernetes.authorization.{text}")))
            .unwrap_or_else(|| unreachable!("a signature names types: {text}")),
    }
}
