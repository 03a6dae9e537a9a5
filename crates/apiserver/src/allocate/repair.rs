//! IPAddress objects: each address of a Service is written down as one, and those that
//! nobody has any more are removed. They follow the Services, which are what counts.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use api::core::Service;
use object::{Object, Status, Value, View, from_json};
use server::{Call, Delete, Page, Registry, Selection, User};
use store::{Cursor, Topic};
use tokio::time::{sleep, timeout};
use tracing::warn;

const GROUP: &str = "networking.k8s.io";
const MANAGED: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
/// Looked at again, even if nothing has happened.
const AGAIN: Duration = Duration::from_mins(1);
const RETRY: Duration = Duration::from_secs(1);

/// Follows the Services as long as the registry is there.
pub(crate) async fn run(registry: Weak<Registry>) {
    loop {
        let Some(strong) = registry.upgrade() else { return };
        let followed = follow(&strong).await;
        drop(strong);
        let Ok(mut cursor) = followed else {
            warn!("addresses cannot be written down; trying again");
            sleep(RETRY).await;
            continue;
        };
        let _ = timeout(AGAIN, cursor.next()).await;
    }
}

/// Brings the objects in line, and gives a cursor on what happens next.
async fn follow(registry: &Arc<Registry>) -> Result<Cursor<Value>, Status> {
    let services = registry.kind("", "services")?;
    let list = registry.list(&services, &Selection::default(), &Page::default())?;
    let wanted = wanted(list.items.iter().map(|version| Service::view(&version.object)));
    let kind = registry.kind(GROUP, "ipaddresses")?;
    let have = registry.list(&kind, &Selection::default(), &Page::default())?;
    let own = User::new("system:apiserver", &["system:masters"]);
    let (mut call, delete) = (Call::new(own, "kube-apiserver"), Delete::default());
    for version in &have.items {
        let meta = Object::view(&version.object).metadata();
        let parent = version.object.get("spec").get("parentRef");
        let text = |name: &str| parent.get(name).as_str().unwrap_or_default();
        let ours = meta.labels().get(MANAGED.0) == Some(MANAGED.1);
        let owner = (text("namespace").to_owned(), text("name").to_owned());
        if ours && wanted.get(meta.name()) != Some(&owner) {
            let gone = registry.delete(&mut call, &kind, ("", meta.name()), &delete).await;
            ignore(gone.map(drop), 404)?;
        }
    }
    for (ip, (namespace, name)) in &wanted {
        if registry.get(&kind, "", ip).is_err() {
            let made = registry.create(&mut call, &kind, "", address(ip, namespace, name)).await;
            ignore(made.map(drop), 409)?;
        }
    }
    Cursor::open(services.objects()?, Topic::All, list.revision)
        .map_err(|error| Status::unavailable(error.to_string()))
}

/// Somebody else was faster.
fn ignore(done: Result<(), Status>, code: i32) -> Result<(), Status> {
    match done {
        Err(status) if status.code() == code => Ok(()),
        done => done,
    }
}

/// The owner of each address.
fn wanted<'a>(services: impl Iterator<Item = &'a Service>) -> BTreeMap<String, (String, String)> {
    let mut all = BTreeMap::new();
    for service in services {
        let meta = service.metadata();
        for ip in service.spec().cluster_ips().iter() {
            if ip.parse::<std::net::IpAddr>().is_ok() {
                all.insert(ip.to_owned(), (meta.namespace().to_owned(), meta.name().to_owned()));
            }
        }
    }
    all
}

fn address(ip: &str, namespace: &str, name: &str) -> Value {
    let family = if ip.contains(':') { "IPv6" } else { "IPv4" };
    let (label, value) = MANAGED;
    let text = format!(
        r#"{{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{{"name":"{ip}",
        "labels":{{"ipaddress.kubernetes.io/ip-family":"{family}","{label}":"{value}"}}}},
        "spec":{{"parentRef":{{"resource":"services","namespace":"{namespace}","name":"{name}"}}}}}}"#
    );
    from_json(text.as_bytes()).expect("names and addresses need no escapes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_an_owner() {
        let tree = from_json(
            br#"{"metadata":{"namespace":"d","name":"s"},"spec":{"clusterIPs":["10.0.0.1","None"]}}"#,
        )
        .unwrap();
        let all = wanted([Service::view(&tree)].into_iter());
        assert_eq!(all.len(), 1);
        assert_eq!(all["10.0.0.1"], ("d".to_owned(), "s".to_owned()));
        assert_eq!(address("::1", "d", "s")["metadata"]["name"].as_str(), Some("::1"));
    }
}
