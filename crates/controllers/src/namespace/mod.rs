//! Namespace controller: deletes all objects in a terminating namespace, then removes the
//! `kubernetes` finalizer from it.

mod remaining_content;

use std::{sync::Arc, time::Duration};

use api::core::Namespace;
use client::{
    Api, ApiResource, Client, DeleteParams, DiscoveredResource, Error, Propagation, Selectors,
};
use object::{Clock, List, NamespacedName, Time, Value};
use runtime::{CachedApi, Context, Controller, DynamicObject, Reconcile, Requeue};
use schema::Kind;

use self::remaining_content::{RemainingContent, conditions};
use crate::Config;

const FINALIZER: &str = "kubernetes";

pub(crate) fn start(cx: &Context, config: &Config) {
    let namespaces = Namespaces { namespaces: cx.cached_api(), clock: config.clock.clone() };
    Controller::new("namespace", cx, namespaces).start();
}

/// Reconciler of terminating namespaces.
#[derive(Debug)]
struct Namespaces {
    namespaces: CachedApi<Namespace>,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Namespaces {
    type Kind = Namespace;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        namespace: Option<Namespace>,
    ) -> Result<Requeue, Error> {
        let Some(namespace) = namespace.filter(is_ours) else { return Ok(Requeue::OnChange) };
        let namespaces =
            self.namespaces.with_cause(&namespace.write_cause("the namespace is deleted"));
        let client = namespaces.api().client();
        let mut left = RemainingContent::default();
        match client.discover().await {
            Ok(found) => {
                let now = self.clock.now();
                delete_all_content(client, in_order(&found.found), &namespace, now, &mut left)
                    .await;
                // API groups whose discovery failed may have objects in the namespace
                left.undiscovered = found.incomplete().map(|why| {
                    let count = found.stale.len();
                    format!("Discovery failed for some groups, {count} failing: {why}")
                });
            }
            Err(error) => left.undiscovered = Some(error.to_string()),
        }
        let now = self.clock.now();
        let mut told = namespace.clone();
        told.status_mut().set_conditions(conditions(&namespace, &left, now));
        if told != namespace {
            // Not through the cache: the response is terminating and has no metadata.finalizers,
            // so the cache would take the namespace for deleted.
            told = match namespaces.api().update_status(told).await {
                Err(error) if error.is_not_found() => return Ok(Requeue::OnChange),
                told => told?,
            };
        }
        if !left.is_empty() {
            return Ok(Requeue::After(pause(&namespace, now)));
        }
        match namespaces.api().update_subresource(key, "finalize", &remove_finalizer(told)).await {
            Err(error) if error.is_not_found() => Ok(Requeue::OnChange),
            done => done.map(|_| Requeue::OnChange),
        }
    }
}

/// Whether the namespace is terminating and has our finalizer.
fn is_ours(namespace: &Namespace) -> bool {
    let held = namespace.spec().finalizers().iter().any(|name| name == FINALIZER);
    namespace.is_terminating() && held
}

/// The namespaced resources that can be listed and deleted. Pods come first, so that the objects
/// they use exist until they have terminated.
fn in_order(found: &[DiscoveredResource]) -> Vec<&DiscoveredResource> {
    let is_content = |found: &&DiscoveredResource| {
        found.resource.namespaced && found.preferred && can(found, "list") && can(found, "delete")
    };
    let mut all: Vec<_> = found.iter().filter(is_content).collect();
    all.sort_by_key(|found| !is_pods(&found.resource));
    all
}

fn can(found: &DiscoveredResource, verb: &str) -> bool {
    found.verbs.iter().any(|known| known == verb)
}

fn is_pods(resource: &ApiResource) -> bool {
    resource.group.is_empty() && resource.plural == "pods"
}

async fn delete_all_content(
    client: &Client,
    all: Vec<&DiscoveredResource>,
    namespace: &Namespace,
    now: i64,
    left: &mut RemainingContent,
) {
    for found in all {
        let api = Api::<DynamicObject>::for_resource(client, found.resource.clone());
        match delete_all_of(&api.namespaced(namespace.metadata().name()), found).await {
            Ok(remaining) => left.add(namespace, &found.resource, &remaining, now),
            // The resource's paths are not served, as with a custom resource named `status`: it has
            // no objects, and deletion goes on.
            Err(error) if error.is_not_found() => {}
            Err(error) => left.failures.push(error.to_string()),
        }
        if is_pods(&found.resource) && !left.objects.is_empty() {
            return; // terminating pods may need the rest
        }
    }
}

/// Deletes all objects of a resource, and returns those that remain.
async fn delete_all_of(
    api: &Api<DynamicObject>,
    found: &DiscoveredResource,
) -> Result<Vec<DynamicObject>, Error> {
    let all = Selectors::default();
    let objects = api.list_all(&all).await?.items;
    if objects.is_empty() {
        return Ok(objects);
    }
    let delete =
        DeleteParams { propagation: Some(Propagation::Background), ..DeleteParams::default() };
    if can(found, "deletecollection") {
        api.delete_collection(&all, &delete).await?;
    } else {
        for object in objects {
            match api.delete(&NamespacedName::from_meta(object.metadata()), &delete).await {
                Err(error) if error.is_not_found() => {}
                done => drop(done?),
            }
        }
    }
    Ok(api.list_all(&all).await?.items)
}

/// The seconds since the namespace was deleted.
fn age(namespace: &Namespace, now: i64) -> i64 {
    let since = namespace.metadata().deletion_timestamp().and_then(Time::parse_seconds);
    since.map_or(0, |since| (now - since).max(0))
}

/// How long to wait before the next attempt; grows with the age of the deletion.
fn pause(namespace: &Namespace, now: i64) -> Duration {
    Duration::from_secs((age(namespace, now) / 4).clamp(1, 15).unsigned_abs())
}

/// The namespace without our finalizer.
fn remove_finalizer(mut namespace: Namespace) -> Value {
    let all = namespace.spec().finalizers().iter();
    let others: List<String> = all.filter(|name| *name != FINALIZER).collect();
    namespace.spec_mut().set_finalizers(others);
    let mut body = Value::from(namespace);
    body["apiVersion"] = "v1".into();
    body["kind"] = "Namespace".into();
    body
}

#[cfg(test)]
mod tests {
    use object::{ObjectMeta, View};

    use super::*;

    pub(super) fn deleted_at(seconds: i64) -> Namespace {
        let meta = ObjectMeta::new().with_name("a").with_deletion_timestamp(Time::format(seconds));
        Namespace::new().with_metadata(meta)
    }

    pub(super) fn resource(group: &str, plural: &str) -> ApiResource {
        ApiResource {
            group: group.into(),
            version: "v1".into(),
            plural: plural.into(),
            namespaced: true,
            ..ApiResource::default()
        }
    }

    #[test]
    fn pods_go_first_and_what_cannot_be_deleted_stays() {
        let found = |plural: &str, verbs: &[&str], namespaced| DiscoveredResource {
            resource: ApiResource { namespaced, ..resource("", plural) },
            verbs: verbs.iter().map(|verb| (*verb).into()).collect(),
            preferred: true,
            ..DiscoveredResource::default()
        };
        let all = [
            found("bindings", &["create"], true),
            found("configmaps", &["delete", "list"], true),
            found("nodes", &["delete", "list"], false),
            found("pods", &["delete", "list"], true),
        ];
        let order: Vec<_> =
            in_order(&all).into_iter().map(|found| found.resource.plural.as_str()).collect();
        assert_eq!(order, ["pods", "configmaps"]);
    }

    #[test]
    fn only_our_finalizer_is_removed() {
        let mut namespace = deleted_at(100);
        namespace.spec_mut().set_finalizers(["kubernetes", "x.io/other"]);
        assert!(is_ours(&namespace));
        let body = remove_finalizer(namespace);
        assert!(!is_ours(Namespace::view(&body)));
        assert_eq!(body["spec"]["finalizers"].items().len(), 1);
        assert!(!is_ours(&Namespace::new()));
    }

    #[test]
    fn waits_grow() {
        let waits = [100, 104, 120, 200, 9_000].map(|now| pause(&deleted_at(100), now).as_secs());
        assert_eq!(waits, [1, 1, 5, 15, 15]);
    }
}
