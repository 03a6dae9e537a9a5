//! No rule of a list costs more than its length explains: of every list and every map in every
//! kind, one with many items is read, defaulted, validated and written, once with items that all
//! differ and once with items that are all the same.

use std::{collections::BTreeSet, time::Duration};

use object::{FieldSchema, ListType, StructSchema, Type, Value};
use schema::{
    ErrorList, ResourceDefinition, WarningList,
    apply::{self, FieldManagerRequest},
};

const FEW: usize = 400;
const MANY: usize = 4 * FEW;
/// Shorter times are too short to compare.
const NOTICED: Duration = Duration::from_millis(60);
/// Four times as many items take about four times as long; where each item is compared with each,
/// sixteen times.
const FACTOR: f64 = 9.0;

/// The fields and items that lead to a list or map.
type Way<'a> = Vec<&'a FieldSchema>;

#[test]
fn many_different_items_take_no_longer_than_their_number_explains() {
    check_all(Items::Different);
}

#[test]
fn many_equal_items_take_no_longer_than_their_number_explains() {
    check_all(Items::Equal);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Items {
    Different,
    Equal,
}

fn check_all(items: Items) {
    let (mut seen, mut slow) = (BTreeSet::new(), Vec::new());
    for kind in api::builtin_resources() {
        let mut ways = Vec::new();
        collect(&kind.schema, &mut Vec::new(), &mut seen, &mut ways);
        for way in ways {
            let names: Vec<&str> = way.iter().map(|field| &*field.name).collect();
            if names.first() == Some(&"status") {
                continue; // only components may write it
            }
            if let Some((few, many)) = is_slow(&kind, &way, items) {
                let (name, path) = (kind.names.kind, names.join("."));
                slow.push(format!("{name} {path}: {FEW} items {few:?}, {MANY} items {many:?}"));
            }
        }
    }
    assert!(seen.len() > 300, "only {} lists and maps", seen.len());
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

/// The times of few and of many items, if the difference is more than their number explains, three
/// times in a row.
fn is_slow(
    kind: &ResourceDefinition,
    way: &[&FieldSchema],
    items: Items,
) -> Option<(Duration, Duration)> {
    let mut times = None;
    for _ in 0..3 {
        let many = took(kind, way, (items, MANY));
        if many < NOTICED {
            return None;
        }
        let few = took(kind, way, (items, FEW));
        if many.as_secs_f64() / few.as_secs_f64() <= FACTOR {
            return None;
        }
        times = Some((few, many));
    }
    times
}

/// Finds each list and map of each type once.
fn collect<'a>(
    shape: &'a StructSchema,
    way: &mut Way<'a>,
    seen: &mut BTreeSet<(String, String)>,
    ways: &mut Vec<Way<'a>>,
) {
    if way.len() > 9 {
        return;
    }
    for field in shape.json_fields() {
        let first =
            seen.insert((format!("{}::{}", shape.rust_module, shape.name), field.name.to_string()));
        if !first {
            continue;
        }
        way.push(field);
        if let Type::List(_) | Type::Map(_) = &*field.ty {
            ways.push(way.clone());
        }
        if let Some(inner) = inner(&field.ty) {
            collect(inner, way, seen, ways);
        }
        way.pop();
    }
}

fn inner(ty: &Type) -> Option<&StructSchema> {
    match ty {
        Type::Object(shape) | Type::StructOr(shape, _) => Some(shape),
        Type::List(item) | Type::Map(item) => inner(item),
        _ => None,
    }
}

/// How long everything takes that a write does with an object.
fn took(kind: &ResourceDefinition, way: &[&FieldSchema], many: (Items, usize)) -> Duration {
    let mut object = Value::object();
    object["apiVersion"] = kind.names.api_version().into();
    object["kind"] = kind.names.kind.into();
    object["metadata"]["name"] = "a".into();
    let [first, rest @ ..] = way else { return Duration::ZERO };
    if first.name == "metadata" {
        object["metadata"][&*rest[0].name] = made(rest, many);
    } else {
        object[&*first.name] = made(way, many);
    }
    let before = cpu_time();
    let mut errs = ErrorList::default();
    if kind.coerce(&mut object, &mut Vec::new()).is_err() {
        return Duration::ZERO;
    }
    kind.apply_defaults(&mut object);
    kind.normalize(&mut object);
    schema::validate_object_meta(&object, None, kind.scope, &mut errs);
    schema::validate_declarative(&kind.schema, &object, None, &mut errs);
    kind.strategy.validate(&object, None, &mut errs);
    kind.strategy.validate(&object, Some(&object), &mut errs);
    kind.strategy.warnings(&object, None, &mut WarningList::default());
    errs.dedup();
    drop(errs.into_status("", kind.names.kind, "a"));
    let api_version = kind.names.api_version();
    let write = FieldManagerRequest {
        schema: &kind.schema,
        api_version: &api_version,
        kind: kind.names.kind,
        manager: "m",
        subresource: "",
        reset_fields: &[],
        now: "2024-01-02T03:04:05Z",
        converter: &apply::SingleVersion,
    };
    drop(apply::update_managed_fields(&write, None, object.clone()));
    drop(apply::apply(&write, None, &object, true));
    cpu_time().saturating_sub(before)
}

/// How long this thread has run: a busy machine makes nothing slower.
fn cpu_time() -> Duration {
    let all = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = all.split_whitespace().next().expect("nanoseconds on a processor");
    Duration::from_nanos(first.parse().expect("a number"))
}

/// The value of the first field of a way; the last field has many items.
fn made(way: &[&FieldSchema], many: (Items, usize)) -> Value {
    let [field, rest @ ..] = way else { return Value::Null };
    let (items, count) = many;
    let here = if rest.is_empty() { count } else { 1 };
    let item = |ty: &Type, at: usize| {
        let at = if items == Items::Equal { 0 } else { at };
        let mut item = sample(ty, at);
        if let Some(next) = rest.first()
            && item.is_object()
        {
            item[&*next.name] = made(rest, many);
        }
        tell_apart(field, ty, at, &mut item);
        item
    };
    match &*field.ty {
        Type::List(of) => (0..here).map(|at| item(of, at)).collect(),
        Type::Map(of) => {
            let entries = (0..here).map(|at| (format!("k{at:06}").into(), item(of, at)));
            Value::from_entries(entries.collect())
        }
        ty => item(ty, 0),
    }
}

/// Some value of a type.
fn sample(ty: &Type, at: usize) -> Value {
    match ty {
        Type::Object(shape) => {
            let mut object = Value::object();
            for field in shape.json_fields().filter(|field| !field.attributes.optional) {
                if matches!(&*field.ty, Type::Text) {
                    object[&*field.name] = format!("x{at}").into();
                }
            }
            object
        }
        Type::Text => format!("x{at}").into(),
        Type::Enum(names) => names.first().copied().unwrap_or_default().into(),
        Type::Int32 | Type::Int64 | Type::UInt64 | Type::IntOrString => {
            i64::try_from(at).unwrap_or_default().into()
        }
        Type::Quantity => "1".into(),
        Type::Bool => true.into(),
        Type::Bytes => "AAEC".into(),
        Type::Time => "2024-01-02T03:04:05Z".into(),
        Type::MicroTime => "2024-01-02T03:04:05.000006Z".into(),
        Type::Duration => "1s".into(),
        Type::Float => Value::Float(0.5),
        Type::List(_) => Value::List([].into()),
        Type::Map(_) | Type::Any | Type::StructOr(..) => Value::object(),
    }
}

fn tell_apart(field: &FieldSchema, item: &Type, at: usize, made: &mut Value) {
    let (Type::Object(shape), true) = (item, made.is_object()) else { return };
    let keys = if let ListType::Map(keys) = field.attributes.list_type { keys } else { &[] };
    for key in keys.iter().copied().chain(field.attributes.merge_key).chain(["name"]) {
        match shape.field(key).map(|field| &*field.ty) {
            Some(Type::Text) => made[key] = format!("x{at}").into(),
            Some(Type::Int32 | Type::Int64) => {
                made[key] = i64::try_from(at).unwrap_or_default().into();
            }
            _ => {}
        }
    }
}
