//! Sets every number of every kind that controllers read to its extremes: a value that the API
//! server accepts must not make a controller or the scheduler panic.

use std::time::Duration;

use api::{
    apps::ReplicaSet,
    core::{Pod, ResourceQuota},
};
use client::{Api, ApiResource, DeleteParams, Error, Patch, Selectors};
use object::{NamespacedName, Type, Value, yaml::from_yaml};
use runtime::Context;
use schema::{ResourceDefinition, Scope};
use tokio::time::sleep;

use crate::{World, world::until};

/// Complete example objects of the kinds.
const BASES: &str = include_str!("hostile.yaml");
/// Maximum nesting depth, which bounds recursive structs.
const DEPTH: usize = 12;
const SETTLE: Duration = Duration::from_millis(700);

/// The path of a number: field names, and `0` for the first item of a list.
type Place = Vec<String>;

#[tokio::test]
#[ignore = "takes minutes; run it by name"]
async fn extreme_numbers_make_no_loop_panic() {
    let world = World::start(&["*"]).await;
    let cx = Context::new(&world.admin);
    scheduler::start(&cx, scheduler::Config::default());
    // limits the pods that huge replica counts would create
    let quota = r#"{"metadata":{"name":"quota"},"spec":{"hard":{"pods":"30"}}}"#;
    world.make::<ResourceQuota>(quota).await;
    let kinds = api::builtin_resources();
    let (mut taken, mut refused) = (0, 0);
    for (at, text) in BASES.split("\n---\n").enumerate() {
        let base = from_yaml(text).expect("an object");
        let definition = definition(&kinds, &base);
        let api = objects(&world, definition);
        let name = base["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        api.create(base.clone()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut numbers = Vec::new();
        for field in definition.schema.fields.iter().filter(|field| field.name != "metadata") {
            let place = vec![field.name.to_string()];
            find(&field.ty, base.get(&field.name), place, &mut numbers);
        }
        for (nth, (place, value)) in numbers.iter().enumerate() {
            let key =
                NamespacedName::new(if is_namespaced(definition) { "default" } else { "" }, &name);
            let done = if place.first().is_some_and(|first| first == "status") {
                let mut patch = Value::object();
                patch["status"] = base["status"].clone();
                set(&mut patch, place, value);
                api.patch_status(&key, &Patch::Merge(patch)).await
            } else {
                let mut object = base.clone();
                set(&mut object, place, value);
                object["metadata"]["name"] = format!("{name}-{at}-{nth}").into();
                api.create(object).await
            };
            match done {
                Ok(_) => taken += 1,
                Err(error) if is_fault(&error) => panic!("{place:?} = {value:?}: {error}"),
                Err(_) => refused += 1,
            }
        }
        sleep(SETTLE).await;
        assert_eq!(caught(), "", "after {name}");
        clear(&api, definition).await;
    }
    assert!(taken > 500 && refused > 500, "{taken} taken, {refused} refused");
    world.delete::<ResourceQuota>("quota").await;
    alive(&world).await;
    assert_eq!(caught(), "");
    cx.stop().await;
    world.stop().await;
}

/// The panics that were caught, as `/metrics` reports them.
fn caught() -> String {
    let mut text = String::new();
    panics::report(&mut text);
    let inside = |line: &&str| !line.starts_with('#') && !line.contains(r#"part="other""#);
    text.lines().filter(inside).collect::<Vec<_>>().join("\n")
}

fn definition<'a>(kinds: &'a [ResourceDefinition], base: &Value) -> &'a ResourceDefinition {
    let is = |one: &&ResourceDefinition| {
        Some(&*one.names.api_version()) == base["apiVersion"].as_str()
            && Some(one.names.kind) == base["kind"].as_str()
    };
    kinds.iter().find(is).unwrap_or_else(|| panic!("no kind: {base:?}"))
}

fn is_namespaced(definition: &ResourceDefinition) -> bool {
    definition.scope == Scope::Namespaced
}

fn objects(world: &World, definition: &ResourceDefinition) -> Api<Value> {
    let names = &definition.names;
    let resource = ApiResource {
        group: names.group.into(),
        version: names.version.into(),
        plural: names.plural.into(),
        kind: names.kind.into(),
        namespaced: is_namespaced(definition),
    };
    let api = Api::for_resource(&world.admin, resource);
    if is_namespaced(definition) { api.namespaced("default") } else { api }
}

/// Whether the error is a server fault and not a rejection of the request.
fn is_fault(error: &Error) -> bool {
    !matches!(error, Error::Status(status) if status.code() < 500 || status.code() == 504)
}

/// Collects all numbers below a path, each with its extreme values.
#[expect(clippy::needless_pass_by_value, reason = "each call has a place of its own")]
fn find(ty: &Type, base: &Value, place: Place, out: &mut Vec<(Place, Value)>) {
    let text = |texts: &[&str]| texts.iter().map(|text| Value::from(*text)).collect::<Vec<_>>();
    let extremes: Vec<Value> = match ty {
        Type::Int32 => [i32::MIN, -1, 0, i32::MAX].map(|n| i64::from(n).into()).into(),
        Type::Int64 | Type::UInt64 => [i64::MIN, -1, 0, i64::MAX].map(Value::from).into(),
        Type::IntOrString => {
            let mut all = text(&["9223372036854775807%", "100%", "0%", "-1%"]);
            all.extend([i32::MIN, i32::MAX].map(|n| Value::from(i64::from(n))));
            all
        }
        Type::Quantity => text(&["9223372036854775807", "8Ei", "-1", "0", "1n", "1e40"]),
        Type::Time | Type::MicroTime => {
            text(&["0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"])
        }
        Type::Duration => text(&["2562047h47m16.854775807s", "-2562047h47m16s", "0s"]),
        Type::Object(shape) | Type::StructOr(shape, _) if place.len() < DEPTH => {
            // fields that the example lacks are followed only near the root
            if !base.is_null() || place.len() < 4 {
                for field in shape.fields.iter() {
                    let below = [&place[..], &[field.name.to_string()]].concat();
                    find(&field.ty, base.get(&field.name), below, out);
                }
            }
            return;
        }
        Type::List(item) => {
            let first = base.items().first().cloned().unwrap_or_default();
            return find(item, &first, [&place[..], &["0".to_owned()]].concat(), out);
        }
        Type::Map(item) => {
            for (name, value) in base.entries() {
                find(item, value, [&place[..], &[name.to_string()]].concat(), out);
            }
            return;
        }
        _ => return,
    };
    out.extend(extremes.into_iter().map(|value| (place.clone(), value)));
}

/// Sets a value at a path, and creates the missing objects on the way.
fn set(object: &mut Value, place: &[String], value: &Value) {
    let Some((first, rest)) = place.split_first() else { return *object = value.clone() };
    if first != "0" {
        return set(&mut object[first.as_str()], rest, value);
    }
    let mut items: Vec<Value> = object.items().to_vec();
    if items.is_empty() {
        items.push(Value::Null);
    }
    set(&mut items[0], rest, value);
    *object = items.into_iter().collect();
}

/// Deletes all objects of the kind, except those that existed before.
async fn clear(api: &Api<Value>, definition: &ResourceDefinition) {
    let own = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        name.starts_with("hostile")
    };
    let all = api.list_all(&Selectors::default()).await.expect("a list").items;
    for object in all.iter().filter(|object| own(object)) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let key = NamespacedName::new(if is_namespaced(definition) { "default" } else { "" }, name);
        for grace in [i64::MAX, 0] {
            let delete = DeleteParams { grace_seconds: Some(grace), ..DeleteParams::default() };
            match api.delete(&key, &delete).await {
                Err(error) if is_fault(&error) => panic!("delete {name}: {error}"),
                _ => {}
            }
        }
    }
}

/// Checks that the controllers and the scheduler still work.
async fn alive(world: &World) {
    let set = r#"{"metadata":{"name":"after"},"spec":{"replicas":1,"selector":{"matchLabels":
        {"app":"after"}},"template":{"metadata":{"labels":{"app":"after"}},"spec":{"containers":
        [{"name":"c","image":"i"}]}}}}"#;
    world.node("alive").await;
    let room = r#"{"status":{"allocatable":{"cpu":"8","memory":"8Gi","pods":"110"},
        "conditions":[{"type":"Ready","status":"True"}]}}"#;
    let patch = Patch::Merge(crate::world::tree(room));
    let api = world.api::<api::core::Node>();
    api.patch_status(&NamespacedName::new("", "alive"), &patch).await.expect("a status");
    world.make::<ReplicaSet>(set).await;
    until("a pod of the new set has a node", async || {
        let pods = world.all::<Pod>().await;
        let new = |pod: &&Pod| pod.metadata().labels().get("app") == Some("after");
        let found = pods.iter().find(new).is_some_and(Pod::is_scheduled);
        if found { Ok(()) } else { Err(pods) }
    })
    .await;
}
