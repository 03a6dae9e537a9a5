//! ServiceAccount: every pod runs as an account of its namespace, and finds the
//! account's token where programs look for it.

use std::sync::LazyLock;

use api::core::{Pod, ServiceAccount as Account};
use object::{Status, Value, View, from_json};
use ref_cast::RefCast;
use server::{Admission, Admit, Admitting, Operation};

use super::unaddressable;

const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Where a container finds the token; the name of the volume is added.
static PLACE: LazyLock<Value> =
    LazyLock::new(|| tree(&format!(r#"{{"name":"","readOnly":true,"mountPath":"{MOUNT}"}}"#)));

/// What is there; its name is added.
static VOLUME: LazyLock<Value> = LazyLock::new(|| {
    tree(
        r#"{"name":"","projected":{"defaultMode":420,"sources":[
        {"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
        {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},
        {"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1",
        "fieldPath":"metadata.namespace"}}]}}]}}"#,
    )
});

#[derive(Debug)]
pub(super) struct ServiceAccount;

impl Admit for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn mutate<'a>(&'a self, admission: &'a mut Admission<'_>) -> Admitting<'a> {
        let done = mutate(admission);
        Box::pin(async move { done })
    }
}

fn mutate(admission: &mut Admission) -> Result<(), Status> {
    if !admission.is("", "pods") || admission.operation != Operation::Create {
        return Ok(());
    }
    let pod = Pod::view(&admission.object);
    if pod.metadata().annotations().get(MIRROR).is_some() {
        return mirror(admission);
    }
    let name = match pod.spec().service_account_name() {
        "" => "default".to_owned(),
        name => name.to_owned(),
    };
    let kind = admission.registry.kind("", "serviceaccounts")?;
    let account = admission.registry.get(&kind, &admission.namespace, &name).map_err(|_| {
        let why = unaddressable(&name);
        let why = why.unwrap_or_else(|| format!("serviceaccount {name:?} not found"));
        let namespace = &admission.namespace;
        admission.forbid(&format!("error looking up service account {namespace}/{name}: {why}"))
    })?;
    let account = Account::view(&account.object);
    let wanted = pod.spec().automount_service_account_token();
    let mounts = wanted.or(account.automount_service_account_token()).unwrap_or(true);
    let pulls = account.image_pull_secrets().clone();
    let pod = Pod::ref_cast_mut(&mut admission.object);
    let spec = pod.spec_mut();
    spec.set_service_account_name(name.as_str());
    spec.set_service_account(name.as_str());
    if spec.image_pull_secrets().is_empty() && !pulls.is_empty() {
        spec.set_image_pull_secrets(pulls);
    }
    if mounts {
        mount(&mut admission.object);
    }
    Ok(())
}

/// A static pod's image in the API has no rights.
fn mirror(admission: &Admission) -> Result<(), Status> {
    let pod = Pod::view(&admission.object);
    if !pod.spec().service_account_name().is_empty() {
        return Err(admission.forbid("a mirror pod may not reference service accounts"));
    }
    let secrets =
        pod.spec().volumes().iter().any(|volume| volume.volume_source().secret().is_some());
    if secrets {
        return Err(admission.forbid("a mirror pod may not reference secrets"));
    }
    Ok(())
}

/// Adds the token's volume, and mounts it where a container has nothing there.
fn mount(pod: &mut Value) {
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
    let name = format!("kube-api-access-{}", suffix());
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
    push(&mut spec["volumes"], named(&VOLUME));
}

fn push(slot: &mut Value, item: Value) {
    let mut items: Vec<Value> = slot.items().to_vec();
    items.push(item);
    *slot = items.into_iter().collect();
}

fn tree(text: &str) -> Value {
    from_json(text.as_bytes()).expect("written here")
}

/// Five letters, as generated names have.
fn suffix() -> String {
    use ring::rand::{SecureRandom, SystemRandom};
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut bytes = [0; 5];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    bytes.map(|n| char::from(ALPHABET[usize::from(n) % ALPHABET.len()])).iter().collect()
}
