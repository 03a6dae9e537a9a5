//! CustomResourceDefinitions: created, served, changed and deleted while the server runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use api::apiextensions::CustomResourceDefinition;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{
    Api, ApiResource, Client, DeleteParams, ListParams, Patch, Selectors, WatchEvent, WatchStart,
};
use object::{NamespacedName, Value, View};
use testkit::TestCluster;
use tokio::time::{sleep, timeout};

use crate::{backend::Backend, code, name, of, tree};

const THINGS: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
    "metadata":{"name":"things.kit.example.com"},"spec":{"group":"kit.example.com","scope":"Namespaced",
    "names":{"plural":"things","kind":"Thing","shortNames":["th"]},"versions":[
    {"name":"v1","served":true,"storage":true,"subresources":{"status":{},
      "scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
     "selectableFields":[{"jsonPath":".spec.color"}],
     "additionalPrinterColumns":[{"name":"Color","type":"string","jsonPath":".spec.color"}],
     "schema":{"openAPIV3Schema":{"type":"object","properties":{
      "spec":{"type":"object","properties":{"color":{"type":"string","default":"red","maxLength":5},
        "replicas":{"type":"integer"},
        "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
          "items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"n":{"type":"integer"}}}}}},
      "status":{"type":"object","properties":{"replicas":{"type":"integer"},"phase":{"type":"string"}}}}}}}]}}"#;

fn things(client: &Client, version: &'static str) -> Api<Value> {
    let resource = ApiResource {
        group: "kit.example.com".into(),
        version: version.into(),
        kind: "Thing".into(),
        plural: "things".into(),
        namespaced: true,
    };
    Api::<Value>::for_resource(client, resource).namespaced("default")
}

fn thing(name: &str, spec: &str) -> Value {
    tree(&format!(
        r#"{{"apiVersion":"kit.example.com/v1","kind":"Thing","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
    ))
}

async fn declare(client: &Client, crd: &str) {
    of::<CustomResourceDefinition>(client).create(tree(crd)).await.expect("a good definition");
    established(client).await;
}

async fn established(client: &Client) {
    let key = NamespacedName::new("", "things.kit.example.com");
    for _ in 0..200 {
        let found = of::<CustomResourceDefinition>(client).get(&key).await.expect("it is there");
        if CustomResourceDefinition::view(&found).is_true("Established") {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("the definition is not established");
}

#[tokio::test]
async fn a_custom_kind_is_served_like_any_other() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    declare(&admin, THINGS).await;
    let things = things(&admin, "v1");
    let made = things.create(thing("a", r#"{"zed":1}"#)).await.unwrap();
    assert_eq!(made["spec"], tree(r#"{"color":"red"}"#), "defaulted and pruned");
    assert_eq!(made["metadata"]["generation"].as_i64(), Some(1));
    assert_eq!(code(things.create(thing("b", r#"{"color":"purple"}"#)).await), 422);
    let key = NamespacedName::new("default", "a");
    let merge = Patch::Merge(tree(r#"{"spec":{"color":"blue"}}"#));
    let patched = things.patch(&key, &merge).await.unwrap();
    assert_eq!(patched["metadata"]["generation"].as_i64(), Some(2));
    let strategic = Patch::Strategic(tree("{}"));
    assert_eq!(code(things.patch(&key, &strategic).await), 415);
    let mut changed = patched.clone();
    changed["metadata"].remove("resourceVersion");
    assert_eq!(code(things.update(changed).await), 422, "it must say what it is based on");
}

#[tokio::test]
async fn a_whole_number_is_the_same_however_it_was_written() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    declare(&admin, THINGS).await;
    let things = things(&admin, "v1");
    // Sent as raw text, because our own client would write it as `1`.
    let body = r#"{"apiVersion":"kit.example.com/v1","kind":"Thing","metadata":{"name":"a"},
        "spec":{"ports":[{"name":"x","n":1.0}]}}"#;
    let path = "/apis/kit.example.com/v1/namespaces/default/things";
    admin.call(http::Method::POST, path, "application/json", body.into()).await.unwrap();
    let label = Patch::Merge(tree(r#"{"metadata":{"labels":{"a":"b"}}}"#));
    let labelled = things.patch(&NamespacedName::new("default", "a"), &label).await.unwrap();
    assert_eq!(labelled["metadata"]["generation"].as_i64(), Some(1));
}

#[tokio::test]
async fn managers_of_a_custom_object_share_a_list() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    declare(&admin, THINGS).await;
    let things = things(&admin, "v1");
    let key = NamespacedName::new("default", "a");
    let ports = |text: &str| thing("a", &format!(r#"{{"ports":{text}}}"#));
    let apply = |manager: &str, object: Value| Patch::Apply {
        object,
        manager: manager.into(),
        force: false,
    };
    things.patch(&key, &apply("one", ports(r#"[{"name":"x","n":1}]"#))).await.unwrap();
    let both = things.patch(&key, &apply("two", ports(r#"[{"name":"y","n":2}]"#))).await.unwrap();
    assert_eq!(both["spec"]["ports"].items().len(), 2);
    let other = apply("two", ports(r#"[{"name":"x","n":3}]"#));
    assert_eq!(code(things.patch(&key, &other).await), 409);
}

#[tokio::test]
async fn watches_end_when_the_definition_changes() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    declare(&admin, THINGS).await;
    let things = things(&admin, "v1");
    things.create(thing("a", "{}")).await.unwrap();
    let mut watch = things.watch(&Selectors::default(), WatchStart::List).await.unwrap();
    let first = watch.next().await.unwrap();
    assert!(matches!(first, Some(WatchEvent::Added(object)) if name(&object) == "a"));
    assert!(matches!(watch.next().await.unwrap(), Some(WatchEvent::Bookmark { .. })));
    let merge = Patch::Json(tree(
        r#"[{"op":"add","path":"/spec/versions/0/additionalPrinterColumns/0/description","value":"x"}]"#,
    ));
    let crds = of::<CustomResourceDefinition>(&admin);
    crds.patch(&NamespacedName::new("", "things.kit.example.com"), &merge).await.unwrap();
    let ended = timeout(Duration::from_secs(30), watch.next()).await.expect("it ends");
    assert_eq!(ended.unwrap(), None);
    assert!(things.get(&NamespacedName::new("default", "a")).await.is_ok());
}

#[tokio::test]
async fn a_definition_takes_its_objects_along() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    declare(&admin, THINGS).await;
    let things = things(&admin, "v1");
    let mut held = thing("held", "{}");
    held["metadata"]["finalizers"] = ["example.com/held"].into_iter().collect();
    things.create(held).await.unwrap();
    let (crds, key) =
        (of::<CustomResourceDefinition>(&admin), NamespacedName::new("", "things.kit.example.com"));
    crds.delete(&key, &DeleteParams::default()).await.unwrap();
    assert!(crds.get(&key).await.is_ok(), "an object is still there");
    let free = Patch::Merge(tree(r#"{"metadata":{"finalizers":null}}"#));
    for _ in 0..100 {
        if things.patch(&NamespacedName::new("default", "held"), &free).await.is_ok() {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    for _ in 0..200 {
        if crds.get(&key).await.is_err()
            && things.get(&NamespacedName::new("default", "held")).await.is_err()
        {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("the definition is still there");
}

#[tokio::test]
async fn custom_objects_outlive_a_restart() {
    let folder = tempfile::TempDir::new().unwrap();
    let cluster = TestCluster::start_on_disk(folder.path()).await;
    declare(&cluster.admin_client(), THINGS).await;
    things(&cluster.admin_client(), "v1").create(thing("a", "{}")).await.unwrap();
    cluster.stop().await;
    drop(cluster);
    let cluster = TestCluster::start_on_disk(folder.path()).await;
    let found = things(&cluster.admin_client(), "v1")
        .get(&NamespacedName::new("default", "a"))
        .await
        .unwrap();
    assert_eq!(found["spec"]["color"].as_str(), Some("red"));
}

#[tokio::test]
async fn each_version_is_checked_by_its_own_schema() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let mut crd = tree(THINGS);
    let mut first = crd["spec"]["versions"].items()[0].clone();
    first.remove("selectableFields");
    let mut second = first.clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    let spec = &mut second["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["required"] = ["color"].into_iter().collect();
    spec["properties"]["color"].remove("default");
    crd["spec"]["versions"] = [first, second].into_iter().collect();
    declare(&admin, &String::from_utf8(object::to_json(&crd)).unwrap()).await;
    let (old, new) = (things(&admin, "v1"), things(&admin, "v2"));
    let mut object = thing("a", "{}");
    object["apiVersion"] = "kit.example.com/v2".into();
    assert_eq!(code(new.create(object.clone()).await), 422, "this version has no default");
    object["spec"]["color"] = "blue".into();
    let made = new.create(object).await.unwrap();
    assert_eq!(made["apiVersion"].as_str(), Some("kit.example.com/v2"));
    let key = NamespacedName::new("default", "a");
    let read = old.get(&key).await.unwrap();
    assert_eq!(read["apiVersion"].as_str(), Some("kit.example.com/v1"));
    assert_eq!(read["spec"]["color"].as_str(), Some("blue"));
    let mut watch = new.watch(&Selectors::default(), WatchStart::List).await.unwrap();
    let Some(WatchEvent::Added(seen)) = watch.next().await.unwrap() else { panic!("an object") };
    assert_eq!(seen["apiVersion"].as_str(), Some("kit.example.com/v2"));
}

/// A CRD with two versions and a conversion webhook: the stored version has two fields where the
/// other has one.
async fn declare_hosts(client: &Client, backend: &Backend) {
    let url = backend.url("/convert");
    let bundle = STANDARD.encode(&backend.authority);
    let version = |name: &str, fields: [&str; 2], storage: bool| {
        let [a, b] = fields;
        format!(
            r#"{{"name":"{name}","served":true,"storage":{storage},
            "selectableFields":[{{"jsonPath":".spec.{a}"}},{{"jsonPath":".spec.{b}"}}],
            "schema":{{"openAPIV3Schema":{{"type":"object","properties":{{"spec":{{"type":"object",
            "properties":{{"{a}":{{"type":"string"}},"{b}":{{"type":"string"}}}}}}}}}}}}}}"#
        )
    };
    let (first, second) =
        (version("v1", ["hostPort", "x"], true), version("v2", ["host", "port"], false));
    let crd = format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{{"name":"things.kit.example.com"}},"spec":{{"group":"kit.example.com",
        "scope":"Namespaced","names":{{"plural":"things","kind":"Thing"}},
        "conversion":{{"strategy":"Webhook","webhook":{{"conversionReviewVersions":["v1"],
        "clientConfig":{{"url":"{url}","caBundle":"{bundle}"}}}}}},
        "versions":[{first},{second}]}}}}"#
    );
    declare(client, &crd).await;
}

/// Converts the objects of a ConversionReview: `hostPort` of v1 is `host` and `port` of v2.
fn split_hosts(review: &Value) -> Value {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default().to_owned();
    let convert = |object: &Value| {
        let mut made = object.clone();
        let spec = &mut made["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if wanted.ends_with("v2") {
            let both = text(&spec["hostPort"]);
            let (host, port) = both.split_once(':').unwrap_or((&both, ""));
            spec["host"] = host.into();
            spec["port"] = port.into();
            spec.remove("hostPort");
        } else {
            spec["hostPort"] = format!("{}:{}", text(&spec["host"]), text(&spec["port"])).into();
            spec.remove("host");
            spec.remove("port");
        }
        made["apiVersion"] = wanted.as_str().into();
        made
    };
    let mut answer = tree(
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview",
        "response":{"result":{"status":"Success"}}}"#,
    );
    answer["response"]["uid"] = request["uid"].clone();
    answer["response"]["convertedObjects"] =
        request["objects"].items().iter().map(convert).collect();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_are_selected_in_the_version_that_is_asked_for() {
    let backend = Backend::start(|_, review| split_hosts(&review)).await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    declare_hosts(&admin, &backend).await;
    let (first, second) = (things(&admin, "v1"), things(&admin, "v2"));
    let selected = |fields: &str| Selectors { fields: fields.into(), ..Selectors::default() };
    let host = selected("spec.host=h1");
    let mut watch = second.watch(&host, WatchStart::List).await.unwrap();
    for (name, host, port) in [("a", "h1", "80"), ("b", "h2", "80"), ("c", "h1", "81")] {
        let mut object = thing(name, &format!(r#"{{"host":"{host}","port":"{port}"}}"#));
        object["apiVersion"] = "kit.example.com/v2".into();
        second.create(object).await.unwrap();
    }
    let names = |list: &[Value]| list.iter().map(|o| name(o).to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&second.list_all(&host).await.unwrap().items), ["a", "c"]);
    let one = second.list(&host, &ListParams { limit: 1, ..ListParams::default() }).await.unwrap();
    assert_eq!(names(&one.items), ["a"]);
    let rest = ListParams { limit: 1, continue_: one.continue_, ..ListParams::default() };
    let rest = second.list(&host, &rest).await.unwrap();
    assert_eq!((names(&rest.items), &*rest.continue_), (vec!["c".to_owned()], ""));
    let both = second.list_all(&selected("spec.host=h1,spec.port=81")).await.unwrap();
    assert_eq!(names(&both.items), ["c"]);
    let joined = first.list_all(&selected("spec.hostPort=h2:80")).await.unwrap();
    assert_eq!(names(&joined.items), ["b"]);
    let moved = Patch::Merge(tree(r#"{"spec":{"host":"h2"}}"#));
    second.patch(&NamespacedName::new("default", "a"), &moved).await.unwrap();
    let mut late = Vec::new();
    while late.len() < 3 {
        let next = timeout(Duration::from_mins(1), watch.next()).await.expect("an event");
        match next.unwrap().expect("the watch goes on") {
            WatchEvent::Added(object) => late.push(format!("+{}", name(&object))),
            WatchEvent::Deleted(object) => late.push(format!("-{}", name(&object))),
            WatchEvent::Modified(object) => late.push(format!("~{}", name(&object))),
            WatchEvent::Bookmark { .. } => {}
        }
    }
    assert_eq!(late, ["+a", "+c", "-a"]);
    let mut again = second.watch(&selected("spec.host=h2"), WatchStart::List).await.unwrap();
    let Some(WatchEvent::Added(seen)) = again.next().await.unwrap() else { panic!("an object") };
    assert_eq!((name(&seen), seen["spec"]["host"].as_str()), ("a", Some("h2")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managers_may_speak_different_versions() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let backend = Backend::start(move |_, review| {
        count.fetch_add(1, Ordering::Relaxed);
        split_hosts(&review)
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    declare_hosts(&admin, &backend).await;
    let (first, second) = (things(&admin, "v1"), things(&admin, "v2"));
    let key = NamespacedName::new("default", "a");
    let apply = |manager: &str, version: &str, spec: &str, force| {
        let mut object = thing("a", spec);
        object["apiVersion"] = format!("kit.example.com/{version}").into();
        Patch::Apply { object, manager: manager.into(), force }
    };
    let held = |object: &Value| {
        let entries = object["metadata"]["managedFields"].items().iter();
        let line = |entry: &Value| {
            let text = |name: &str| entry.get(name).as_str().unwrap_or_default();
            let fields: Vec<_> = entry["fieldsV1"].with_raw_expanded()["f:spec"]
                .entries()
                .map(|(name, _)| name.to_owned())
                .collect();
            format!("{} {} {}", text("manager"), text("apiVersion"), fields.join(" "))
        };
        entries.map(line).collect::<Vec<_>>()
    };
    let joined = apply("one", "v1", r#"{"hostPort":"h:80","x":"1"}"#, false);
    first.patch(&key, &joined).await.unwrap();
    first.patch(&key, &Patch::Merge(tree(r#"{"spec":{"x":"2"}}"#))).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 0, "all speak of the stored version");

    let host = r#"{"host":"other"}"#;
    let refused = second.patch(&key, &apply("two", "v2", host, false)).await.unwrap_err();
    assert!(refused.to_string().contains(r#"conflict with "one": .spec.hostPort"#), "{refused}");
    let taken = second.patch(&key, &apply("two", "v2", host, true)).await.unwrap();
    assert_eq!(taken["spec"], tree(r#"{"host":"other","port":"80"}"#));
    assert!(held(&taken).contains(&"two kit.example.com/v2 f:host".to_owned()), "{taken:?}");
    assert!(!held(&taken).iter().any(|line| line.contains("hostPort")), "{taken:?}");

    // A change by one manager in its version takes the ownership from the other manager in its
    // version.
    let joined = Patch::Merge(tree(r#"{"spec":{"hostPort":"third:80"}}"#));
    let changed = first.patch(&key, &joined).await.unwrap();
    assert!(!held(&changed).iter().any(|line| line.starts_with("two")), "{changed:?}");

    // A manager that owned a field in one version and no longer applies it in another loses it.
    let joined = apply("three", "v1", r#"{"hostPort":"third:80"}"#, true);
    first.patch(&key, &joined).await.unwrap();
    let left = second.patch(&key, &apply("three", "v2", r#"{"port":"80"}"#, true)).await.unwrap();
    assert!(held(&left).contains(&"three kit.example.com/v2 f:port".to_owned()), "{left:?}");
}
