use object::yaml::from_yaml;

use super::{
    files::{common_user, project_keys},
    *,
};
use crate::objects::Data;

fn pod(volumes: &str) -> Pod {
    Pod::from(from_yaml(&format!("spec: {{volumes: [{volumes}]}}")).expect("a pod"))
}

#[test]
fn what_the_kubelet_writes_is_read_only() {
    for (source, expected) in [
        ("configMap: {name: x}", true),
        ("secret: {secretName: x}", true),
        ("projected: {sources: []}", true),
        ("downwardAPI: {items: []}", true),
        ("persistentVolumeClaim: {claimName: x, readOnly: true}", true),
        ("persistentVolumeClaim: {claimName: x}", false),
        ("emptyDir: {}", false),
        ("hostPath: {path: /x}", false),
    ] {
        let pod = pod(&format!("{{name: other, emptyDir: {{}}}}, {{name: v, {source}}}"));
        assert_eq!(is_read_only(&pod, "v"), expected, "{source}");
        assert!(!is_read_only(&pod, "other"));
    }
}

#[test]
fn sub_paths_stay_in_the_volume_also_when_expanded() {
    let env = [("A", "../x"), ("B", "/etc"), ("C", "a/b"), ("D", "a;$(id)"), ("E", "")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let sub = |text: &str| {
        let mount = VolumeMount::from(from_yaml(text).expect("a mount"));
        sub_path(&mount, &env)
    };
    for bad in ["$(A)", "$(B)", "x/$(A)", "$(C)/..", "$(missing)", "$(D)"] {
        assert!(sub(&format!("subPathExpr: {bad}")).is_err(), "{bad}");
    }
    for bad in ["..", "../x", "/x", "a/../../x"] {
        assert!(sub(&format!("subPath: {bad}")).is_err(), "{bad}");
    }
    assert_eq!(sub("subPathExpr: x/$(C)").unwrap().unwrap(), "x/a/b");
    assert_eq!(sub("subPath: ..a/b..").unwrap().unwrap(), "..a/b..");
    assert_eq!(sub("subPathExpr: $(E)").unwrap(), None);
    assert_eq!(sub("name: x").unwrap(), None);
}

#[test]
fn a_secret_file_belongs_to_the_user_that_all_containers_run_as() {
    let user =
        |spec: &str| common_user(&Pod::from(from_yaml(&format!("spec: {{{spec}}}")).unwrap()));
    let of_pod = "securityContext: {runAsUser: 7}";
    let with = |id: &str| format!("securityContext: {{runAsUser: {id}}}");
    assert_eq!(user("containers: [{name: a}]"), None);
    assert_eq!(user(&format!("{of_pod}, containers: [{{name: a}}, {{name: b}}]")), Some(7));
    let one = |id: &str, rest: &str| format!("containers: [{{name: a, {}}}], {rest}", with(id));
    assert_eq!(user(&one("8", of_pod)), Some(8));
    assert_eq!(user(&one("8", "initContainers: [{name: b}]")), None);
    let init = format!("{of_pod}, initContainers: [{{name: b}}]");
    assert_eq!(user(&one("8", &init)), None, "they do not agree");
    assert_eq!(user(&one("7", &init)), Some(7));
    let debug = format!("{of_pod}, ephemeralContainers: [{{name: e, {}}}]", with("9"));
    assert_eq!(user(&one("7", &debug)), None);
}

/// The same large object, referenced many times.
#[test]
fn the_files_of_a_pod_are_bounded() {
    let files = PodFiles::new(0);
    let budget = files.budget("u", |_| true);
    let data = budget.remember("secret", "s", Data::from([("k".into(), vec![7; 1 << 20])]));
    assert!(budget.known("configmap", "s").is_none() && budget.known("secret", "t").is_none());
    let text = "items: [{key: k, path: a}, {key: k, path: b}]";
    let source = api::core::SecretVolumeSource::from(from_yaml(text).expect("a source"));
    let part = KeySelection { items: source.items(), mode: 0o644, user: None, optional: None };
    let mut refused = None;
    for round in 0..100 {
        match project_keys(Some(&data), ("secret", "s"), &part, &budget) {
            Ok(files) => assert_eq!(files.len(), 2, "one key may be two files"),
            Err(error) => refused = refused.or(Some((round, error))),
        }
    }
    let (round, error) = refused.expect("there is a limit");
    assert_eq!(round, 64);
    assert!(error.contains("larger than 134217728 bytes"), "{error}");
}

/// Many pods, each with the maximum size.
#[test]
fn the_files_of_all_pods_are_bounded() {
    let files = PodFiles::new(0);
    let data = Data::from([("k".into(), vec![7; 100 << 20])]);
    let source = api::core::SecretVolumeSource::from(from_yaml("{}").expect("a source"));
    let part = KeySelection { items: source.items(), mode: 0o644, user: None, optional: None };
    let place = |uid: &str, there: &[&str]| {
        let budget = files.budget(uid, |uid| there.contains(&uid));
        project_keys(Some(&data), ("secret", "s"), &part, &budget).map(|_| budget.finish())
    };
    place("a", &["a"]).unwrap();
    place("b", &["a", "b"]).unwrap();
    place("a", &["a", "b"]).expect("again and again, as its volumes are looked at");
    let refused = place("c", &["a", "b", "c"]).unwrap_err();
    assert!(refused.contains("of all pods of the node"), "{refused}");
    place("c", &["b", "c"]).expect("one has gone");
}
