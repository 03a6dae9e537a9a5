//! A small fuzzer: texts from a corpus are damaged and mixed, and fed to every parser of untrusted input. A panic or
//! a hang is a bug. In a release build the first panic aborts the process.

mod identity;
mod live;

use std::{
    hint::black_box,
    io::Cursor,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{self, Instant},
};

use anyhow::{Result, bail};
use api::autoscaling::v1::SCALE;
use cel::{Bindings, Environment, Type};
use client::Kubeconfig;
use jsonpath::Template;
use object::{
    Duration, JsonError, MicroTime, Quantity, Text, Time, from_json, from_json_preserving_source,
    from_json_raw, from_json_strict,
    selector::{FieldSelector, Selector},
    to_json, yaml,
};
use schema::{
    ErrorList, ResourceDefinition,
    apply::FieldSet,
    custom::{NoCelRules, crd_definitions},
    patch, protobuf,
};
use store::bolt::{self, Bolt};

use crate::random::Random;

/// The parsers.
pub(crate) const TARGETS: &[&str] = &[
    "json",
    "yaml",
    "protobuf",
    "quantity",
    "time",
    "selector",
    "jsonpath",
    "cel",
    "patch",
    "apply",
    "definition",
    "kubeconfig",
    "snapshot",
    "jwt",
    "certificate",
    "front-proxy",
    "hook-answer",
    "audit-policy",
    "request",
    "query",
    "continue",
    "accept",
    "impersonation",
    "websocket",
    "spdy",
];

/// The current input, which the panic hook prints.
static INPUT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Maximum time for an input of a few kilobytes.
const INPUT_TIMEOUT: time::Duration = time::Duration::from_secs(5);

/// Fuzzes one target for some time.
pub(crate) fn run(target: &str, time: time::Duration, seed: u64) -> Result<()> {
    if !TARGETS.contains(&target) {
        bail!("no such target: {target}; there are {}", TARGETS.join(", "));
    }
    let kinds = api::builtin_resources();
    let live = live::TARGETS.contains(&target).then(live::LiveServer::start).transpose()?;
    let mut corpus = match &live {
        Some(live) => live.corpus(target),
        None => corpus(target, &kinds),
    };
    std::panic::set_hook(Box::new(|panic| {
        let input = INPUT.lock().unwrap_or_else(PoisonError::into_inner);
        eprintln!("{panic}\n  for {:?}", String::from_utf8_lossy(&input));
    }));
    let mut random = Random::new(seed);
    let (began, mut inputs, mut taken) = (Instant::now(), 0_u64, 0_u64);
    while began.elapsed() < time {
        let mut input = corpus[random.below(corpus.len())].clone();
        let other = &corpus[random.below(corpus.len())];
        mutate(&mut input, other, &mut random);
        let at = Instant::now();
        INPUT.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&input);
        let read = match &live {
            Some(live) => live.feed(target, &input)?,
            None => run_input(target, &kinds, &input, random.below(kinds.len())),
        };
        if at.elapsed() > INPUT_TIMEOUT {
            bail!("{target} took {:?} for {:?}", at.elapsed(), String::from_utf8_lossy(&input));
        }
        inputs += 1;
        if read {
            taken += 1;
            // An input that still parses may lead further.
            if corpus.len() < 4_000 && input.len() < 4_096 {
                corpus.push(input);
            }
        }
    }
    println!("{target:<13} {inputs:>10} inputs, {taken:>10} understood");
    Ok(())
}

/// Parses an input. Returns whether it is valid.
fn run_input(target: &str, kinds: &[ResourceDefinition], input: &[u8], which: usize) -> bool {
    let text = String::from_utf8_lossy(input);
    let kind = &kinds[which];
    match target {
        "json" => {
            let plain = from_json(input);
            let read = from_json_strict(input, Some(&kind.schema), &mut Vec::new());
            // What is too deep for a tree may be passed on unparsed.
            if !matches!(plain, Err(JsonError::Depth(_))) {
                assert_eq!(plain, read, "{text}");
                assert_eq!(plain.is_ok(), from_json_raw(input).is_ok(), "{text}");
            }
            let _ = black_box(from_json_preserving_source(input));
            read.is_ok_and(|mut tree| {
                let _ = kind.coerce(&mut tree, &mut Vec::new());
                kind.apply_defaults(&mut tree);
                assert_eq!(from_json(&to_json(&tree)).as_ref(), Ok(&tree), "{text}");
                true
            })
        }
        "yaml" => document(&text),
        "protobuf" => protobuf::decode(&kind.schema, input).is_ok_and(|tree| {
            let message = protobuf::encode(&kind.schema, &tree);
            let again = protobuf::decode(&kind.schema, &message);
            let again = again.map(|tree| protobuf::encode(&kind.schema, &tree));
            assert_eq!(again.as_ref(), Ok(&message), "{} from {input:?}", kind.names.kind);
            message.len() < 1 << 24
        }),
        "quantity" => text.parse::<Quantity>().is_ok_and(|quantity| {
            let printed = quantity.to_string();
            let again = printed.parse::<Quantity>();
            assert_eq!(again.ok().map(|again| again.to_string()), Some(printed), "{text}");
            true
        }),
        "time" => moment(&text),
        "selector" => {
            let labels = Selector::parse(&text).is_ok_and(|selector| {
                let again = Selector::parse(&selector.to_string());
                assert_eq!(again.ok().map(|again| again.to_string()), Some(selector.to_string()));
                true
            });
            FieldSelector::parse(&text).is_ok() || labels
        }
        "jsonpath" => {
            let tree =
                from_json(br#"{"a":[{"b":1},{"b":"x"}],"c":{"d":null}}"#).unwrap_or_default();
            let relaxed = Template::parse_relaxed(&text);
            [Template::parse(&text), relaxed].into_iter().flatten().any(|template| {
                let _ = black_box(template.render(&tree));
                true
            })
        }
        "cel" => expression(&text),
        "patch" => from_json(input).is_ok_and(|change| {
            let object = from_json(POD).unwrap_or_default();
            let _ = black_box(patch::apply_json_patch(&object, &change));
            let _ = black_box(patch::apply_strategic_merge_patch(
                &kind.schema,
                &object,
                &mut change.clone(),
            ));
            let whole = String::from_utf8_lossy(POD);
            let _ = black_box(patch::apply_json_patch_text(&whole, &text, true));
            let _ = black_box(patch::apply_merge_patch_text(&whole, &text));
            true
        }),
        "definition" => definition(kinds, input),
        "kubeconfig" => {
            let mut config = Kubeconfig::default();
            config.add(Path::new("/nowhere/config"), &text).is_ok() && config.config(None).is_ok()
        }
        "snapshot" => Bolt::new(input).is_ok_and(|file| {
            let mut count = 0;
            let _ = file.for_each("key", &mut |key, value| {
                count += key.len() + value.len();
                Ok(())
            });
            black_box(count) > 0
        }),
        "apply" => apply(kind, input, &text),
        _ => identity::feed(target, input, &text),
    }
}

fn document(text: &str) -> bool {
    yaml::from_yaml(text).is_ok_and(|tree| {
        // A number may be read back as an integer, but it is written as before.
        let written = yaml::to_yaml(&tree);
        // Upstream writes such a key in a form that cannot be read back.
        if written.contains("<<:") {
            return true;
        }
        for text in [&written, &yaml::to_kyaml(&tree)] {
            let again = yaml::from_yaml(text).ok().map(|again| yaml::to_yaml(&again));
            assert_eq!(again.as_ref(), Some(&written), "{text}");
        }
        true
    })
}

/// Parses a timestamp or a duration.
fn moment(text: &str) -> bool {
    let again = |canonical: fn(&str) -> Result<Text, String>| {
        canonical(text).is_ok_and(|one| {
            assert_eq!(canonical(&one).as_ref(), Ok(&one), "{text}");
            true
        })
    };
    let length = |text: &str| Duration::parse_nanos(text).map(Duration::format_nanos);
    again(Time::canonicalize) | again(MicroTime::canonicalize) | again(length)
}

fn expression(text: &str) -> bool {
    let environment = Arc::new(Environment::new().with_variable("self", Type::Dyn));
    let tree = from_json(br#"{"a":5,"b":"12","list":["a"],"m":{"k":[1]}}"#).unwrap_or_default();
    environment.compile(text).is_ok_and(|program| {
        if let Ok(bindings) = Bindings::new().tree("self", &tree, None) {
            let _ = black_box(program.evaluate(&bindings, 100_000));
        }
        true
    })
}

/// Parses a CustomResourceDefinition, and an object of the kind that it defines.
fn definition(kinds: &[ResourceDefinition], input: &[u8]) -> bool {
    let known = kinds.iter().find(|kind| kind.names.kind == "CustomResourceDefinition");
    let (Some(kind), Ok(mut crd)) = (known, from_json(input)) else { return false };
    if kind.coerce(&mut crd, &mut Vec::new()).is_err() {
        return false;
    }
    kind.apply_defaults(&mut crd);
    let mut errs = ErrorList::default();
    schema::validate_declarative(&kind.schema, &crd, None, &mut errs);
    kind.strategy.validate(&crd, None, &mut errs);
    if !errs.is_empty() {
        return false;
    }
    let Ok(Some(declared)) = crd_definitions(&crd, SCALE, &NoCelRules) else { return false };
    let mut object = from_json(CUSTOM).unwrap_or_default();
    let _ = declared.storage_version.coerce(&mut object, &mut Vec::new());
    declared.storage_version.apply_defaults(&mut object);
    declared.storage_version.strategy.validate(&object, None, &mut errs);
    true
}

/// Decodes a set of managedFields, and applies an object with server-side apply.
fn apply(kind: &ResourceDefinition, input: &[u8], text: &str) -> bool {
    from_json(input).is_ok_and(|wanted| {
        if let Ok(set) = FieldSet::decode(wanted.get("set")) {
            let again = FieldSet::decode(&set.encode()).map(|set| set.encode());
            assert_eq!(again, Ok(set.encode()), "{text}");
        }
        let live = from_json(POD).unwrap_or_default();
        let write = schema::apply::FieldManagerRequest {
            schema: &kind.schema,
            api_version: "v1",
            kind: "Pod",
            manager: "fuzz",
            subresource: "",
            reset_fields: &[],
            now: "2024-01-02T03:04:05Z",
            converter: &schema::apply::SingleVersion,
        };
        let _ = black_box(schema::apply::apply(&write, Some(&live), &wanted, false));
        true
    })
}

const POD: &[u8] = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"b":"c"}},
    "spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80,"protocol":"TCP"}],
    "env":[{"name":"E","value":"v"}],"resources":{"limits":{"cpu":"1"}}}],"volumes":[{"name":"v","emptyDir":{}}]}}"#;

const CUSTOM: &[u8] = br#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},
    "spec":{"size":3,"port":"http","tags":["a","b"],"parts":[{"name":"x","n":1.5}],"more":{"a":{"b":null}}}}"#;

const DEFINITION: &[u8] = br#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
    "metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
    "names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},
    "versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},
    "scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.size"}},
    "additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"}],
    "schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","required":["size"],
    "properties":{"size":{"type":"integer","minimum":1,"maximum":9,"default":2},
    "port":{"x-kubernetes-int-or-string":true},"tags":{"type":"array","x-kubernetes-list-type":"set",
    "items":{"type":"string","pattern":"^[a-z]+$","maxLength":5}},
    "parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
    "items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},
    "n":{"type":"number","nullable":true}}}},
    "more":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
    "status":{"type":"object","properties":{"size":{"type":"integer"},"at":{"type":"string","format":"date-time"}}}}}}}]}}"#;

const SET: &[u8] = br#"{"set":{"f:a":{},"f:b":{".":{},"k:{\"n\":\"x\",\"p\":80}":{"f:c":{}}},"f:s":{"v:\"w\"":{}}}}"#;

fn corpus(target: &str, kinds: &[ResourceDefinition]) -> Vec<Vec<u8>> {
    let texts: &[&str] = match target {
        "yaml" => &[
            "a: 1\nb: [x, 'y', \"z\"]\nc:\n- d: {e: f}\n- |\n  text\n  more\n",
            "base: &b {x: 1}\nother:\n  <<: *b\n  y: !!str 5\n",
            "- yes\n- 0777\n- 0x1F\n- 1e3\n- ~\n- 2024-01-02\n- .inf\n",
            "? a\n: b\n# c\n--- \n\"\\u00e9\\n\": >-\n  folded\n  text\n",
        ],
        "quantity" => {
            &["1", "100m", "1.5Gi", "-3e6", "12E", "0.000000001", "1e-10", "9223372036854775808Ki"]
        }
        "time" => &[
            "2024-01-02T03:04:05Z",
            "2024-02-29T23:59:59.123456+02:00",
            "0001-01-01T00:00:00Z",
            "1h30m0.5s",
            "-3m20\u{b5}s",
        ],
        "kubeconfig" => &["apiVersion: v1\nkind: Config\ncurrent-context: a\n\
            contexts: [{name: a, context: {cluster: c, user: u, namespace: n}}]\n\
            clusters: [{name: c, cluster: {server: 'https://10.0.0.1:6443/p', tls-server-name: x, \
            insecure-skip-tls-verify: true, proxy-url: 'socks5://b:1'}}]\n\
            users: [{name: u, user: {token: t, as: x, as-groups: [g], exec: {command: c, args: [a], \
            apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}}]\n"],
        "selector" => &[
            "a=b,c!=d",
            "x in (a,b),y notin (c)",
            "!a,b",
            "a==b,n>5,m<10",
            "metadata.name=x,spec.nodeName!=y",
            "a=b\\,c\\=d",
        ],
        "jsonpath" => &[
            "{.a[0].b}",
            "{range .a[*]}{.b}{\"\\n\"}{end}",
            "{.a[?(@.b==\"x\")].b}",
            "{..b}",
            "{.a[-1:]}",
            "{.c['d']}",
            "{.a[0:2:1]['b','c']}",
            "a.b",
        ],
        "cel" => &[
            "self.list.all(x, x.startsWith('a') && has(self.b)) ? [1, 2][0] : {'a': 1}['a']",
            "self.?a.optMap(v, v + 1).orValue(-1) >= 0x1F || !self.b.matches(r'^\\d+$')",
            "'%s-%d'.format([self.b, 5]) == \"\\u00e9\" && b'\\xff'.size() == 1u + 2u",
            "cidr('10.0.0.0/8').containsIP(ip('10.1.1.1')) && quantity('1.5Gi').isInteger()",
        ],
        "patch" => &[
            r#"[{"op":"add","path":"/metadata/labels/x","value":1},{"op":"test","path":"/a~1b","value":null}]"#,
            r#"{"metadata":{"labels":null},"spec":{"containers":[{"name":"c","image":"2"},{"$patch":"delete","name":"d"}],
                "$setElementOrder/containers":[{"name":"c"}],"$deleteFromPrimitiveList/x":["a"]}}"#,
            r#"{"spec":{"volumes":[{"name":"v","$retainKeys":["name"]}],"$patch":"replace"}}"#,
        ],
        _ => identity::seeds(target),
    };
    let mut corpus: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    match target {
        "json" => corpus.push(POD.to_vec()),
        "apply" => corpus.extend([POD.to_vec(), SET.to_vec()]),
        "definition" => corpus.push(DEFINITION.to_vec()),
        "snapshot" => corpus.push(snapshot()),
        "certificate" => corpus.extend(identity::certificates()),
        "yaml" => corpus.extend(from_json(POD).map(|pod| yaml::to_yaml(&pod).into_bytes())),
        "protobuf" => {
            let pod = from_json(POD).unwrap_or_default();
            corpus.extend(kinds.iter().map(|kind| protobuf::encode(&kind.schema, &pod)));
        }
        _ => {}
    }
    corpus
}

/// A snapshot file of a few pages.
fn snapshot() -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let entries = (0..100_u64).map(|n| (n.to_be_bytes(), vec![0; 80]));
    let wide = [(0_u64.to_be_bytes(), vec![7; 9000])];
    let buckets: [(_, Box<dyn Iterator<Item = _>>); 2] =
        [("key", Box::new(entries)), ("meta", Box::new(wide.into_iter()))];
    bolt::write(&mut file, buckets).expect("memory takes every write");
    file.into_inner()
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    const ODD: &[u8] = b"\"'{}[]:,-?&*!|>%@`~#\\/\n\t 0159eE+-.xX_$()=<>nNtf\0\x80\xff\xc3\xa9";
    for _ in 0..=random.below(5) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            3 => bytes.insert(at, ODD[random.below(ODD.len())]),
            4 => {
                let from = random.below(other.len() + 1);
                let part = &other[from..(from + random.below(32)).min(other.len())];
                bytes.splice(at..at, part.iter().copied());
            }
            _ => {
                let end = (at + random.below(24)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
}
