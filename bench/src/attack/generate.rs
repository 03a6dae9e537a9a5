//! Generates sequences of requests: mostly an object of some kind with a hostile value in it, written by one of the
//! possible methods, and read back.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    backends, cbor, custom, damage,
    kinds::{self, Kind},
    patches, queries,
    request::{Body, Caller, Request, Sequence},
    streams,
    sweep::Sweep,
    values, wire,
};
use crate::random::Random;

/// Number of different names for the objects of a kind.
const NAMES: usize = 40;
/// Number of values that a field of the sweep gets in one turn.
const VALUES: usize = 4;
/// How many of them are the worst of the field's type; the opening sends no others.
const WORST: usize = 2;
const NAMESPACES: &[&str] = &["a", "b"];

/// Generates sequences that cover each kind and each field in turn.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) sweep: Sweep,
    pub(crate) random: Random,
    /// Number of objects that the opening has created.
    opened: usize,
}

/// The object that a sequence is about.
pub(crate) struct Target<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) namespace: &'static str,
    pub(crate) number: usize,
    pub(crate) object: Value,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Result<Self> {
        let kinds = kinds::all()?;
        let mut random = Random::new(seed);
        let sweep = Sweep::new(&kinds, &mut random);
        Ok(Self { kinds, sweep, random, opened: 0 })
    }

    /// The next sequence.
    pub(crate) fn next(&mut self) -> Sequence {
        let mut random = self.random.clone();
        let sequence = match random.below(20) {
            // CustomResourceDefinitions have a generator of their own
            0 if self.sweep.is_opening() => custom::sequence(&mut random),
            _ if self.sweep.is_opening() => self.swept_field(&mut random),
            0 => custom::sequence(&mut random),
            1 => streams::sequence(&mut random),
            2 => queries::sequence(&self.kinds, &mut random),
            3 => backends::sequence(&mut random),
            4..=8 => self.swept_field(&mut random),
            _ => self.random_field(&mut random),
        };
        self.random = random;
        sequence
    }

    /// A sequence for the next field of the sweep, with some values.
    fn swept_field(&mut self, random: &mut Random) -> Sequence {
        let opening = self.sweep.is_opening();
        let values = if opening { WORST } else { VALUES };
        let (at, path) = self.sweep.next();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let mut requests = Vec::new();
        // A name does harm only in a suitable object: a Service without addresses allocates nothing.
        let bases = match opening && path == ["metadata", "name"] {
            true => self.kinds[at].bases.len(),
            false => 1,
        };
        for turn in 0..values * bases {
            let which = turn % values;
            let mut target = target(&self.kinds[at], random);
            if opening {
                // each has its own name, because an existing object would not be created
                self.opened += 1;
                target.number = NAMES + self.opened;
                let base = random.below(target.kind.bases.len());
                target.object = target.kind.object(base, target.number).unwrap_or_default();
            }
            if bases > 1 {
                let object = self.kinds[at].object(turn / values, target.number);
                target.object = object.unwrap_or_default();
            }
            let valid = target.object.clone();
            if path.starts_with(&["metadata", "managedFields"]) {
                manage(&mut target.object);
            }
            damage::damage_at(
                &target.kind.definition.schema,
                &mut target.object,
                &path,
                (which, random),
            );
            if which < WORST {
                // the worst values in the simplest way, by an authorized user
                requests.push(
                    Request::new(Caller::Admin, "POST", target.collection())
                        .json(target.object.to_string()),
                );
            } else {
                requests.extend(write(&target, &valid, random).requests);
            }
        }
        Sequence { requests, at_once: false }
    }

    /// A random kind; kinds that act on others, or on which others act, are chosen more often.
    fn some_kind(&self, random: &mut Random) -> &Kind {
        let kind = &self.kinds[random.below(self.kinds.len())];
        let acts = [
            "",
            "apps",
            "batch",
            "apiextensions.k8s.io",
            "admissionregistration.k8s.io",
            "resource.k8s.io",
            "autoscaling",
            "policy",
        ];
        match acts.contains(&kind.definition.names.group) && kind.definition.enabled_by_default {
            true => kind,
            false if random.one_in(3) => kind,
            false => &self.kinds[random.below(self.kinds.len())],
        }
    }

    /// A sequence that damages random fields of a random kind.
    fn random_field(&self, random: &mut Random) -> Sequence {
        let mut target = target(self.some_kind(random), random);
        let valid = target.object.clone();
        if random.one_in(10) {
            let (field, text) = (
                ["name", "name", "generateName", "namespace"][random.below(4)],
                values::text("name", random),
            );
            target.object["metadata"][field] = text;
            return write(&target, &valid, random);
        }
        for _ in 0..[1, 1, 1, 2, 4][random.below(5)] {
            damage::damage(&target.kind.definition.schema, &mut target.object, random);
        }
        if random.one_in(10) {
            patches::direct(&mut target.object, random);
        }
        if random.one_in(8) {
            own(&mut target, &self.kinds, random);
        }
        write(&target, &valid, random)
    }
}

/// A random valid object of a kind.
pub(crate) fn target<'a>(kind: &'a Kind, random: &mut Random) -> Target<'a> {
    let (number, namespace) = (random.below(NAMES), NAMESPACES[random.below(2)]);
    let object = kind.object(random.below(kind.bases.len()), number).unwrap_or_default();
    Target { kind, namespace, number, object }
}

impl Target<'_> {
    /// The path of the collection that the object belongs to.
    pub(crate) fn collection(&self) -> String {
        self.kind.collection(self.namespace)
    }

    /// The path of the object, by the name that it had before it was damaged.
    pub(crate) fn path(&self) -> String {
        let valid = self.kind.object(0, self.number).unwrap_or_default();
        format!("{}/{}", self.collection(), valid["metadata"]["name"].as_str().unwrap_or("x"))
    }

    /// A random caller; cluster-scoped objects can be written by the administrator only.
    pub(crate) fn caller(&self, random: &mut Random) -> Caller {
        match random.below(12) {
            0 => Caller::Node,
            1 => Caller::Anonymous,
            2..=5 if self.kind.is_namespaced() => Caller::Tenant,
            _ => Caller::Admin,
        }
    }
}

/// Adds managedFields as a client sends them back: an incomplete entry would be dropped unread.
fn manage(object: &mut Value) {
    let entry = json!({
        "manager": "m", "operation": "Update", "apiVersion": object["apiVersion"], "time": "2024-01-02T03:04:05Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {}}},
    });
    object["metadata"]["managedFields"] = json!([entry]);
}

/// Adds owner references to objects that may exist, finalizers, deletion, and preconditions.
fn own(target: &mut Target<'_>, kinds: &[Kind], random: &mut Random) {
    let owner = &kinds[random.below(kinds.len())];
    let owner = Target {
        kind: owner,
        namespace: target.namespace,
        number: random.below(NAMES),
        object: Value::Null,
    };
    let names = owner.kind.definition.names;
    let path = owner.path();
    let reference = json!({
        "apiVersion": names.api_version(), "kind": names.kind,
        "name": path.rsplit('/').next().unwrap_or_default(),
        "uid": format!("⟦uid {path}⟧"),
        "controller": random.one_in(2), "blockOwnerDeletion": random.one_in(2),
    });
    if let Some(meta) = target.object["metadata"].as_object_mut() {
        meta.insert("ownerReferences".into(), json!([reference]));
        if random.one_in(2) {
            meta.insert("finalizers".into(), json!(["foregroundDeletion", "example.com/f"]));
        }
    }
}

/// Writes the damaged object by one of the possible methods, after a valid one where that is needed, and reads it
/// back.
fn write(target: &Target<'_>, valid: &Value, random: &mut Random) -> Sequence {
    let (collection, path) = (target.collection(), target.path());
    let caller = target.caller(random);
    let text = target.object.to_string();
    let create = |user, body: &str| Request::new(user, "POST", collection.clone()).json(body);
    let mut requests = Vec::new();
    let way = random.below(16);
    if way >= 7 {
        requests.push(create(Caller::Admin, &valid.to_string()));
    }
    let version = |text: &str| match random_version(text, &path) {
        Some(with) => with,
        None => text.to_owned(),
    };
    let parts = target.kind.definition.subresources;
    match way {
        0..=6 => requests.push(encoded(
            Request::new(caller, "POST", collection.clone()),
            target.kind,
            &text,
            random,
        )),
        7..=8 => requests.push(encoded(
            Request::new(caller, "PUT", path.clone()),
            target.kind,
            &version(&text),
            random,
        )),
        9 if !parts.is_empty() => {
            let part = &parts[random.below(parts.len())];
            requests.push(streams::part(target, part, &text, caller, random));
        }
        10 | 9 if parts.iter().any(|part| part.name == "status") => {
            let request = Request::new(caller, "PUT", format!("{path}/status"));
            requests.push(encoded(request, target.kind, &version(&text), random));
        }
        _ => requests.push(patches::patch(target, valid, &path, caller, random)),
    }
    if random.one_in(4) {
        requests.push(queries::read(target, random));
    }
    if random.one_in(6) {
        requests.push(queries::delete(target, random));
    }
    for request in &mut requests {
        queries::decorate(request, random);
    }
    Sequence { requests, at_once: random.one_in(20) }
}

/// The text of an object with the resourceVersion that it replaces.
fn random_version(text: &str, path: &str) -> Option<String> {
    let mut object: Value = serde_json::from_str(text).ok()?;
    let meta = object["metadata"].as_object_mut()?;
    meta.entry("resourceVersion").or_insert_with(|| json!(format!("⟦version {path}⟧")));
    Some(object.to_string())
}

/// The request with the object as its body, in one of the media types.
pub(crate) fn encoded(request: Request, kind: &Kind, text: &str, random: &mut Random) -> Request {
    match random.below(16) {
        0..=2 => match wire::message(&kind.definition, text, random) {
            Some(message) => {
                let request = request.header("content-type", "application/vnd.kubernetes.protobuf");
                request.body(Body::bytes(&message))
            }
            None => request.json(text),
        },
        3 => {
            request.header("content-type", "application/yaml").body(Body::Text(yaml(text, random)))
        }
        6 => match cbor::body(text, random) {
            Some(body) => request.header("content-type", "application/cbor").body(body),
            None => request.json(text),
        },
        4 => {
            let types = [
                "",
                "text/plain",
                "application/cbor",
                "application/json;charset=utf-16",
                "*/*",
                "a/b/c",
                "application/json;stream=watch",
            ];
            let ty = types[random.below(types.len())];
            request.header("content-type", ty).body(Body::Text(text.to_owned()))
        }
        5 => {
            // with a duplicate name, or truncated
            let text = match random.below(3) {
                0 => text.replacen('{', r#"{"metadata":{"name":"twice"},"#, 1),
                1 => text.chars().take(text.chars().count() * 3 / 4).collect(),
                _ => format!("{text}{text}"),
            };
            request.json(text)
        }
        _ => request.json(text),
    }
}

/// The object as YAML: JSON, which is YAML too, or with features that only YAML has.
fn yaml(text: &str, random: &mut Random) -> String {
    let around = [
        ("", ""),
        ("--- !!map\n", "\n...\n"),
        ("%YAML 1.2\n---\n", "\n---\n{}\n"),
        ("&a ", ""),
        ("? ", "\n: *a\n"),
        (
            "a: &a [b]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c]\nmetadata: ",
            "",
        ),
        ("<<: &x {metadata: {name: fz-1}}\n<<: *x\nspec: ", ""),
        ("- - - - - ", ""),
        ("|\n ", ""),
        ("\u{feff}", "# \u{1F600}"),
        ("!!binary ", ""),
        ("\t", "\t"),
    ];
    let (before, behind) = around[if random.one_in(2) { 0 } else { random.below(around.len()) }];
    format!("{before}{text}{behind}")
}

/// Attacks that have killed a server before are tried early: within about a thousand requests.
#[test]
#[expect(clippy::type_complexity, reason = "a table")]
fn known_attacks_come_soon() {
    let attacks: [(&str, &str, fn(&Value) -> bool); 3] = [
        ("/services", "POST", |object| {
            object["metadata"]["name"].as_str().is_some_and(|name| name.contains('"'))
        }),
        ("/jobs", "POST", |object| {
            object["spec"]["activeDeadlineSeconds"]
                .as_i64()
                .is_some_and(|seconds| seconds > i64::MAX - 9)
        }),
        ("", "POST", |object| object["metadata"]["managedFields"].to_string().contains("⟦deep")),
    ];
    for seed in 1..=4 {
        let mut generator = Generator::new(seed).expect("kinds");
        let (mut sent, mut found) = (0, [None; 3]);
        while sent < 3_000 && found.contains(&None) {
            for request in generator.next().requests {
                sent += 1;
                let Body::Text(text) = &request.body else { continue };
                let Ok(object) = serde_json::from_str::<Value>(text) else { continue };
                for (place, (path, method, is)) in found.iter_mut().zip(attacks) {
                    let here = request.method == method && request.bare_path().ends_with(path);
                    if place.is_none() && here && request.user != Caller::Anonymous && is(&object) {
                        *place = Some(sent);
                    }
                }
            }
        }
        println!("seed {seed}: after {found:?} requests");
        assert!(!found.contains(&None), "seed {seed}: {found:?}");
    }
}
