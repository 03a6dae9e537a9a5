//! Create, get, update, patch and apply, which work the same for every kind.

use api::{
    admissionregistration::ValidatingWebhookConfiguration,
    apps::{DaemonSet, Deployment},
    batch::Job,
    core::{Binding, ConfigMap, Namespace, Pod},
    resource::ResourceSlice,
};
use bytes::Bytes;
use client::Patch;
use http::{HeaderMap, HeaderValue, Method, header::ACCEPT};
use object::{NamespacedName, WriteCause, from_json};
use testkit::TestCluster;
use tokio::task::JoinSet;

use crate::{code, config_map, default_account, labelled, message, name, of, pod, revision, tree};

const DEPLOYMENT: &str = r#"{"metadata":{"name":"web"},"spec":{"replicas":2,
    "selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
    "spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;

#[tokio::test]
async fn objects_of_several_kinds_come_back_defaulted() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let made = of::<Deployment>(&admin).create(tree(DEPLOYMENT)).await.unwrap();
    assert_eq!(made["metadata"]["generation"].as_i64(), Some(1));
    assert_eq!(made["spec"]["strategy"]["type"].as_str(), Some("RollingUpdate"));
    default_account(&admin).await;
    let made = of::<Pod>(&admin).create(pod("p", "")).await.unwrap();
    assert_eq!(made["status"]["phase"].as_str(), Some("Pending"));
    let read = of::<Pod>(&admin).get(&NamespacedName::new("default", "p")).await.unwrap();
    assert_eq!(read, made);
    let space = of::<Namespace>(&admin).create(tree(r#"{"metadata":{"name":"n"}}"#)).await.unwrap();
    assert_eq!(space["spec"]["finalizers"].items()[0].as_str(), Some("kubernetes"));
    assert_eq!(code(of::<Pod>(&admin).get(&NamespacedName::new("default", "q")).await), 404);
}

#[tokio::test]
async fn only_the_newest_version_can_be_replaced() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    let first = maps.create(config_map("a")).await.unwrap();
    let mut changed = first.clone();
    changed["data"]["k"] = "new".into();
    let second = maps.update(changed.clone()).await.unwrap();
    assert!(revision(&second) > revision(&first));
    assert_eq!(code(maps.update(changed.clone()).await), 409, "it names the first version");
    let same = maps.update(second.clone()).await.unwrap();
    assert_eq!(revision(&same), revision(&second), "a no-op writes nothing");
    changed["metadata"].remove("resourceVersion");
    changed["data"]["k"] = "newest".into();
    assert!(maps.update(changed).await.is_ok(), "it names no version");
    let told = message(maps.create(config_map("a")).await);
    assert!(told.ends_with("configmaps \"a\" already exists"), "{told}");
    let mut generates = config_map("a");
    generates["metadata"]["generateName"] = "a-".into();
    let told = message(maps.create(generates).await);
    assert!(told.ends_with("not able to generate a unique name for the object"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scale_is_patched_while_others_write() {
    let cluster = TestCluster::start().await;
    let sets = of::<Deployment>(&cluster.admin_client());
    sets.create(tree(DEPLOYMENT)).await.unwrap();
    let key = NamespacedName::new("default", "web");
    let (others, at, mut tasks) = (sets.clone(), key.clone(), JoinSet::new());
    tasks.spawn(async move {
        for turn in 0.. {
            let note = format!(r#"{{"metadata":{{"annotations":{{"turn":"{turn}"}}}}}}"#);
            let _ = others.patch(&at, &Patch::Merge(tree(&note))).await;
        }
    });
    for replicas in 1..100 {
        let wanted = tree(&format!(r#"{{"spec":{{"replicas":{replicas}}}}}"#));
        let scale = sets.patch_subresource(&key, "scale", &Patch::Merge(wanted)).await.unwrap();
        assert_eq!(scale["spec"]["replicas"].as_i64(), Some(replicas));
    }
}

#[tokio::test]
async fn a_scale_has_rows_and_a_review_has_none() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    of::<Deployment>(&admin).create(tree(DEPLOYMENT)).await.unwrap();
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(table))]);
    let path = "/apis/apps/v1/namespaces/default/deployments/web/scale";
    let scale = admin.request(Method::GET, path, headers.clone(), Bytes::new()).await.unwrap();
    let scale = from_json(&scale.bytes().await.unwrap()).unwrap();
    let columns = scale["columnDefinitions"].items().iter();
    let names: Vec<_> = columns.filter_map(|column| column["name"].as_str()).collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(scale["rows"].items()[0]["cells"].items()[1].as_i64(), Some(2));
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = admin.request(Method::POST, path, headers, Bytes::from_static(b"{}")).await;
    assert_eq!(review.unwrap().status, 406);
}

#[tokio::test]
async fn patches_of_every_form_change_what_they_name() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let (key, web) = (NamespacedName::new("default", "web"), of::<Deployment>(&admin));
    web.create(tree(DEPLOYMENT)).await.unwrap();
    let json = Patch::Json(tree(r#"[{"op":"replace","path":"/spec/replicas","value":3}]"#));
    assert_eq!(web.patch(&key, &json).await.unwrap()["spec"]["replicas"].as_i64(), Some(3));
    let merge = Patch::Merge(tree(r#"{"metadata":{"labels":{"a":"b"}}}"#));
    assert_eq!(web.patch(&key, &merge).await.unwrap()["metadata"]["generation"].as_i64(), Some(2));
    let strategic = Patch::Strategic(tree(
        r#"{"spec":{"template":{"spec":{"containers":[{"name":"d","image":"j"}]}}}}"#,
    ));
    let both = web.patch(&key, &strategic).await.unwrap();
    assert_eq!(both["spec"]["template"]["spec"]["containers"].items().len(), 2);
    let status = Patch::Merge(tree(r#"{"status":{"replicas":3},"spec":{"replicas":9}}"#));
    let shown = web.patch_status(&key, &status).await.unwrap();
    assert_eq!(shown["spec"]["replicas"].as_i64(), Some(3), "a status is all that changes");
    assert_eq!(shown["status"]["replicas"].as_i64(), Some(3));
}

#[tokio::test]
async fn a_patch_that_fits_no_kind_is_told_as_it_was_written() {
    let cluster = TestCluster::start().await;
    let (key, web) =
        (NamespacedName::new("default", "web"), of::<Deployment>(&cluster.admin_client()));
    web.create(tree(DEPLOYMENT)).await.unwrap();
    let refused =
        |done: Result<object::Value, client::Error>| done.expect_err("no number").to_string();
    let patch = r#"[{"op":"add","path":"/status","value":{"replicas":"x","conditions":[]}}]"#;
    let told = refused(web.patch(&key, &Patch::Json(tree(patch))).await);
    assert!(told.contains(r#"containers\":[{\"name\":\"c\",\"image\":\"i\""#), "{told}");
    let patch = r#"{"status":{"replicas":"x"},"spec":{"paused":true}}"#;
    let told = refused(web.patch(&key, &Patch::Merge(tree(patch))).await);
    assert!(told.contains(r#"\"spec\":{\"paused\":true,\"progressDeadlineSeconds\""#), "{told}");
    let patch = r#"{"spec":{"$retainKeys":["paused"],"paused":"x"}}"#;
    let told = refused(web.patch(&key, &Patch::Strategic(tree(patch))).await);
    assert!(told.contains("map[spec:map[paused:x]]"), "{told}");
}

#[tokio::test]
async fn who_writes_holds_what_it_sent_and_not_what_was_made_of_it() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let (key, spaces) = (NamespacedName::new("", "n"), of::<Namespace>(&admin));
    spaces
        .create(tree(r#"{"metadata":{"name":"n"},"spec":{"finalizers":["a/b"]}}"#))
        .await
        .unwrap();
    let patch = Patch::Merge(tree(r#"{"spec":null,"metadata":{"labels":{"a":"b"}}}"#));
    let made = spaces.patch(&key, &patch).await.unwrap();
    let books =
        String::from_utf8_lossy(&object::to_json(&made["metadata"]["managedFields"])).into_owned();
    assert!(!books.contains("f:finalizers") && books.contains("f:a"), "{books}");
    assert_eq!(made["spec"]["finalizers"].items().len(), 2, "they are there all the same");
}

#[tokio::test]
async fn two_appliers_meet_in_a_conflict() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    let apply = |value: &str, manager: &str, force: bool| Patch::Apply {
        object: tree(&format!(r#"{{"metadata":{{"name":"a"}},"data":{{"k":"{value}"}}}}"#)),
        manager: manager.to_owned(),
        force,
    };
    let key = NamespacedName::new("default", "a");
    maps.patch(&key, &apply("1", "alice", false)).await.unwrap();
    let refused = maps.patch(&key, &apply("2", "bob", false)).await;
    assert!(refused.as_ref().is_err_and(client::Error::is_conflict), "{refused:?}");
    let forced = maps.patch(&key, &apply("2", "bob", true)).await.unwrap();
    assert_eq!(forced["data"]["k"].as_str(), Some("2"));
}

#[tokio::test]
async fn a_write_is_asked_why() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let cause = WriteCause {
        reason: "too few pods".into(),
        kind: "ReplicaSet".into(),
        key: NamespacedName::new("default", "web"),
        uid: "u".into(),
        revision: 7,
    };
    let made = of::<ConfigMap>(&admin).with_cause(&cause).create(labelled("a", "b")).await.unwrap();
    let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
    let path = format!("/tiphys/why?uid={uid}");
    let told = admin.call(http::Method::GET, &path, "", bytes::Bytes::new()).await.unwrap();
    let [note] = told["items"].items() else { panic!("one write, one note: {told:?}") };
    assert_eq!(note["because"]["rule"].as_str(), Some("too few pods"));
    assert_eq!(note["user"].as_str(), Some("admin"));
    assert_eq!(
        (name(&made), note["revision"].as_i64()),
        ("a", Some(revision(&made).cast_signed()))
    );
}

#[tokio::test]
async fn a_binding_names_a_pod_and_a_node() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    of::<Pod>(&admin).create(pod("p", "")).await.unwrap();
    let bind = async |metadata: &str, node: &str| {
        let text = format!(r#"{{"metadata":{metadata},"target":{{"name":"{node}"}}}}"#);
        of::<Binding>(&admin).create(tree(&text)).await
    };
    for (metadata, node, refused) in [
        ("{}", "n", 400),
        (r#"{"name":".."}"#, "n", 400),
        (r#"{"name":"a%b"}"#, "n", 400),
        (r#"{"name":"p"}"#, "A", 500),
        (r#"{"name":"p"}"#, "", 500),
        (r#"{"name":"q"}"#, "n", 404),
    ] {
        assert_eq!(code(bind(metadata, node).await), refused, "{metadata} {node}");
    }
    bind(r#"{"name":"p"}"#, "n").await.unwrap();
    let bound = of::<Pod>(&admin).get(&NamespacedName::new("default", "p")).await.unwrap();
    assert_eq!(bound["spec"]["nodeName"].as_str(), Some("n"));
    assert_eq!(code(bind(r#"{"name":"p"}"#, "m").await), 409, "once");
}

#[tokio::test]
async fn bytes_that_were_given_empty_are_not_shown_and_yet_not_nothing() {
    let cluster = TestCluster::start().await;
    let hooks = of::<ValidatingWebhookConfiguration>(&cluster.admin_client());
    let hook = tree(
        r#"{"metadata":{"name":"h"},"webhooks":[{"name":"a.b.c","admissionReviewVersions":["v1"],
        "sideEffects":"None","failurePolicy":"Ignore",
        "clientConfig":{"url":"https://127.0.0.1:1/","caBundle":""}}]}"#,
    );
    let made = hooks.create(hook.clone()).await.unwrap();
    let bundle = |object: &object::Value| {
        object["webhooks"].items()[0].get("clientConfig").get("caBundle").clone()
    };
    let count = |object: &object::Value| object["metadata"]["generation"].as_i64();
    assert_eq!((count(&made), bundle(&made).is_null()), (Some(1), true));
    let mut same = made.clone();
    same["metadata"]["labels"] = tree(r#"{"a":"b"}"#);
    same["webhooks"] = hook["webhooks"].clone();
    let same = hooks.update(same).await.unwrap();
    assert_eq!((count(&same), bundle(&same).is_null()), (Some(1), true));
    let (key, labels) =
        (NamespacedName::new("", "h"), tree(r#"{"metadata":{"labels":{"a":"c"}}}"#));
    let patched = hooks.patch(&key, &Patch::Merge(labels)).await.unwrap();
    assert_eq!(count(&patched), Some(2), "what was not shown is gone");
    let again = tree(r#"{"metadata":{"labels":{"a":"d"}}}"#);
    assert_eq!(count(&hooks.patch(&key, &Patch::Merge(again)).await.unwrap()), Some(2));
}

#[tokio::test]
async fn what_is_given_empty_is_told_as_given() {
    let cluster = TestCluster::start().await;
    let jobs = of::<Job>(&cluster.admin_client());
    let job = r#"{"metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never",
        "containers":[{"name":"c","image":"i"}]}}}}"#;
    let made = jobs.create(tree(job)).await.unwrap();
    let mut changed = made.clone();
    changed["spec"]["template"]["spec"]["volumes"] = tree("[]");
    assert!(jobs.update(changed.clone()).await.is_ok(), "it is no change");
    changed["spec"]["template"]["spec"]["hostPID"] = true.into();
    let told = message(jobs.update(changed).await);
    assert!(told.contains(r#""Spec":{"Volumes":[],"InitContainers":null"#), "{told}");
}

#[tokio::test]
async fn what_only_the_inner_form_has_must_be_readable() {
    let cluster = TestCluster::start().await;
    let sets = of::<DaemonSet>(&cluster.admin_client());
    let set = |generation: &str| {
        let mut set = tree(DEPLOYMENT);
        set["spec"].remove("replicas");
        let counted = "deprecated.daemonset.template.generation";
        set["metadata"]["annotations"][counted] = generation.into();
        set
    };
    let refused = sets.create(set("x")).await.unwrap_err().to_string();
    assert!(refused.contains(r#"strconv.ParseInt: parsing "x": invalid syntax"#), "{refused}");
    let made = sets.create(set("5")).await.unwrap();
    let kept = made["metadata"]["annotations"].entries().next();
    assert_eq!(kept.and_then(|(_, kept)| kept.as_str()), Some("5"));
}

#[tokio::test]
async fn who_applies_says_the_name_again() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    let key = NamespacedName::new("default", "a");
    let apply = |meta: &str| Patch::Apply {
        object: tree(&format!(r#"{{"metadata":{meta},"data":{{"k":"v"}}}}"#)),
        manager: "m".to_owned(),
        force: false,
    };
    let told = message(maps.patch(&key, &apply("{}")).await);
    assert!(told.contains("(a based on URL) was undeterminable"), "{told}");
    let told = message(maps.patch(&key, &apply(r#"{"name":"b"}"#)).await);
    assert!(told.contains("object (b) does not match the name on the URL (a)"), "{told}");
    maps.patch(&key, &apply(r#"{"name":"a"}"#)).await.unwrap();
    assert!(maps.patch(&key, &apply("{}")).await.is_ok(), "what is there has a name");
}

#[tokio::test]
async fn metadata_is_kept_as_far_as_clients_have_a_say() {
    let cluster = TestCluster::start().await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    let made = tree(
        r#"{"metadata":{"name":"a","generateName":"g","selfLink":"/x","deletionGracePeriodSeconds":5,
            "deletionTimestamp":"2024-01-02T03:04:05Z"}}"#,
    );
    let made = maps.create(made).await.unwrap();
    let held = &made["metadata"]["managedFields"].items()[0]["fieldsV1"]["f:metadata"];
    assert_eq!(held.with_raw_expanded(), tree(r#"{"f:generateName":{}}"#));
    let mut linked = made.clone();
    linked["metadata"]["selfLink"] = "/x".into();
    let same = maps.update(linked).await.unwrap();
    assert_eq!(same, made, "a link is not kept");
    let mut bare = made.clone();
    bare["metadata"].remove("generateName");
    let bare = maps.update(bare).await.unwrap();
    assert!(bare["metadata"]["generateName"].is_null());
}

#[tokio::test]
async fn a_name_that_the_server_makes_is_a_label_too() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let space = tree(r#"{"metadata":{"generateName":"n-"}}"#);
    let space = of::<Namespace>(&admin).create(space).await.unwrap();
    let label = space["metadata"]["labels"]["kubernetes.io/metadata.name"].as_str();
    assert_eq!(label, Some(name(&space)));
    let job = r#"{"metadata":{"generateName":"j-"},"spec":{"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}"#;
    let job = of::<Job>(&admin).create(tree(job)).await.unwrap();
    assert_eq!(
        job["metadata"]["labels"],
        tree(r#"{"a":"b"}"#),
        "those of its pods are not its own"
    );
    assert_eq!(
        job["spec"]["template"]["metadata"]["labels"]["job-name"].as_str(),
        Some(name(&job))
    );
}

#[tokio::test]
async fn fields_of_features_that_are_off_are_no_change() {
    let cluster = TestCluster::start().await;
    let sets = of::<Deployment>(&cluster.admin_client());
    let mut made = sets.create(tree(DEPLOYMENT)).await.unwrap();
    made["spec"]["template"]["spec"]["evictionResponders"] = tree(r#"[{"name":"x","priority":1}]"#);
    let same = sets.update(made).await.unwrap();
    assert_eq!(same["metadata"]["generation"].as_i64(), Some(1));
}

#[tokio::test]
async fn an_empty_list_is_given_all_the_same() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let mut made = pod("p", "");
    made["spec"]["resources"] = tree(r#"{"claims":[],"limits":{"cpu":"1"}}"#);
    let told = message(of::<Pod>(&admin).create(made).await);
    assert!(told.contains("claims may not be set for Resources at pod-level"), "{told}");
    let slice = r#"{"metadata":{"name":"s"},"spec":{"driver":"d.example.com","allNodes":true,
        "pool":{"name":"p","resourceSliceCount":1},"sharedCounters":[],"devices":[{"name":"d"}]}}"#;
    let told = message(of::<ResourceSlice>(&admin).create(tree(slice)).await);
    assert!(told.contains("only one of `sharedCounters` or `devices` is allowed"), "{told}");
}
