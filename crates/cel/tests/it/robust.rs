//! Fuzz tests: no source makes the implementation panic.

use std::sync::Arc;

use cel::{Bindings, Environment, Type};
use object::from_json;

/// A pseudo-random generator with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % n.max(1)
    }
}

const SEEDS: &[&str] = &[
    "self.list.all(x, x.startsWith('a') && has(self.b)) ? [1, 2][0] : {'a': 1}['a']",
    "self.?a.optMap(v, v + 1).orValue(-1) >= 0x1F || !self.b.matches(r'^\\d+$')",
    "'%s-%d'.format([self.b, 5]) == \"\\u00e9\" && b'\\xff'.size() == 1u + 2u",
    "cidr('10.0.0.0/8').containsIP(ip('10.1.1.1')) && quantity('1.5Gi').isInteger()",
    "self.m.transformMap(k, v, k != '', v.sortBy(e, e.k)) == {} // done",
    "url('http://a.b/c?d=e').getQuery().exists(k, k in ['d']) && semver('1.2.3').major() == 1",
    "timestamp('2024-01-01T00:00:00Z').getHours('Europe/Berlin') - duration('1h').getHours() == 0",
];

#[test]
fn mutations_never_panic() {
    let environment = Arc::new(Environment::new().with_variable("self", Type::Dyn));
    let json = br#"{"a": 5, "b": "12", "list": ["a"], "m": {"k": [{"k": 1}]}}"#;
    let tree = from_json(json).expect("valid");
    let alphabet: Vec<char> = "().[]{}?:,!&|=<>+-*/%'\"\\ abxru019_`é\n\0".chars().collect();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for round in 0..6_000 {
        let mut text: Vec<char> = SEEDS[round % SEEDS.len()].chars().collect();
        for _ in 0..=random.below(4) {
            let at = random.below(text.len());
            match random.below(4) {
                0 if !text.is_empty() => drop(text.remove(at)),
                1 => text.insert(at, alphabet[random.below(alphabet.len())]),
                2 => text.truncate(at),
                _ => {
                    let end = at + random.below(text.len() - at);
                    let part: Vec<char> = text[at..end].to_vec();
                    text.splice(at..at, part);
                }
            }
        }
        let text: String = text.into_iter().collect();
        if let Ok(program) = environment.compile(&text) {
            let bindings = Bindings::new().tree("self", &tree, None).expect("no schema");
            let _ = program.cost();
            let _ = program.evaluate(&bindings, 100_000);
        }
    }
}

#[test]
fn noise_never_panics() {
    let environment = Arc::new(Environment::new());
    let mut random = Random(42);
    for _ in 0..3_000 {
        let length = random.below(40);
        let text: String = (0..length)
            .map(|_| {
                char::from_u32(u32::try_from(random.below(0x250)).expect("small")).unwrap_or('?')
            })
            .collect();
        drop(environment.compile(&text));
    }
}

fn compiled(source: &str) -> Result<(), String> {
    let environment = Arc::new(Environment::new().with_variable("self", Type::Dyn));
    let tree = from_json(br#"{"a": {"a": 1}}"#).expect("valid");
    let program = environment.compile(source).map_err(|error| error.to_string())?;
    let bindings = Bindings::new().tree("self", &tree, None).expect("no schema");
    let _ = program.cost();
    let value = program.evaluate(&bindings, 1_000_000).0.map_err(|error| error.to_string())?;
    value.to_tree().map(drop).map_err(|error| error.to_string())
}

/// Each rule of the grammar may nest 250 levels, and all of them within each other.
#[test]
fn expressions_nest_as_deep_as_a_small_stack_bears() {
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    let mut refused = 0;
    for depth in (10..250).step_by(24) {
        let all = "[1].all(x, ";
        for source in [
            nested("[", "1", "]", depth),
            nested("(", "1", ")", depth),
            nested("{1: ", "1", "}", depth),
            nested("", "1", " + 1", depth),
            nested("", "self", ".a", depth),
            nested("1 == 2 ? 1 : ", "1", "", depth),
            nested("size(", "[1]", ") + size([1])", depth),
            nested(all, "true", ")", depth),
            nested(all, &nested("[", &nested("", "1", " + 1", depth), "]", depth), ")", depth),
            nested("optional.of(", "1", ")", depth),
            nested("", "optional.of(1)", ".optMap(x, x)", depth),
            nested("", "[1]", ".map(x, [[x]])", depth),
        ] {
            refused += usize::from(compiled(&source).is_err());
        }
    }
    assert!(refused > 0);
}

/// Each link copies its target.
#[test]
fn a_chain_of_copies_does_not_double_without_end() {
    let source = format!("optional.of(1){}", ".optMap(x, x)".repeat(200));
    let before = std::time::Instant::now();
    let why = compiled(&source).expect_err("2^200 nodes");
    assert!(why.contains("limit exceeded"), "{why}");
    assert!(before.elapsed().as_secs() < 20, "{:?}", before.elapsed());
}

/// Each link nests the value more deeply.
#[test]
fn a_value_that_is_made_link_by_link_stays_shallow() {
    let (open, close) = ("[".repeat(100), "]".repeat(100));
    let links =
        |count: usize| format!("[1]{}", format!(".map(x, {open}dyn(x){close})").repeat(count));
    assert_eq!(compiled(&links(1)), Ok(()));
    let why = compiled(&links(40)).expect_err("4,000 levels");
    assert!(why.contains("max depth"), "{why}");
    let optional = "optional.of(".repeat(30);
    let links = format!("[1]{}", format!(".map(x, {optional}dyn(x){})", ")".repeat(30)).repeat(60));
    assert!(compiled(&links).is_err());
}

/// Each link doubles the size of the type.
#[test]
fn a_type_that_doubles_link_by_link_is_refused() {
    let source = format!("[1]{}", ".map(x, {x: x})".repeat(60));
    let before = std::time::Instant::now();
    assert!(compiled(&source).is_err());
    assert!(before.elapsed().as_secs() < 20, "{:?}", before.elapsed());
}

#[test]
fn many_calls_are_checked_in_time() {
    let source = format!("[{}].size() > 0", vec!["self.a==1"; 9_000].join(","));
    let before = std::time::Instant::now();
    assert_eq!(compiled(&source), Ok(()));
    assert!(before.elapsed().as_secs() < 20, "{:?}", before.elapsed());
}

/// The size of a value that a short expression creates is bounded, whatever its nominal cost.
#[test]
fn no_expression_makes_more_than_memory_holds() {
    let environment = Arc::new(Environment::new().with_variable("self", Type::Dyn));
    let mut tree = from_json(b"{}").expect("valid");
    tree["s"] = "x".repeat(900_000).into();
    tree["l"] = (0..100_000).map(object::Value::from).collect();
    let shared = |times: usize| format!("[[1]]{}", ".map(a, [a, a])".repeat(times));
    let (small, large) = (shared(10), shared(60));
    for (text, fits) in [
        ("self.s.replace('', self.s) == ''", false),
        ("self.s.replace('x', 'yy').size() == 1800000", true),
        ("['a', 'b', 'c'].join(self.s).size() == 1800003", true),
        ("self.l.map(x, 'a').join(self.s) == ''", false),
        ("'%s'.format([self.l.map(x, self.s)]) == ''", false),
        ("self.l.map(x, self.s.replace('xxxxxxxxx', 'y')).size() == 1", false),
        (&format!("{small} == {small}"), true),
        (&format!("{large} == {large}"), false),
        (&format!("'%s'.format([{large}]) == ''"), false),
    ] {
        let program = environment.compile(text).expect("written in a test");
        let bindings = Bindings::new().tree("self", &tree, None).expect("no schema");
        let began = std::time::Instant::now();
        let (outcome, _) = program.evaluate(&bindings, 1_000_000_000);
        assert_eq!(outcome.is_ok(), fits, "{text:.80}");
        assert!(began.elapsed().as_secs() < 60, "{text:.80}");
    }
}
