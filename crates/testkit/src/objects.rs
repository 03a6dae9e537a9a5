//! Helpers to create, change and await objects of a test cluster, from JSON.

use std::{fmt::Debug, panic::Location, time::Duration};

use api::core::{Event, Node, Pod, ServiceAccount};
use client::{Api, Client, DeleteParams, Patch, Selectors};
use object::{NamespacedName, Value, from_json};
use schema::{Kind, Scope};
use tokio::time::{sleep, timeout};

/// Timeout of waits; longer than anything takes, even on a busy host.
const DEADLINE: Duration = Duration::from_mins(2);

/// The objects of the namespace `default`, and cluster-scoped objects.
#[derive(Clone, Debug)]
pub struct Objects(Client);

impl Objects {
    pub fn new(client: &Client) -> Self {
        Self(client.clone())
    }

    /// The typed client of a kind.
    pub fn api<K: Kind>(&self) -> Api<K> {
        let api = Api::new(&self.0);
        if K::SCOPE == Scope::Namespaced { api.namespaced("default") } else { api }
    }

    /// Creates an object from JSON.
    #[track_caller]
    pub fn create<K: Kind>(&self, json: &str) -> impl Future<Output = K> {
        let (at, api, object) = (Location::caller(), self.api::<K>(), K::from(tree(json)));
        async move { api.create(object).await.unwrap_or_else(|error| panic!("{at}: {error}")) }
    }

    pub async fn get<K: Kind>(&self, name: &str) -> K {
        self.api::<K>().get(&key::<K>(name)).await.expect("it is there")
    }

    /// Gets an object; `None` if it does not exist.
    pub async fn find<K: Kind>(&self, name: &str) -> Option<K> {
        match self.api::<K>().get(&key::<K>(name)).await {
            Err(error) if error.is_not_found() => None,
            found => Some(found.expect("it can be read")),
        }
    }

    pub async fn list<K: Kind>(&self) -> Vec<K> {
        self.api::<K>().list_all(&Selectors::default()).await.expect("a list").items
    }

    /// Changes an object with a merge patch.
    pub async fn patch<K: Kind>(&self, name: &str, json: &str) -> K {
        let patch = Patch::Merge(tree(json));
        self.api::<K>().patch(&key::<K>(name), &patch).await.expect("it may be changed")
    }

    /// Changes an object's status with a merge patch.
    pub async fn patch_status<K: Kind>(&self, name: &str, json: &str) -> K {
        let patch = Patch::Merge(tree(json));
        self.api::<K>().patch_status(&key::<K>(name), &patch).await.expect("it may be changed")
    }

    /// Deletes an object immediately, without a grace period.
    pub async fn delete_now<K: Kind>(&self, name: &str) {
        let now = DeleteParams { grace_seconds: Some(0), ..DeleteParams::default() };
        self.api::<K>().delete(&key::<K>(name), &now).await.expect("it was there");
    }

    /// Deletes an object with its default grace period.
    pub async fn delete<K: Kind>(&self, name: &str) {
        self.api::<K>()
            .delete(&key::<K>(name), &DeleteParams::default())
            .await
            .expect("it was there");
    }

    /// Creates the service account that every pod of `default` needs, for tests without the controller that would
    /// create it.
    pub async fn create_default_account(&self) {
        self.create::<ServiceAccount>(r#"{"metadata":{"name":"default"}}"#).await;
    }

    /// Creates a ready node without taints, with these allocatable resources, such as `"cpu":"1"`.
    pub async fn create_node(&self, name: &str, labels: &str, allocatable: &str) {
        let json = format!(r#"{{"metadata":{{"name":"{name}","labels":{{{labels}}}}}}}"#);
        self.create::<Node>(&json).await;
        self.patch::<Node>(name, r#"{"spec":{"taints":null}}"#).await;
        let status = format!(r#"{{"status":{{"allocatable":{{{allocatable}}}}}}}"#);
        self.patch_status::<Node>(name, &status).await;
    }

    /// Waits until an object meets a condition.
    #[track_caller]
    pub fn until<K: Kind>(
        &self,
        name: &str,
        what: impl Debug,
        mut is: impl FnMut(&K) -> bool,
    ) -> impl Future<Output = K> {
        let (this, name) = (self.clone(), name.to_owned());
        until(what, async move || match this.find::<K>(&name).await {
            Some(found) if is(&found) => Ok(found),
            other => Err(other),
        })
    }

    /// Waits until an object has been deleted.
    #[track_caller]
    pub fn until_gone<K: Kind>(&self, name: &str) -> impl Future<Output = ()> {
        let (this, name) = (self.clone(), name.to_owned());
        until(format!("the end of {name}"), async move || match this.find::<K>(&name).await {
            None => Ok(()),
            Some(other) => Err(other),
        })
    }

    /// Waits for an event about the object of this name.
    #[track_caller]
    pub fn until_event(&self, about: &str, reason: &str) -> impl Future<Output = Event> {
        let (this, about, reason) = (self.clone(), about.to_owned(), reason.to_owned());
        until(format!("{reason} about {about}"), async move || {
            let all = this.list::<Event>().await;
            let is = |event: &&Event| {
                event.involved_object().name() == about && event.reason() == reason
            };
            all.iter().find(is).cloned().ok_or(all)
        })
    }
}

/// Polls `look` until it succeeds; panics with its last error after the timeout.
#[track_caller]
pub fn until<T, E: Debug>(
    what: impl Debug,
    mut look: impl AsyncFnMut() -> Result<T, E>,
) -> impl Future<Output = T> {
    let at = Location::caller();
    async move {
        let mut last = None;
        let found = async {
            loop {
                match look().await {
                    Ok(found) => return found,
                    Err(instead) => last = Some(instead),
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let found = timeout(DEADLINE, found).await.ok();
        found.unwrap_or_else(|| panic!("{at}: waited in vain for {what:?}: {last:#?}"))
    }
}

/// The condition of a pod, as (status, reason, message).
pub fn condition(pod: &Pod, name: &str) -> Option<(String, String, String)> {
    pod.status().condition(name).map(|found| {
        (found.status().to_owned(), found.reason().to_owned(), found.message().to_owned())
    })
}

/// Parses JSON that is written in a test.
pub fn tree(json: &str) -> Value {
    from_json(json.as_bytes()).expect("written in a test")
}

/// The key of an object of this kind: in the namespace `default`, or cluster-scoped.
pub fn key<K: Kind>(name: &str) -> NamespacedName {
    NamespacedName::new(if K::SCOPE == Scope::Namespaced { "default" } else { "" }, name)
}
