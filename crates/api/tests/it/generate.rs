//! Objects of any kind, made from its shape: the same ones for the same seed.

use object::{FieldSchema, ListType, StructAlternative, StructSchema, Text, Type, Value};
use schema::ResourceDefinition;

/// A small generator of numbers, the same every time.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % n.max(1)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// How many rounds tests make: few where many tests run, more when asked.
#[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
pub(crate) fn rounds(few: u64) -> u64 {
    let asked = std::env::var("TIPHYS_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    asked.unwrap_or(few)
}

/// An object of this kind in the form that it is kept in.
pub(crate) fn object(kind: &ResourceDefinition, random: &mut Random) -> Value {
    let mut object = structure(&kind.schema, random, 0);
    object["apiVersion"] = kind.names.api_version().into();
    object["kind"] = kind.names.kind.into();
    object["metadata"].remove("managedFields");
    schema::coerce_to_schema(&kind.schema, &mut object, &mut Vec::new()).expect("made to fit");
    kind.normalize(&mut object);
    object
}

fn structure(shape: &StructSchema, random: &mut Random, depth: usize) -> Value {
    let mut object = Value::object();
    for field in shape.json_fields() {
        // The deeper, the emptier, or objects would have no end.
        if random.below(depth + 2) == 0 {
            object[&*field.name] = value(field, &field.ty, random, depth + 1);
        }
    }
    object
}

fn value(field: &FieldSchema, ty: &Type, random: &mut Random, depth: usize) -> Value {
    match ty {
        Type::Any => {
            random.one_of(&[r#"{"a":[1,"x",null]}"#, r#"{"b":{"c":true}}"#, "{}"]).into_json()
        }
        Type::Bool => (random.below(2) == 0).into(),
        Type::Int32 => i64::try_from(random.below(1 << 20)).expect("small").into(),
        Type::Int64 | Type::UInt64 => {
            i64::try_from(random.below(1 << 30) * (1 << 20)).expect("small").into()
        }
        Type::Float => Value::Float(random.one_of(&[0.5, 1.25, -3.0e9])),
        Type::Text => text(random),
        Type::Enum(names) => random.one_of(names).into(),
        Type::Bytes => random.one_of(&["AAEC", "/w==", "aGVsbG8="]).into(),
        Type::Time => random.one_of(&["2024-01-02T03:04:05Z", "1999-12-31T23:59:59Z"]).into(),
        Type::MicroTime => random.one_of(&["2024-01-02T03:04:05.000006Z"]).into(),
        Type::Duration => random.one_of(&["1h2m3s", "0s", "15ms"]).into(),
        Type::Quantity => random.one_of(&["1", "100m", "1.5Gi", "3e6", "-2k"]).into(),
        Type::IntOrString => match random.below(2) {
            0 => Value::Int(8080),
            _ => "25%".into(),
        },
        Type::List(item) => {
            let mut items: Vec<Value> = Vec::new();
            for i in 0..=random.below(2) {
                let mut made = value(field, item, random, depth);
                tell_apart(field, item, i, &mut made);
                if !items.contains(&made) {
                    items.push(made);
                }
            }
            items.into_iter().collect()
        }
        Type::Map(item) => {
            let mut map = Value::object();
            for key in ["a", "example.com/b", "spec"] {
                if random.below(2) == 0 {
                    map[key] = value(field, item, random, depth);
                }
            }
            map
        }
        Type::Object(shape) if depth > 12 => {
            let _ = shape;
            Value::object()
        }
        Type::Object(shape) => structure(shape, random, depth),
        Type::StructOr(_, StructAlternative::Bool) => true.into(),
        Type::StructOr(shape, _) => structure(shape, random, depth + 4),
    }
}

/// Items that are told apart by keys have different ones.
fn tell_apart(field: &FieldSchema, item: &Type, i: usize, made: &mut Value) {
    let Type::Object(shape) = item else { return };
    let keys = match field.attributes.list_type {
        ListType::Map(keys) => keys,
        _ => &[],
    };
    for key in keys.iter().copied().chain(field.attributes.merge_key) {
        match shape.field(key).map(|field| &*field.ty) {
            Some(Type::Text | Type::Enum(_)) => made[key] = format!("key-{i}").into(),
            Some(_) => made[key] = Value::Int(i64::try_from(i).expect("few") + 1),
            None => {}
        }
    }
}

/// Words that readers of YAML might take for something else are among them.
fn text(random: &mut Random) -> Value {
    let odd = [
        "yes",
        "0777",
        "1e3",
        "null",
        "~",
        "- a",
        "a: b",
        "#c",
        "é\u{1F600}",
        "x\ny\n",
        " lead",
        "trail ",
        "\"q\"",
        "it's",
        "{}",
        "[1]",
        "0x1F",
        "1_000",
        "2024-01-02",
        "%",
        "@at",
        "\t",
        "a\\b",
        "<b>&",
        "\u{2028}",
    ];
    match random.below(3) {
        0 => random.one_of(&odd).into(),
        _ => Value::Text(Text::from(format!("name-{}", random.below(50)))),
    }
}

trait IntoJson {
    fn into_json(self) -> Value;
}

impl IntoJson for &str {
    fn into_json(self) -> Value {
        object::from_json(self.as_bytes()).expect("written above")
    }
}
