//! Table tests: an expression, and the value or the error it has.

use std::sync::Arc;

use cel::{Bindings, CALL_LIMIT, Environment, Type};
use object::{Value, from_json};

const OBJECT: &str = r#"{
    "name": "web", "count": 3, "ratio": 1.5, "on": true, "none": null,
    "labels": {"app": "x", "tier": "y"}, "list": ["a", "b", "c"], "numbers": [3, 1, 2],
    "nested": {"deep": {"value": 7}}, "empty": {}
}"#;

fn evaluate(source: &str) -> String {
    let environment = Environment::new().with_variable("o", Type::Dyn).with_bind();
    let tree: Value = from_json(OBJECT.as_bytes()).expect("valid");
    let program = match Arc::new(environment).compile(source) {
        Ok(program) => program,
        Err(errors) => return format!("not compiled: {errors}"),
    };
    let bindings = Bindings::new().tree("o", &tree, None).expect("no schema");
    let (outcome, _) = program.evaluate(&bindings, CALL_LIMIT);
    match outcome.and_then(|value| value.to_tree()) {
        Ok(tree) => format!("{tree:?}"),
        Err(error) => format!("error: {error}"),
    }
}

fn all_are(table: &[(&str, &str)]) {
    for (source, expected) in table {
        assert_eq!(evaluate(source), *expected, "{source}");
    }
}

#[test]
fn arithmetic_and_order() {
    all_are(&[
        ("1 + 2 * 3 - 4 / 2 % 3", "5"),
        ("-(-5) == 5 && !!true", "true"),
        ("9223372036854775807 + 1", "error: integer overflow"),
        ("0u - 1u", "error: unsigned integer overflow"),
        ("1 / 0", "error: division by zero"),
        ("1 % 0", "error: modulus by zero"),
        ("1.0 / 0.0 > 1.0", "true"),
        ("0.0 / 0.0 == 0.0 / 0.0", "false"),
        ("1 < 1.5 && 2u > 1.5 && 1 == dyn(1u)", "true"),
        ("'a' < 'b' && b'a' < b'b' && false < true", "true"),
        ("duration('1h') > duration('59m59s')", "true"),
        ("timestamp('2024-01-01T00:00:00Z') + duration('24h')", "\"2024-01-02T00:00:00Z\""),
        ("0x1F == 31 && 1e3 == 1000.0", "true"),
    ]);
}

#[test]
fn logic_absorbs_errors() {
    all_are(&[
        ("true || 1 / 0 > 0", "true"),
        ("1 / 0 > 0 || true", "true"),
        ("1 / 0 > 0 && false", "false"),
        ("1 / 0 > 0 && true", "error: division by zero"),
        ("[1, 0].exists(x, 1 / x > 0)", "true"),
        ("[0, 1].exists(x, 1 / x > 0)", "true"),
        ("[0, 1].all(x, 1 / x > 5)", "false"),
        ("[0].all(x, 1 / x > 0)", "error: division by zero"),
        ("true ? 1 : 1 / 0", "1"),
    ]);
}

#[test]
fn objects_are_read_where_they_are() {
    all_are(&[
        ("o.nested.deep.value + o.count", "10"),
        ("has(o.nested.deep) && !has(o.nope)", "true"),
        ("o.nope", "error: no such key: nope"),
        ("o.list[3]", "error: index out of bounds: 3"),
        ("o.list[-1]", "error: index out of bounds: -1"),
        ("o['name'] + '-' + o.labels.app", "\"web-x\""),
        ("o.none == null && has(o.none)", "true"),
        ("o.labels.exists(k, k == 'app')", "true"),
        ("size(o.labels) + size(o.list) + o.name.size()", "8"),
        ("'b' in o.list && 'app' in o.labels && !('z' in o.list)", "true"),
        ("type(o.count) == int && type(o.ratio) == double && type(o.list) == list", "true"),
        ("dyn(o.count) == 'x'", "false"),
        ("o.count.foo", "error: no such key: foo"),
        ("o.count.size()", "error: no such overload: size"),
        ("o.count.startsWith('a')", "error: no such overload"),
        ("o.on + 1", "error: no such overload: _+_"),
        ("o.name + 1", "error: no such overload"),
    ]);
}

#[test]
fn macros() {
    all_are(&[
        ("o.numbers.map(x, x * 2)", "[6, 2, 4]"),
        ("o.numbers.map(x, x > 1, x * 2)", "[6, 4]"),
        ("o.numbers.filter(x, x > 1).size()", "2"),
        ("o.numbers.exists_one(x, x == 1) && o.numbers.existsOne(i, x, x == 2)", "true"),
        ("o.list.all(i, v, i < 3 && v != 'z')", "true"),
        ("o.labels.transformList(k, v, k + v)", "[\"appx\", \"tiery\"]"),
        ("o.labels.transformMap(k, v, k == 'app', v + '!')", "{\"app\": \"x!\"}"),
        ("o.labels.transformMapEntry(k, v, {v: k})", "{\"x\": \"app\", \"y\": \"tier\"}"),
        ("cel.bind(x, o.count + 1, x * x)", "16"),
        ("o.list.sortBy(x, x == 'a' ? 2 : 1)", "[\"b\", \"c\", \"a\"]"),
        (
            "{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k})",
            "error: insert failed: key 1 already exists",
        ),
    ]);
}

#[test]
fn optionals() {
    all_are(&[
        ("o.?name.orValue('none')", "\"web\""),
        ("o.?nope.?deeper.orValue('none')", "\"none\""),
        ("o.?nested.deep.value.hasValue()", "true"),
        ("o.list[?7].or(o.list[?0]).value()", "\"a\""),
        ("optional.none().value()", "error: optional.none() dereference"),
        ("optional.ofNonZeroValue(0).hasValue()", "false"),
        ("o.?count.optMap(x, x + 1).orValue(0)", "4"),
        ("o.?nope.optFlatMap(x, optional.of(1)).hasValue()", "false"),
        ("[1, ?optional.none(), ?optional.of(2)]", "[1, 2]"),
        ("{?'a': o.?name, ?'b': o.?nope}", "{\"a\": \"web\"}"),
        ("o.list.first().value() + o.list.last().value()", "\"ac\""),
        ("[optional.of(1), optional.none()].unwrapOpt()", "[1]"),
    ]);
}

#[test]
fn conversions() {
    all_are(&[
        ("string(1.5) + string(1e100) + string(1e6)", "\"1.51e+1001e+06\""),
        ("string(true) + string(5u) + string(b'abc')", "\"true5abc\""),
        ("string(duration('90m'))", "\"5400s\""),
        ("int('x')", "error: type conversion error from 'string' to 'int'"),
        ("int(1e19)", "error: integer overflow"),
        ("uint(-1)", "error: unsigned integer overflow"),
        ("bool('t') && !bool('False') && double('1_000') == 1000.0", "true"),
        ("int(timestamp('1970-01-01T00:01:00Z'))", "60"),
        (
            "duration(o.name)",
            "error: type conversion error from 'string' to 'google.protobuf.Duration'",
        ),
        ("timestamp('2024-02-29T12:30:00Z').getDayOfYear()", "59"),
        ("timestamp('2024-02-29T23:30:00Z').getHours('+01:00')", "0"),
        ("duration('90s').getMinutes()", "1"),
    ]);
}

#[test]
fn strings() {
    all_are(&[
        ("'tacocat'.indexOf('c', 3) + 'tacocat'.lastIndexOf('c')", "8"),
        ("'héllo'.charAt(1) + 'héllo'.substring(1, 3)", "\"éél\""),
        ("'abc'.substring(2, 1)", "error: invalid substring range. start: 2, end: 1"),
        ("'abc'.substring(4)", "error: index out of range: 4"),
        ("'a,b,c'.split(',', 2)", "[\"a\", \"b,c\"]"),
        ("'aaa'.replace('a', 'b', 2) + 'aaa'.replace('a', 'c')", "\"bbaccc\""),
        ("['a', 'b'].join('-') + ' x '.trim() + 'aB'.upperAscii()", "\"a-bxAB\""),
        (
            "'%s %d %.2f %x %e'.format(['a', 5, 1234.5, 255, 1052.5])",
            "\"a 5 1,234.50 ff 1.052500×10⁰³\"",
        ),
        ("'%s'.format([[1, 'a', {'k': 2.5}]])", "\"[1, \\\"a\\\", {\\\"k\\\":2.500000}]\""),
        ("strings.quote('a\"b\\n')", r#""\"a\\\"b\\n\"""#),
        ("'abc'.matches('^[a-c]+$') && matches('a1', '[0-9]')", "true"),
        ("'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'ab'.find('z') == ''", "true"),
        ("'x'.matches(o.list[0] + '(')", "error: error parsing regexp: missing closing ): `a(`"),
    ]);
}

#[test]
fn lists_and_sets() {
    all_are(&[
        ("o.numbers.sort() == [1, 2, 3] && [2, 1].reverse() == [1, 2]", "true"),
        ("o.numbers.sum() + o.numbers.max() - o.numbers.min()", "8"),
        ("[].max()", "error: max called on empty list"),
        ("[1, 2, 2].distinct() == [1, 2] && [[1], [2]].flatten() == [1, 2]", "true"),
        ("[1, 2].slice(1, 3)", "error: cannot slice(1, 3), list is length 2"),
        ("lists.range(3)", "[0, 1, 2]"),
        ("sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1])", "true"),
        ("sets.intersects([1], [2]) || [1, 2].indexOf(2) == 1", "true"),
        ("{'a': 1, 'a': 2}", "{\"a\": 2}"),
    ]);
}

#[test]
fn kubernetes_libraries() {
    all_are(&[
        ("quantity('1.5Gi').isGreaterThan(quantity('1Gi'))", "true"),
        ("quantity('1').add(quantity('500m')).compareTo(quantity('1500m'))", "0"),
        ("quantity('1.5').asInteger()", "error: cannot convert value to integer"),
        ("isQuantity('x') || sign(quantity('-1')) == -1", "true"),
        ("ip('fe80::1').family() == 6 && ip('127.0.0.1').isLoopback()", "true"),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", "true"),
        ("cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))", "true"),
        ("string(cidr('10.1.2.3/8').masked())", "\"10.0.0.0/8\""),
        ("url('https://u@h:8080/p?q=1#f').getPort()", "\"8080\""),
        (
            "semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('v1', true).major() == 1",
            "true",
        ),
        ("format.dns1123Label().validate('A').value()[0].contains('lower case')", "true"),
        ("format.named('uuid').hasValue() && !format.named('x').hasValue()", "true"),
    ]);
}

#[test]
fn a_budget_ends_an_evaluation() {
    let environment = Arc::new(Environment::new());
    let program = environment.compile("lists.range(100000).map(x, x + 1).size() > 0");
    let program = program.expect("compiles");
    let bindings = Bindings::new();
    let (outcome, _) = program.evaluate(&bindings, CALL_LIMIT);
    let error = outcome.expect_err("costs more than a call may");
    assert!(error.is_budget_exceeded());
    assert_eq!(error.to_string(), "operation cancelled: actual cost limit exceeded");
    let (outcome, cost) =
        environment.compile("1 + 1").expect("compiles").evaluate(&bindings, 10).clone_value();
    assert_eq!((outcome, cost), (Some(2), 1));
}

trait CloneValue {
    fn clone_value(self) -> (Option<i64>, u64);
}

impl CloneValue for (Result<cel::Value<'_>, cel::Error>, u64) {
    fn clone_value(self) -> (Option<i64>, u64) {
        (self.0.ok().and_then(|value| value.to_tree().ok()?.as_i64()), self.1)
    }
}
