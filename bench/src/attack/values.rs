//! Values for a field: hostile ones of its type, and plausible ones that pass validation.

mod lists;

use object::{FieldSchema, StructSchema, Type, Validation};
use serde_json::{Map, Value, json};

use self::lists::{DURATIONS, LONG, NAMED, NUMBER_TEXTS, NUMBERS, QUANTITIES, TEXTS, TIMES, TREES};
use super::expand::many;
use crate::random::Random;

/// An unexpected value of the field's type, or sometimes one of another type.
pub(crate) fn hostile(field: &FieldSchema, ty: &Type, random: &mut Random) -> Value {
    if random.one_in(12) {
        return wrong(random);
    }
    match ty {
        Type::Any => tree(random),
        Type::Bool => json!(random.one_in(2)),
        Type::Int32 | Type::Int64 | Type::UInt64 | Type::Float => number(random),
        Type::Enum(values) if random.one_in(2) => json!(random.of(values)),
        Type::Text | Type::Bytes | Type::Enum(_) => text(&field.name, random),
        Type::Time | Type::MicroTime => json!(random.of(TIMES)),
        Type::Duration => json!(random.of(DURATIONS)),
        Type::Quantity => json!(random.of(QUANTITIES)),
        Type::IntOrString => match random.below(3) {
            0 => number(random),
            1 => {
                json!(random.of(&["100%", "-1%", "101%", "99999999999%", "1.5%", "%", "0%", "é%"]))
            }
            _ => text(&field.name, random),
        },
        Type::List(item) => list(field, item, random),
        Type::Map(item) => map(field, item, random),
        Type::Object(shape) | Type::StructOr(shape, _) => match random.below(4) {
            0 => json!({}),
            1 => Value::Null,
            2 => tree(random),
            _ => structure(shape, random, 2),
        },
    }
}

/// The most harmful values of a type; `None` if `which` is too large.
pub(crate) fn worst(ty: &Type, which: usize) -> Option<Value> {
    let two: [Value; 2] = match ty {
        Type::Int64 | Type::UInt64 => [json!(i64::MAX), json!(i64::MIN)],
        Type::Int32 => [json!(i32::MAX), json!(i32::MIN)],
        Type::Text | Type::Enum(_) => [json!("a\"b"), json!("\u{e9}")],
        Type::Quantity => [json!("9223372036854775807"), json!("-9223372036854775808")],
        Type::Time => [json!("9999-12-31T23:59:59Z"), json!("0001-01-01T00:00:00Z")],
        Type::MicroTime => {
            [json!("9999-12-31T23:59:59.999999Z"), json!("0001-01-01T00:00:00.000000Z")]
        }
        Type::Duration => [json!("2562047h47m16.854775807s"), json!("-2562047h47m16.854775808s")],
        Type::IntOrString => [json!(i32::MAX), json!("99999999999%")],
        Type::Any => [json!("⟦deep 600 fields⟧"), json!("⟦deep 4000 fields⟧")],
        _ => return None,
    };
    two.get(which).cloned()
}

/// A value that probably passes validation.
pub(crate) fn plausible(
    field: &FieldSchema,
    ty: &Type,
    random: &mut Random,
    depth: usize,
) -> Value {
    if let Some(values) = allowed(field.attributes.validations)
        .or(Some(field.attributes.enum_values))
        .filter(|all| !all.is_empty())
    {
        return json!(random.of(values));
    }
    match ty {
        Type::Any => json!({"a": 1}),
        Type::Bool => json!(true),
        Type::Int32 | Type::Int64 | Type::UInt64 | Type::Float => json!(1),
        Type::Text => json!("a"),
        Type::Enum(values) => json!(random.of(values)),
        Type::Bytes => json!("AAEC"),
        Type::Time => json!("2024-01-02T03:04:05Z"),
        Type::MicroTime => json!("2024-01-02T03:04:05.000006Z"),
        Type::Duration => json!("1s"),
        Type::Quantity => json!("1"),
        Type::IntOrString => json!(80),
        Type::List(item) => json!([plausible(field, item, random, depth)]),
        Type::Map(item) => json!({"a": plausible(field, item, random, depth)}),
        Type::Object(shape) | Type::StructOr(shape, _) => structure(shape, random, depth),
    }
}

/// An object with its required fields, and some optional ones.
pub(crate) fn structure(shape: &StructSchema, random: &mut Random, depth: usize) -> Value {
    let mut object = Map::new();
    for field in shape.json_fields() {
        let must = field.attributes.required
            || field.attributes.validations.contains(&Validation::Required);
        if depth > 0 && (must || field.attributes.no_omitempty || random.one_in(6)) {
            object.insert(field.name.to_string(), plausible(field, &field.ty, random, depth - 1));
        }
    }
    Value::Object(object)
}

/// A hostile number.
pub(crate) fn number(random: &mut Random) -> Value {
    match random.below(5) {
        0 => json!(random.of(NUMBER_TEXTS)),
        1 => json!(i64::try_from(random.below(1 << 20)).unwrap_or_default() - 100),
        // the worst ones first
        2..=3 => json!(NUMBERS[random.below(4)]),
        _ => json!(NUMBERS[random.below(NUMBERS.len())]),
    }
}

/// A text for a field of this name.
pub(crate) fn text(name: &str, random: &mut Random) -> Value {
    let name = name.to_lowercase();
    let own: Vec<_> = NAMED.iter().filter(|(part, _)| name.contains(part)).collect();
    if !own.is_empty() && !random.one_in(3) {
        let (_, words) = own[random.below(own.len())];
        return json!(random.of(words));
    }
    if random.one_in(8) {
        // two at once: a limit may apply to each alone
        return json!(format!("{}{}", random.of(TEXTS), random.of(TEXTS)));
    }
    json!(random.of(TEXTS))
}

/// A hostile value for a field that accepts any JSON.
pub(crate) fn tree(random: &mut Random) -> Value {
    json!(random.of(TREES))
}

fn wrong(random: &mut Random) -> Value {
    match random.below(6) {
        0 => Value::Null,
        1 => json!([]),
        2 => json!({}),
        3 => json!([[null, {"": []}]]),
        4 => number(random),
        _ => tree(random),
    }
}

fn list(field: &FieldSchema, item: &Type, random: &mut Random) -> Value {
    let one = plausible(field, item, random, 2);
    match random.below(6) {
        0 => json!([]),
        1 => json!([one, one]),
        2 => json!([null]),
        3 => json!([hostile(field, item, random)]),
        4 => {
            let count = [100, 2000, 20_000][random.below(3)];
            json!(many(count, &one.to_string()))
        }
        _ => {
            // items that differ in every text, so that they are distinct
            let text = one.to_string().replace(":\"a\"", ":\"a#\"");
            json!(many([50, 1000, 10_000][random.below(3)], &text))
        }
    }
}

/// A list as long as a body allows, of items that differ in every text and number, or that are equal.
pub(crate) fn long(
    field: &FieldSchema,
    item: &Type,
    different: bool,
    random: &mut Random,
) -> Value {
    let one = plausible(field, item, random, 2).to_string();
    let one = match different {
        true => one.replace("\"a\"", "\"a#\"").replace("\":1", "\":#"),
        false => one,
    };
    json!(many((LONG / (one.len() + 4)).min(10_000), &one))
}

fn map(field: &FieldSchema, item: &Type, random: &mut Random) -> Value {
    let key = |random: &mut Random| text("key", random).as_str().unwrap_or_default().to_owned();
    match random.below(4) {
        0 => json!("⟦keys 20000⟧"),
        1 => {
            let value = plausible(field, item, random, 2);
            json!({key(random): value})
        }
        _ => {
            let value = hostile(field, item, random);
            json!({key(random): value, "a": plausible(field, item, random, 2)})
        }
    }
}

fn allowed(checks: &'static [Validation]) -> Option<&'static [&'static str]> {
    checks.iter().find_map(|check| match check {
        Validation::OneOfValues(values) => Some(*values),
        _ => None,
    })
}
