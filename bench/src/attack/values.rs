//! Values for a field: hostile ones of its type, and plausible ones that let an object pass validation.

use object::{Check, Field, Struct, Type};
use serde_json::{Map, Value, json};

use super::expand::many;
use crate::random::Random;

const NUMBERS: &[i64] = &[
    i64::MAX,
    i64::MIN,
    -1,
    0,
    1,
    i64::MAX - 1,
    9_007_199_254_740_993,
    9_223_372_036,
    9_223_372_037,
    253_402_300_800,
    i32::MAX as i64,
    i32::MIN as i64,
    i32::MAX as i64 + 1,
    u32::MAX as i64,
    65_535,
    65_536,
    100_000,
    1_000_000_007,
];

const NUMBER_TEXTS: &[&str] = &[
    "⟦raw 1e400⟧",
    "⟦raw -0⟧",
    "⟦raw 1e18⟧",
    "⟦raw 18446744073709551616⟧",
    "⟦raw 0.1⟧",
    "⟦raw 1E-400⟧",
];

const TEXTS: &[&str] = &[
    "",
    "a\"b",
    "a'b",
    "a\\",
    "\",\"x\":\"",
    "{}",
    "\u{0}",
    "\u{1}\u{1f}\u{7f}",
    "a\nb",
    "a\r\nX-Header: y",
    "\u{e9}",
    "\u{1F600}",
    "a\u{300}",
    "\u{2028}",
    "\u{a0}",
    "\u{130}\u{df}",
    "\u{feff}",
    "..",
    ".",
    "/",
    "../../etc",
    "a/../b",
    "//",
    "%",
    "%2e%2e",
    "%00",
    "$(a)",
    "$($($(E)))",
    "${a}",
    "{{.a}}",
    "*",
    "-",
    "a,b=c",
    "a: b",
    "&a [*a]",
    "!!binary x",
    "~",
    "null",
    "true",
    "0",
    "-1",
    "1e9999",
    "NaN",
    " ",
    "a ",
    "A",
    "system:masters",
    "system:admin",
    "kube-system",
    "default",
    "kubernetes",
    "fz-0",
    "⟦long 64 a⟧",
    "⟦long 254 a⟧",
    "⟦long 127 é⟧",
    "⟦long 1024 é⟧",
    "⟦long 4096 ../⟧",
    "⟦long 70000 a⟧",
    "⟦long 1000000 a⟧",
    "⟦nest 3000 brackets⟧",
    "⟦nest 3000 parentheses⟧",
];

const QUANTITIES: &[&str] = &[
    "0",
    "-1",
    "1e-10",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "9223372036854775807Ei",
    "1e308",
    "1E9999",
    "0.0000000001",
    "1n",
    "1.5Gi",
    "16Ei",
    "8Ei",
    "999999999999999999999999999999",
    "⟦long 5000 9⟧",
    "⟦long 5000 0⟧.1",
    "+1",
    "1Kii",
    "",
];

const TIMES: &[&str] = &[
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "0000-01-01T00:00:00Z",
    "1677-09-21T00:12:43Z",
    "2262-04-12T00:00:00Z",
    "1969-12-31T23:59:59.999999Z",
    "2024-02-30T00:00:00Z",
    "2016-12-31T23:59:60Z",
    "2024-01-02T03:04:05.999999999Z",
    "2024-01-02T03:04:05.000006Z",
    "2999-01-01T00:00:00Z",
    "",
];

const DURATIONS: &[&str] = &[
    "0s",
    "-1ns",
    "2562047h47m16.854775807s",
    "-2562047h47m16.854775808s",
    "9999999999h",
    "1e9h",
    "1ns",
    "0.5h1m",
    "",
];

/// Words by what the field's name contains.
const NAMED: &[(&str, &[&str])] = &[
    (
        "expression",
        &[
            "true",
            "object",
            "1/0 == 1",
            "[1,2,3].all(x, [1,2,3].all(y, [1,2,3].all(z, x*y*z > 0)))",
            "'a'.matches('(a*)*b')",
            "object.metadata.name.matches('⟦nest 200 quantifier⟧')",
            "⟦nest 300 parentheses⟧",
            "⟦nest 3000 parentheses⟧",
            "⟦nest 3000 bang⟧",
            "⟦nest 3000 minus⟧",
            "⟦nest 1000 ternary⟧",
            "⟦nest 5000 plus⟧ == 1",
            "9223372036854775807 + 1 == 0",
            "-9223372036854775808 / -1 == 0",
            "duration('2562047h47m16.854775807s') + duration('1h') == duration('0s')",
            "timestamp('9999-12-31T23:59:59Z') + duration('1h') > timestamp('0001-01-01T00:00:00Z')",
            "timestamp('0001-01-01T00:00:00Z').getFullYear('Europe/Berlin') == 1",
            "'é'.substring(1).size() == 0",
            "'%s %d %x %.400f'.format(['é', 1, -1, 1e308]) == ''",
            "'a,b'.split(',', -1).join('é') == ''",
            "'é'.charAt(1) == '' && 'é'.indexOf('') == 0",
            "'abc'.replace('', 'é', -9223372036854775808) == ''",
            "quantity('9223372036854775807Ei').add(1).isInteger()",
            "int('99999999999999999999') == 0",
            "uint(-1) == 1u",
            "double('1e400') == 0.0 || int(1e300) == 0",
            "ip('::ffff:1.2.3.4') == ip('1.2.3.4') || cidr('0.0.0.0/0').containsIP('::')",
            "sets.contains([1], [1.0]) && lists.range(9223372036854775807).size() == 0",
            "url('http://[::1]:99999/%zz?a=%zz').getHost() == ''",
            "semver('1.2.99999999999999999999').major() == 1",
            "format.dns1123Label().validate('é').hasValue()",
            "base64.decode('====') == b'' || base64.encode(b'\\xff') == ''",
            "Object{metadata: Object.metadata{labels: {'a': 'b'}}}",
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/~'), value: 'x'}]",
            "[JSONPatch{op: 'remove', path: '/metadata'}]",
            "[JSONPatch{op: 'copy', from: '', path: '/metadata/annotations'}]",
            "Object{metadata: Object.metadata{name: 'a\"b'}}",
            "Object{data: {'k': 'a'.replace('a', object.metadata.name)}}",
            "authorizer.group('a/b').resource('\"').namespace('\\n').check('\\u0000').allowed()",
            "device.attributes['d.example.com'].model.matches('⟦nest 100 quantifier⟧')",
            "⟦long 20000 a⟧",
            "a.b.⟦nest 3000 fieldpath⟧",
        ],
    ),
    (
        "rule",
        &[
            "self.all(x, true)",
            "oldSelf == self",
            "self.spec.size > 9223372036854775807",
            "self.matches('⟦nest 100 quantifier⟧')",
            "⟦nest 3000 parentheses⟧",
            "has(self.spec) && self.spec.tags.all(a, self.spec.tags.all(b, self.spec.tags.all(c, a != b)))",
            "self.spec.more == oldSelf.spec.more",
            "self.spec.text.find('(a|b)*') == ''",
            "self.spec.port == 5 || true",
        ],
    ),
    (
        "pattern",
        &[
            "(",
            "(a*)*$",
            "[a-\\x{10ffff}]{1000}",
            "(((a{1,100}){1,100}){1,100}){1,100}",
            "⟦nest 200 quantifier⟧",
            "⟦nest 2000 alternation⟧",
            "⟦nest 4000 parentheses⟧",
            "\\pL{1000}",
            "(?i)ſ\\w{900}",
            "\\C",
            "(?P<a>x)(?P<a>y)",
            "^.{0,1000000}$",
        ],
    ),
    (
        "path",
        &[
            "/",
            "",
            "..",
            "/../..",
            "a//b",
            "/proc/self/mem",
            "/dev/null",
            ".spec.size",
            ".a['b']",
            "[",
            ".a[?(@.b=='x')]",
            "⟦nest 3000 fieldpath⟧",
            "$..*",
            ".metadata.name",
        ],
    ),
    (
        "schedule",
        &[
            "* * * * *",
            "@every 1ns",
            "@every 9999999h",
            "0 0 31 2 *",
            "*/0 * * * *",
            "0-59/1 * * * *",
            "TZ=x * * * * *",
            "CRON_TZ=Europe/Berlin 30 2 * * *",
            "99999999999999999999 * * * *",
            "@reboot",
            "* * * * 8",
            "1-0 * * * *",
            "⟦long 5000 1,⟧1 * * * *",
        ],
    ),
    (
        "zone",
        &[
            "Local",
            "UTC",
            "Europe/Berlin",
            "../etc/passwd",
            "/etc/localtime",
            "Asia/Kathmandu",
            "é",
        ],
    ),
    (
        "ip",
        &[
            "0.0.0.0",
            "::",
            "::ffff:127.0.0.1",
            "255.255.255.255",
            "169.254.169.254",
            "127.0.0.1",
            "010.0.0.1",
            "fe80::1%lo",
            "224.0.0.1",
            "192.0.2.50",
            "fd00::1",
        ],
    ),
    (
        "cidr",
        &[
            "0.0.0.0/0",
            "::/0",
            "10.0.0.1/33",
            "10.0.0.0/-1",
            "::ffff:10.0.0.0/104",
            "10.96.0.0/32",
            "fd00::/127",
            "10.0.0.0/8",
            "fd00::/64",
            "010.0.0.0/8",
        ],
    ),
    (
        "address",
        &["127.0.0.1", "192.0.2.50", "::1", "169.254.169.254", "fe80::1%1", "localhost", "é"],
    ),
    ("port", &["http", "0", "65536", "-1", "99999999999999999999", "%"]),
    (
        "url",
        &[
            "https://⟦hostile⟧/say/e30",
            "http://127.0.0.1",
            "https://[::1",
            "https://a@b:c@d/",
            "https://⟦hostile⟧/bomb",
            "https://⟦hostile⟧/slow",
            "file:///etc/passwd",
            "https://⟦hostile⟧/say/?a=b#c",
        ],
    ),
    ("operator", &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "in"]),
    (
        "name",
        &[
            "a\"b",
            "a'b",
            "..",
            "",
            "A",
            "\u{e9}",
            "a/b",
            "a\\",
            "a\nb",
            "%2e",
            "⟦long 253 a⟧",
            "⟦long 64 a⟧",
            "fz-0",
            "\",\"x\":\"",
        ],
    ),
    ("key", &["a", "a/b", "/", "a/b/c", "é/é", "kubernetes.io/hostname", "⟦long 300 a⟧/b"]),
    (
        "type",
        &[
            "Opaque",
            "Recreate",
            "RollingUpdate",
            "OnDelete",
            "object",
            "array",
            "string",
            "integer",
            "ExternalName",
            "NodePort",
            "ClusterIP",
        ],
    ),
    (
        "indexes",
        &[
            "0",
            "0-1",
            "1-0",
            "0-4294967295",
            "0,2,4",
            "0-9223372036854775807",
            "⟦long 30000 1,⟧2",
            "-",
        ],
    ),
    (
        "kind",
        &["Pod", "Deployment", "Namespace", "Node", "Status", "List", "ConfigMapList", "a\"b"],
    ),
    (
        "version",
        &[
            "v1",
            "apps/v1",
            "v1/v1/v1",
            "__internal",
            "",
            "batch/v1",
            "v99999999999999999999",
            "a\"b/v1",
        ],
    ),
    ("format", &["date-time", "int32", "byte", "duration", "uri", "ipv4", "é", "password"]),
    ("image", &["a@sha256:0", "a:b:c", "A", "[::1]:5000/a", "⟦long 5000 a/⟧a", "a b"]),
    (
        "selector",
        &[
            "a=b",
            "a in (b,c)",
            "!a",
            "a in (",
            "a notin (⟦long 5000 b,⟧c)",
            "a>9223372036854775808",
            "é",
            "metadata.name=x",
        ],
    ),
    (
        "bundle",
        &[
            "AAAA",
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=",
            "⟦long 5000 AAAA⟧",
        ],
    ),
    (
        "request",
        &[
            "AAAA",
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQgotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K",
            "r",
        ],
    ),
];

/// The server reads 3 MiB.
const LONG: usize = 2 << 20;

/// JSON where any JSON may stand.
const TREES: &[&str] = &[
    "⟦deep 60 object⟧",
    "⟦deep 120 object⟧",
    "⟦deep 600 object⟧",
    "⟦deep 600 fields⟧",
    "⟦deep 3000 list⟧",
    "⟦deep 4000 object⟧",
    "⟦deep 4000 fields⟧",
    "⟦deep 12000 object⟧",
    "⟦deep 20000 fields⟧",
    "⟦deep 100000 list⟧",
    "⟦deep 500 properties⟧",
    "⟦deep 3000 properties⟧",
    "⟦deep 3000 items⟧",
    "⟦deep 1000 map⟧",
    "⟦deep 2000 not⟧",
    "⟦deep 2000 allOf⟧",
    "⟦keys 20000⟧",
    "⟦raw 1e400⟧",
];

/// A value that the field's type allows and nobody expects, or now and then one of another type.
pub(crate) fn hostile(field: &Field, ty: &Type, random: &mut Random) -> Value {
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
        Type::Object(shape) | Type::Either(shape, _) => match random.below(4) {
            0 => json!({}),
            1 => Value::Null,
            2 => tree(random),
            _ => structure(shape, random, 2),
        },
    }
}

/// The values of a type that have done the most harm; `None` where there are no more.
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

/// A value that validation likely accepts.
pub(crate) fn plausible(field: &Field, ty: &Type, random: &mut Random, depth: usize) -> Value {
    if let Some(values) =
        allowed(field.rules.checks).or(Some(field.rules.values)).filter(|all| !all.is_empty())
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
        Type::Object(shape) | Type::Either(shape, _) => structure(shape, random, depth),
    }
}

/// An object with what it must have, and some of what it may have.
pub(crate) fn structure(shape: &Struct, random: &mut Random, depth: usize) -> Value {
    let mut object = Map::new();
    for field in shape.flat() {
        let must = field.rules.required || field.rules.checks.contains(&Check::Filled);
        if depth > 0 && (must || field.rules.always || random.one_in(6)) {
            object.insert(field.name.to_string(), plausible(field, &field.ty, random, depth - 1));
        }
    }
    Value::Object(object)
}

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
        // two at once: a limit may hold for either alone
        return json!(format!("{}{}", random.of(TEXTS), random.of(TEXTS)));
    }
    json!(random.of(TEXTS))
}

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

fn list(field: &Field, item: &Type, random: &mut Random) -> Value {
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
            // items that differ in every text, so that they are told apart
            let text = one.to_string().replace(":\"a\"", ":\"a#\"");
            json!(many([50, 1000, 10_000][random.below(3)], &text))
        }
    }
}

/// A list as long as a body may be, of items that differ in every text and number, or that are equal.
pub(crate) fn long(field: &Field, item: &Type, different: bool, random: &mut Random) -> Value {
    let one = plausible(field, item, random, 2).to_string();
    let one = match different {
        true => one.replace("\"a\"", "\"a#\"").replace("\":1", "\":#"),
        false => one,
    };
    json!(many((LONG / (one.len() + 4)).min(10_000), &one))
}

fn map(field: &Field, item: &Type, random: &mut Random) -> Value {
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

fn allowed(checks: &'static [Check]) -> Option<&'static [&'static str]> {
    checks.iter().find_map(|check| match check {
        Check::Values(values) => Some(*values),
        _ => None,
    })
}
