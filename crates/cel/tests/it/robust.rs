//! No text, however broken, makes it panic.

use std::sync::Arc;

use cel::{Bindings, Environment, Type};
use object::from_json;

/// A small generator of numbers, the same every time.
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
