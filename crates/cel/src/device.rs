//! CEL selectors of DRA devices.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use object::{Quantity, Value as Tree};

use crate::{
    decl_type::DeclType,
    environment::Environment,
    error::Error,
    program::{Bindings, Program},
    types::Type,
    value::{Key, Map, Message, Text, Value},
};

/// Limit of the estimated and of the actual cost of one evaluation.
pub const COST_LIMIT: u64 = 1_000_000;

/// A compiled device selector or attribute expression.
#[derive(Debug)]
pub struct DeviceSelector {
    program: Program,
}

/// A device as published in a ResourceSlice.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    pub driver: &'a str,
    pub allow_multiple_allocations: bool,
    /// Attributes by qualified name, as in a ResourceSlice.
    pub attributes: &'a Tree,
    pub capacity: &'a Tree,
}

static PLAIN: LazyLock<Arc<Environment>> = LazyLock::new(|| Arc::new(environment(Type::Any)));
static LISTS: LazyLock<Arc<Environment>> =
    LazyLock::new(|| Arc::new(environment(Type::Dyn).with_includes()));

fn environment(attribute: Type) -> Environment {
    Environment::new().with_bind().with_node("device", &DeclType::device(attribute))
}

impl DeviceSelector {
    /// Compiles a selector; with `lists`, attributes may be lists.
    pub fn compile(source: &str, lists: bool) -> Result<Self, String> {
        let program = compile(source, lists)?;
        match program.output_type() {
            Type::Bool | Type::Dyn | Type::Any => Ok(Self { program: program.require_valid()? }),
            ty => {
                let ty = ty.full_name();
                Err(format!("must evaluate to bool or the unknown type, not {ty}"))
            }
        }
    }

    /// Compiles an expression that computes an attribute.
    pub fn compile_attribute(source: &str, lists: bool) -> Result<Self, String> {
        let program = compile(source, lists)?;
        let scalar = |ty: &Type| {
            matches!(ty, Type::Bool | Type::Int | Type::Text | Type::Dyn | Type::Any)
                || *ty == Type::named("kubernetes.Semver")
        };
        match program.output_type() {
            ty if scalar(ty) => Ok(Self { program: program.require_valid()? }),
            Type::List(of) if scalar(of) => Ok(Self { program: program.require_valid()? }),
            ty => Err(format!(
                "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these scalars, not {}",
                ty.full_name()
            )),
        }
    }

    /// Whether the estimated cost exceeds the limit.
    pub fn is_too_complex(&self) -> bool {
        self.program.cost().max > COST_LIMIT
    }

    /// Whether the device matches the selector.
    pub fn matches(&self, device: &Device<'_>) -> Result<bool, Error> {
        let bindings = Bindings::new().value("device", device.value()?);
        let (outcome, _) = self.program.evaluate(&bindings, COST_LIMIT);
        let value = outcome?;
        value.as_bool().ok_or_else(|| {
            let ty = value.type_name();
            Error::new(format!("CEL result of type {ty} could not be converted to bool"))
        })
    }
}

fn compile(source: &str, lists: bool) -> Result<Program, String> {
    let environment = if lists { &LISTS } else { &PLAIN };
    environment.compile(source).map_err(|errors| format!("compilation failed: {errors}"))
}

impl<'a> Device<'a> {
    fn value(&self) -> Result<Value<'a>, Error> {
        let attributes = self.by_domain(self.attributes, attribute)?;
        let capacity = self.by_domain(self.capacity, |tree| {
            let text = tree.get("value").as_str().unwrap_or_default();
            let quantity: Quantity =
                text.parse().map_err(|_| Error::new("unsupported capacity value"))?;
            Ok(Value::quantity(quantity, text))
        })?;
        let fields = vec![
            ("driver".into(), Value::Text(Text::Borrowed(self.driver))),
            ("allowMultipleAllocations".into(), Value::Bool(self.allow_multiple_allocations)),
            ("attributes".into(), attributes),
            ("capacity".into(), capacity),
        ];
        Ok(Value::Message(Arc::new(Message::new("kubernetes.DRADevice".into(), fields))))
    }

    /// Groups entries by the domain of their names, which is the driver's name if they have none. A domain without
    /// entries is an empty map.
    fn by_domain(
        &self,
        entries: &'a Tree,
        read: fn(&'a Tree) -> Result<Value<'a>, Error>,
    ) -> Result<Value<'a>, Error> {
        let key = |text: &'a str| Key::Text(Text::Borrowed(text));
        let mut domains: BTreeMap<&str, BTreeMap<Key<'a>, Value<'a>>> = BTreeMap::new();
        for (name, tree) in entries.entries() {
            let (domain, id) = name.split_once('/').unwrap_or((self.driver, name));
            let value =
                read(tree).map_err(|error| Error::new(format!("attribute {name}: {error}")))?;
            domains.entry(domain).or_default().insert(key(id), value);
        }
        let domains = domains
            .into_iter()
            .map(|(domain, entries)| (key(domain), Value::Map(Map::from(entries))));
        Ok(Value::Map(Map::open(domains.collect())))
    }
}

fn attribute(tree: &Tree) -> Result<Value<'_>, Error> {
    let version = |tree: &Tree| {
        let text = tree.as_str().unwrap_or_default();
        Value::semver(text).map_err(|error| Error::new(format!("parse semantic version: {error}")))
    };
    let plain = |tree| crate::value::from_tree(tree, None);
    match tree.entries().next() {
        Some(("version", tree)) => version(tree),
        Some(("versions", tree)) => {
            let versions: Result<Vec<_>, _> = tree.items().iter().map(version).collect();
            versions.map(Value::list)
        }
        Some(("int" | "bool" | "string" | "ints" | "bools" | "strings", tree)) => plain(tree),
        _ => Err(Error::new("unsupported attribute value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::from_json;

    fn matches(source: &str) -> Result<bool, String> {
        let attributes = from_json(
            br#"{"model": {"string": "a100"}, "other.example.com/gen": {"int": 3},
                "driverVersion": {"version": "1.2.3"}, "links": {"strings": ["x", "y"]}}"#,
        );
        let capacity = from_json(br#"{"memory": {"value": "40Gi"}}"#);
        let (attributes, capacity) = (attributes.expect("valid"), capacity.expect("valid"));
        let device = Device {
            driver: "gpu.example.com",
            allow_multiple_allocations: false,
            attributes: &attributes,
            capacity: &capacity,
        };
        DeviceSelector::compile(source, true)?.matches(&device).map_err(|error| error.to_string())
    }

    #[test]
    fn devices_are_chosen_by_what_they_are() {
        for (source, result) in [
            ("device.driver == 'gpu.example.com'", Ok(true)),
            ("device.attributes['gpu.example.com'].model == 'a100'", Ok(true)),
            ("device.attributes['other.example.com'].gen > 3", Ok(false)),
            ("device.attributes['nobody.example.com'].?x.orValue(1) == 1", Ok(true)),
            ("device.attributes['nobody.example.com'].x == 1", Err("no such key: x".to_owned())),
            ("device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('10Gi'))", Ok(true)),
            (
                "device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('1.0.0'))",
                Ok(true),
            ),
            (
                "cel.bind(a, device.attributes['gpu.example.com'], a.model == 'a100' && 'x' in a.links)",
                Ok(true),
            ),
            ("device.attributes['gpu.example.com'].links.includes('x')", Ok(true)),
            ("device.attributes['gpu.example.com'].model.includes('a100')", Ok(true)),
            ("'x'", Err("must evaluate to bool or the unknown type, not string".to_owned())),
        ] {
            assert_eq!(matches(source), result, "{source}");
        }
        let fine =
            DeviceSelector::compile("device.attributes['a'].b == 'x'", false).expect("compiles");
        assert!(!fine.is_too_complex());
        for source in ["device.driver.includes('x')", "device.attributes['a'].b.exists(x, true)"] {
            assert!(DeviceSelector::compile(source, true).is_ok(), "{source}");
            assert!(DeviceSelector::compile(source, false).is_err(), "{source}");
        }
    }
}
