//! The `kube-api-access` volume, in which a pod finds the token of its service account.

use std::sync::LazyLock;

use object::{Value, from_json};

const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const NAME: &str = "kube-api-access-";

/// The volume mount of a container; the name of the volume is filled in.
static PLACE: LazyLock<Value> =
    LazyLock::new(|| tree(&format!(r#"{{"name":"","readOnly":true,"mountPath":"{MOUNT}"}}"#)));

/// The projected volume; its name is filled in.
static VOLUME: LazyLock<Value> = LazyLock::new(|| {
    tree(
        r#"{"name":"","projected":{"defaultMode":420,"sources":[
        {"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
        {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},
        {"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1",
        "fieldPath":"metadata.namespace"}}]}}]}}"#,
    )
});

/// Adds the token volume, unless the pod has one of such a name, and mounts it in every container
/// that mounts nothing at that path.
pub(super) fn mount(pod: &mut Value) {
    let needs = |container: &Value| {
        !container
            .get("volumeMounts")
            .items()
            .iter()
            .any(|m| m.get("mountPath").as_str() == Some(MOUNT))
    };
    let lists = ["initContainers", "containers"];
    let spec = &mut pod["spec"];
    let any = lists.iter().any(|list| spec.get(list).items().iter().any(needs));
    if !any {
        return;
    }
    let names = spec.get("volumes").items().iter().filter_map(|own| own.get("name").as_str());
    let there = names.into_iter().find(|name| name.starts_with(NAME)).map(str::to_owned);
    let name = there.clone().unwrap_or_else(|| format!("{NAME}{}", suffix()));
    let named = |tree: &Value| {
        let mut tree = tree.clone();
        tree["name"] = name.as_str().into();
        tree
    };
    for list in lists {
        let containers = spec.get(list).items().iter().cloned().map(|mut container| {
            if needs(&container) {
                push(&mut container["volumeMounts"], named(&PLACE));
            }
            container
        });
        let containers: Value = containers.collect();
        if !containers.items().is_empty() {
            spec[list] = containers;
        }
    }
    if there.is_none() {
        push(&mut spec["volumes"], named(&VOLUME));
    }
}

fn push(slot: &mut Value, item: Value) {
    let mut items: Vec<Value> = slot.items().to_vec();
    items.push(item);
    *slot = items.into_iter().collect();
}

fn tree(text: &str) -> Value {
    from_json(text.as_bytes()).expect("written here")
}

/// A random suffix of five characters, like that of generated names.
fn suffix() -> String {
    use ring::rand::{SecureRandom, SystemRandom};
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut bytes = [0; 5];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    bytes.map(|n| char::from(ALPHABET[usize::from(n) % ALPHABET.len()])).iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_of_the_pods_own_is_taken() {
        let volumes = |spec: &str| {
            let mut pod = tree(&format!(r#"{{"spec":{{"containers":[{{"name":"c"}}],{spec}}}}}"#));
            mount(&mut pod);
            let container = &pod.get("spec").get("containers").items()[0];
            let mounted = container.get("volumeMounts").items()[0].get("name").clone();
            (pod.get("spec").get("volumes").items().len(), mounted.as_str().map(str::to_owned))
        };
        let own = r#""volumes":[{"name":"kube-api-access-mine","emptyDir":{}}]"#;
        assert_eq!(volumes(own), (1, Some("kube-api-access-mine".to_owned())));
        let (count, name) = volumes(r#""volumes":[{"name":"a","emptyDir":{}}]"#);
        assert_eq!(count, 2);
        assert_eq!(name.unwrap().len(), NAME.len() + 5);
    }
}
